package e2e

import (
	"os"
	"os/exec"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// A statusStage has the product installed from the manifests of deploy. The test plays the controllers, the agents, and
// the leader after its first pass.
type statusStage struct {
	*stage
	one, two   *agent
	live       *pod   // on the node of the first
	kubeconfig string // of the reconciler
}

// writeReports writes the agents' reports.
func (i *statusStage) writeReports(t testing.TB) {
	t.Helper()
	i.one.writeReport(t, i.live.listed(v1alpha1.SandboxReady))
	i.two.writeReport(t)
}

// newStatusStage has a pass recorded, and no reconciler that runs.
func newStatusStage(t *testing.T) *statusStage {
	t.Helper()
	i, v := newServedStage(t)
	v.stop(t)
	return i
}

// newServedStage has a reconciler that runs with the permissions of its ServiceAccount, and has recorded a pass.
func newServedStage(t *testing.T, more ...string) (*statusStage, *server) {
	t.Helper()
	s := newStageWithReports(t, "worker-1", "worker-2")
	kubeconfig := s.applied(t, "../deploy/deployment-with-agent")
	check(t, s.CreateNAD(t.Context(), blue))
	i := &statusStage{stage: s, one: s.agent(t, "worker-1"), two: s.agent(t, "worker-2"), kubeconfig: kubeconfig}
	i.live = s.up(t, "worker-1", "live", blue)
	i.writeReports(t)
	// The Deployment's status is as its controller writes it.
	api := i.Client().AppsV1().Deployments(metav1.NamespaceSystem)
	d := try(api.Get(t.Context(), reconcilerName, metav1.GetOptions{})).must(t)
	d.Status.Replicas, d.Status.ReadyReplicas = 2, 2
	try(api.UpdateStatus(t.Context(), d, metav1.UpdateOptions{})).must(t)
	v := s.serve(t, kubeconfig, append([]string{"--leader-elect", "--agents=required", "--repair"}, more...)...)
	eventually(t, "the pass to be recorded", func() bool {
		return i.annotation(t, kube.PassLease, kube.PassAnnotation) != ""
	})
	return i, v
}

func (i *statusStage) runStatus(t testing.TB, kubeconfig string, more ...string) *outcome {
	t.Helper()
	binary := shipped.program(t, "ip-reconcile")
	cmd := exec.Command(binary, append([]string{"status"}, more...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "KUBECONFIG=" + kubeconfig}
	return start(t, cmd).wait()
}

func (i *statusStage) annotation(t testing.TB, lease, name string) string {
	t.Helper()
	l, err := i.Client().CoordinationV1().Leases(metav1.NamespaceSystem).Get(t.Context(), lease, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	check(t, err)
	return l.Annotations[name]
}
