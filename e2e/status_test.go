//go:build !slow && !cluster

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// firstScreen is how many lines a terminal shows at once.
const firstScreen = 24

func TestStatusNamesEachFaultAndNoneInAHealthyInstall(t *testing.T) {
	t.Parallel()
	i := newStatusStage(t)
	out := i.healthy(t, "at first")
	contains(t, "status", out.stdout, "0 errors, 0 warnings", "Deployment kube-system/ip-reconcile has 2 of 2 replicas ready", "leads since",
		"The last pass succeeded", "2 of 2 node agents have a fresh report", "admission policies", "has all rights that run needs", "1 allocation in 1 pool: none is stale")
	if strings.Contains(out.stdout, "–") {
		t.Errorf("something is not known in a healthy install:\n%s", out.stdout)
	}
	i.status(t, "-o", "json").exits(t, 0) // by the published schema
	for _, f := range faults() {
		t.Run(f.name, func(t *testing.T) {
			undo := f.plant(t, i)
			var out *outcome
			said := within(2*time.Minute, 200*time.Millisecond, func() bool {
				out = i.status(t)
				return out.code == 1 && namesAll(screen(out.stdout), f.says)
			})
			if !said {
				t.Errorf("the first screen does not say %q (exit code %d):\n%s", f.says, out.code, out.stdout)
			}
			for _, line := range strings.Split(out.stdout, "\n") {
				if (strings.HasPrefix(line, "✗") || strings.HasPrefix(line, "!")) && !f.may(line) {
					t.Errorf("it names another fault, too: %s", line)
				}
			}
			undo()
			i.healthy(t, "after "+f.name)
		})
	}
}

// screen is what a terminal of 24 lines shows first.
func screen(text string) string {
	lines := strings.SplitAfter(text, "\n")
	return unwrapped(strings.Join(lines[:min(firstScreen, len(lines))], ""))
}

func namesAll(text string, parts []string) bool {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}

// A statusStage has the product installed: the manifests of deploy as they are, of which the test plays the
// controllers, the leader after its first pass, and the agents.
type statusStage struct {
	*stage
	one, two *agent
}

func newStatusStage(t *testing.T) *statusStage {
	t.Helper()
	s := newStageWithReports(t, "worker-1", "worker-2")
	kubeconfig := s.applied(t, "../deploy/deployment-with-agent")
	check(t, s.CreateNAD(t.Context(), blue))
	i := &statusStage{stage: s, one: s.agent(t, "worker-1"), two: s.agent(t, "worker-2")}
	live := s.up(t, "worker-1", "live", blue)
	i.one.writeReport(t, live.listed(v1alpha1.SandboxReady))
	i.readyReplicas(t, 2)
	// The real program records a pass with the rights of its ServiceAccount.
	v := s.serve(t, kubeconfig, "--leader-elect", "--agents=required", "--repair")
	eventually(t, "the pass to be recorded", func() bool { return i.annotation(t, kube.PassLease, kube.PassAnnotation) != "" })
	v.stop(t)
	return i
}

// status runs the real binary as an administrator whose terminal has 100 columns.
func (i *statusStage) status(t testing.TB, more ...string) *outcome {
	t.Helper()
	i.leads(t, "ip-reconcile-0_1")
	check(t, i.one.renew())
	check(t, i.two.renew())
	return i.runStatus(t, i.Kubeconfig(), more...)
}

