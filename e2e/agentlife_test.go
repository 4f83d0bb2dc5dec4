//go:build !slow && !cluster

package e2e

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/agent/cri/critest"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

func TestAReportThatSomeoneElseChangesIsWrittenAgain(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1")
	n := newFakeNode(t, "worker-1", critest.Containerd)
	n.Set(n.sandbox(t, 1, "10.1.0.0/24", "10.1.0.1"))
	a := n.agent(t, s.Kubeconfig())
	s.fresh(t, "worker-1")
	want := hashOf(s.report(t, "worker-1"))
	reports := s.Dynamic().Resource(sandboxReports)

	for what, change := range map[string]func(){
		"an entry that was removed": func() {
			_, err := reports.Patch(t.Context(), "worker-1", types.MergePatchType, []byte(`{"sandboxes":[]}`), metav1.PatchOptions{})
			check(t, err)
		},
		"a report that was deleted": func() { check(t, reports.Delete(t.Context(), "worker-1", metav1.DeleteOptions{})) },
	} {
		change()
		r := s.reported(t, "worker-1", what+" back", func(r *v1alpha1.SandboxReport) bool { return len(r.Sandboxes) == 1 })
		equal(t, what, hashOf(r), want)
		equal(t, what+": restored", r.Annotations[v1alpha1.RestoreAnnotation], "")
		s.fresh(t, "worker-1")
	}

	_, err := reports.Patch(t.Context(), "worker-1", types.MergePatchType, []byte(`{"metadata":{"labels":{"team":"net"}}}`), metav1.PatchOptions{})
	check(t, err)
	second := n.sandbox(t, 2, "10.1.0.0/24", "10.1.0.2")
	n.Set(n.sandbox(t, 1, "10.1.0.0/24", "10.1.0.1"), second)
	r := s.reported(t, "worker-1", "two sandboxes", func(r *v1alpha1.SandboxReport) bool { return len(r.Sandboxes) == 2 })
	equal(t, "the label that someone set", r.Labels["team"], "net")
	check(t, s.Client().CoordinationV1().Leases(harness.LeaseNamespace).Delete(t.Context(), "worker-1", metav1.DeleteOptions{}))
	n.forget(t, second)
	n.Set(n.sandbox(t, 1, "10.1.0.0/24", "10.1.0.1"))
	s.reported(t, "worker-1", "one sandbox", func(r *v1alpha1.SandboxReport) bool { return len(r.Sandboxes) == 1 && len(r.Gone) == 1 })
	s.fresh(t, "worker-1")
	a.stop(t)
}

func TestWhatIsGoneStaysGoneWhenTheAgentStartsAgain(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1")
	n := newFakeNode(t, "worker-1", critest.Containerd)
	first, second, third := n.sandbox(t, 1, "10.1.0.0/24", "10.1.0.1"), n.sandbox(t, 2, "10.1.0.0/24", "10.1.0.2"), n.sandbox(t, 3, "10.1.0.0/24", "10.1.0.3")
	n.Set(first, second, third)
	a := n.agent(t, s.Kubeconfig())
	s.fresh(t, "worker-1")
	n.forget(t, first)
	n.Set(second, third)
	s.reported(t, "worker-1", "the first gone", func(r *v1alpha1.SandboxReport) bool { return stateIn(r, first.ID) == "Gone" })
	a.stop(t)
	n.forget(t, second)
	n.Set(third) // while no agent runs
	n.agent(t, s.Kubeconfig())
	r := s.reported(t, "worker-1", "the second gone", func(r *v1alpha1.SandboxReport) bool { return stateIn(r, second.ID) == "Gone" })
	equal(t, "the first", stateIn(r, first.ID), "Gone")
	equal(t, "its UID", r.Gone[0].UID, first.UID)
	equal(t, "the third", stateIn(r, third.ID), "Ready")
}
