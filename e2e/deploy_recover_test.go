//go:build slow

package e2e

import (
	"maps"
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

// TestDeploy_RecoverJob runs the command of deploy/recover-job with the token of its pod, in a cluster that has only
// the agents of ip-reconcile after a restore.
func TestDeploy_RecoverJob(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1")
	check(t, s.CreateNAD(t.Context(), blue))
	kubeconfig := s.applied(t, "../deploy/recover-job")
	objects := byName(t, s.rendered(t, "../deploy/recover-job"))
	job := as[batchv1.Job](t, objects["Job ip-reconcile-recover-job"])
	for _, name := range []string{"ClusterRole ip-reconcile-check-recover-job", "ServiceAccount ip-reconcile"} {
		if objects[name] != nil {
			t.Errorf("it has %s", name)
		}
	}
	node := s.agent(t, "worker-1")
	live, leaked := s.up(t, "worker-1", "live", blue), s.up(t, "worker-1", "leaked", blue)
	node.writeReport(t, live.listed(v1alpha1.SandboxReady), leaked.stopped())
	leaked.leak(t)
	complete := s.contents(t)
	s.forget(t, live)
	s.unreserve(t, live.ips[0])

	c := job.Spec.Template.Spec.Containers[0]
	equal(t, "the command", c.Command, []string{"/ip-reconcile"})
	out := product(t, append(c.Args, "--kubeconfig", kubeconfig, "--reconciler-namespace", metav1.NamespaceSystem)...)
	out.exits(t, 0)
	missesNone(t, out)
	equal(t, "what is recorded, with the leaked allocation", slices.Sorted(maps.Keys(s.contents(t))),
		slices.Sorted(maps.Keys(complete)))
}