func (i *statusStage) runStatus(t testing.TB, kubeconfig string, more ...string) *outcome {
	t.Helper()
	binary := shipped.program(t, "ip-reconcile")
	cmd := exec.Command(binary, append([]string{"status"}, more...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "COLUMNS=100", "KUBECONFIG=" + kubeconfig}
	return start(t, cmd).wait()
}

func (i *statusStage) healthy(t testing.TB, when string) *outcome {
	t.Helper()
	var out *outcome
	if !within(2*time.Minute, 200*time.Millisecond, func() bool { out = i.status(t); return out.code == 0 }) {
		t.Fatalf("%s it is not healthy (exit code %d):\n%s%s", when, out.code, out.stdout, out.stderr)
	}
	return out
}

// noLeader, as a holder, leaves the Lease without one.
const noLeader = ""

// leads renews the leader's Lease as its elector does, unless a fault has taken it.
func (i *statusStage) leads(t testing.TB, holder string) {
	t.Helper()
	lease := i.lease(t, kube.OwnLease)
	if lease.Annotations["test/fault"] != "" {
		return
	}
	now := metav1.NewMicroTime(time.Now())
	lease.Spec.HolderIdentity, lease.Spec.RenewTime, lease.Spec.AcquireTime = &holder, &now, &now
	try(i.Client().CoordinationV1().Leases(metav1.NamespaceSystem).Update(t.Context(), lease, metav1.UpdateOptions{})).must(t)
}

// readyReplicas writes the Deployment's status as its controller does.
func (i *statusStage) readyReplicas(t testing.TB, n int32) {
	t.Helper()
	api := i.Client().AppsV1().Deployments(metav1.NamespaceSystem)
	d := try(api.Get(t.Context(), reconcilerName, metav1.GetOptions{})).must(t)
	d.Status.Replicas, d.Status.ReadyReplicas = 2, n
	try(api.UpdateStatus(t.Context(), d, metav1.UpdateOptions{})).must(t)
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

func TestStatusOfAClusterThatCannotBeReadEndsWith2(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	nobody := filepath.Join(t.TempDir(), "kubeconfig")
	text := strings.ReplaceAll(string(try(os.ReadFile(s.Kubeconfig())).must(t)), s.Config().BearerToken, "wrong")
	check(t, os.WriteFile(nobody, []byte(text), 0o600))
	product(t, "status", "--kubeconfig", nobody).refuses(t, "does not accept the credentials")
	s.StopAPI()
	product(t, "status", "--kubeconfig", s.Kubeconfig()).refuses(t, "cannot be reached", "check the network")
}

// What it may not read is named; nothing is concluded from it, and the rest is said.
func TestStatusWithFewRightsSaysWhatItCannotKnow(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	s.up(t, "worker-1", "live", blue)
	kubeconfig := s.account(t, "few", []rbacv1.PolicyRule{
		{APIGroups: []string{harnessGroup}, Resources: []string{"ippools", "overlappingrangeipreservations"}, Verbs: []string{"list"}},
	})
	out := product(t, "status", "--kubeconfig", kubeconfig)
	out.exits(t, 1)
	contains(t, "status", unwrapped(out.stdout), "– Deployments, CronJobs and DaemonSets are not known: no right to it",
		"✗ Addresses cannot be judged: no right to list pods", "! This user may not", "list pods (nothing is judged)",
		"get, create, update leases in kube-system (nothing is released)")
	containsNot(t, "status", out.stdout, "No Deployment", "No replica leads", "is missing", "Nobody keeps whereabouts'", "Nothing stands against")
}

const harnessGroup = "whereabouts.cni.cncf.io"

func TestARunInAPodIsRecordedAndOneByHandIsNot(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	i := &statusStage{stage: s}
	kubeconfig := s.applied(t, "../deploy/cronjob")
	s.up(t, "worker-1", "live", blue)
	product(t, "run", "--kubeconfig", kubeconfig).exits(t, 0)
	equal(t, "what a run by hand recorded", i.annotation(t, kube.PassLease, kube.PassAnnotation), "")

	binary := shipped.program(t, "ip-reconcile")
	run := exec.Command(binary, "run", "--kubeconfig", kubeconfig)
	run.Env = []string{"HOME=" + t.TempDir(), "KUBERNETES_SERVICE_HOST=127.0.0.1"}
	start(t, run).wait().exits(t, 0)
	out := i.runStatus(t, s.Kubeconfig())
	out.exits(t, 0)
	contains(t, "status", unwrapped(out.stdout), `✓ CronJob kube-system/ip-reconcile runs at "*/15 * * * *"`, "✓ The last pass succeeded", "next is due at", "– There are no node agents")

	last := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	i.annotate(t, kube.PassLease, kube.PassAnnotation, fmt.Sprintf(`{"at":%q,"result":"Succeeded","took":"1s","succeeded":%q}`, last, last))
	out = i.runStatus(t, s.Kubeconfig())
	out.exits(t, 1)
	contains(t, "status", unwrapped(out.stdout), "✗ The last pass was 60m ago", "overdue since")
	s.mustKubectl(t, "-n", "kube-system", "patch", "cronjob", reconcilerName, "-p", `{"spec":{"suspend":true}}`)
	contains(t, "status of a suspended CronJob", unwrapped(i.runStatus(t, s.Kubeconfig()).stdout), "✗ CronJob kube-system/ip-reconcile is suspended")
}

// A kind of question that is never answered costs its time, and nothing else.
func TestAProbeThatHangsDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	s.up(t, "worker-1", "live", blue)
	s.pauseAll(t, "true")
	p := &proxy{before: func(r *http.Request) int {
		if !strings.HasPrefix(r.URL.Path, "/apis/apps/") && !strings.HasPrefix(r.URL.Path, "/apis/apiextensions.k8s.io/") {
			return 0
		}
		<-r.Context().Done()
		return http.StatusServiceUnavailable
	}}
	kubeconfig := p.start(t, s)
	out := product(t, "status", "--kubeconfig", kubeconfig)
	out.exits(t, 1)
	contains(t, "status", unwrapped(out.stdout), "– Deployments, CronJobs and DaemonSets are not known: no answer in time",
		"– CustomResourceDefinition ippools.whereabouts.cni.cncf.io is not known: no answer in time",
		"! Everything is paused", "✓ 1 allocation in 1 pool: none is stale.", "✓ This user has all rights")
	contains(t, "what to type next", out.stdout, "\n    kubectl --kubeconfig="+kubeconfig+" annotate namespace kube-system ip-reconcile.dev/paused-\n")
	if out.took > 90*time.Second {
		t.Errorf("it took %s", out.took)
	}
}
