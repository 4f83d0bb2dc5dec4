//go:build slow

package e2e

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/agent/cri/critest"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// TestAfterARestoreOfEtcdEveryAgentWritesAgain puts back a plain backup of etcd:
// resourceVersions run backwards, and what the agents wrote since is lost.
func TestAfterARestoreOfEtcdEveryAgentWritesAgain(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1", "worker-2")
	nodes := map[string]*fakeNode{}
	for _, name := range []string{"worker-1", "worker-2"} {
		n := newFakeNode(t, name, critest.Containerd)
		n.Set(n.sandbox(t, 1, "10.1.0.0/24", "10.1.0.1"))
		n.agent(t, s.Kubeconfig())
		nodes[name] = n
	}
	s.fresh(t, "worker-1")
	s.fresh(t, "worker-2")
	restore := s.backup(t)
	s.fresh(t, "worker-1")

	// What comes after the backup: a sandbox that the reports name, and a leak.
	one := nodes["worker-1"]
	late := one.sandbox(t, 2, "10.1.0.0/24", "10.1.0.2")
	one.Set(one.sandbox(t, 1, "10.1.0.0/24", "10.1.0.1"), late)
	s.reported(t, "worker-1", "the late sandbox", func(r *v1alpha1.SandboxReport) bool { return stateIn(r, late.ID) == "Ready" })
	s.fresh(t, "worker-1")
	eventually(t, "worker-2 to renew after that", func() bool {
		lease, err := s.Client().CoordinationV1().Leases(harness.LeaseNamespace).Get(t.Context(), "worker-2", metav1.GetOptions{})
		return err == nil && lease.Spec.RenewTime.After(s.report(t, "worker-1").ObservedAt.Time)
	})
	restore()
	s.leakByHand(t)

	for name := range nodes {
		r := s.reported(t, name, "the annotation of a restore", func(r *v1alpha1.SandboxReport) bool { return r.Annotations[v1alpha1.RestoreAnnotation] != "" })
		since := try(time.Parse(time.RFC3339, r.Annotations[v1alpha1.RestoreAnnotation])).must(t)
		if since.After(time.Now()) || time.Since(since) > 5*time.Minute {
			t.Errorf("%s says that it was restored at %s", name, since)
		}
		s.fresh(t, name)
	}
	equal(t, "the late sandbox", stateIn(s.report(t, "worker-1"), late.ID), "Ready")
	// Both have written since, so what is stale may go.
	before := s.contents(t)
	out := s.run(t)
	out.exits(t, 0)
	s.lost(t, before, "10.1.0.0-24 77")
}

func TestNothingIsReleasedBeforeEveryAgentHasWrittenSinceARestore(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1", "worker-2")
	one, two := newFakeNode(t, "worker-1", critest.Containerd), newFakeNode(t, "worker-2", critest.Containerd)
	gone := one.sandbox(t, 3, "10.1.0.0/24", "10.1.0.77")
	one.Set(one.sandbox(t, 1, "10.1.0.0/24", "10.1.0.1"), gone)
	two.Set(two.sandbox(t, 2, "10.1.0.0/24", "10.1.0.2"))
	one.agent(t, s.Kubeconfig())
	s.reported(t, "worker-1", "two sandboxes", func(r *v1alpha1.SandboxReport) bool { return len(r.Sandboxes) == 2 })
	one.forget(t, gone)
	one.Set(one.sandbox(t, 1, "10.1.0.0/24", "10.1.0.1"))
	s.reported(t, "worker-1", "one of them gone", func(r *v1alpha1.SandboxReport) bool { return stateIn(r, gone.ID) == "Gone" })
	// The other agent is cut off from the API server when etcd comes back.
	var cut atomic.Bool
	p := &proxy{before: func(*http.Request) int {
		if cut.Load() {
			return http.StatusServiceUnavailable
		}
		return 0
	}}
	two.agent(t, p.start(t, s))
	s.fresh(t, "worker-1")
	s.fresh(t, "worker-2")
	restore := s.backup(t)
	renewed := time.Now()
	eventually(t, "the agents to renew after the backup", func() bool {
		lease, err := s.Client().CoordinationV1().Leases(harness.LeaseNamespace).Get(t.Context(), "worker-1", metav1.GetOptions{})
		return err == nil && lease.Spec.RenewTime.After(renewed)
	})
	cut.Store(true)
	restore()
	s.pool(t, "10.1.0.0-24", "10.1.0.0/24", map[string]any{"77": entry("default/gone", gone.ID)})
	before := s.contents(t)
	s.reported(t, "worker-1", "the annotation of a restore", func(r *v1alpha1.SandboxReport) bool { return r.Annotations[v1alpha1.RestoreAnnotation] != "" })
	s.fresh(t, "worker-1")
	out := s.run(t)
	out.exits(t, 1)
	out.expect(t, "10.1.0.0-24 10.1.0.77", "Stale PodGone proven")
	s.lost(t, before)
	contains(t, "the run", out.message("10.1.0.0-24 10.1.0.77"), "worker-2")
	cut.Store(false)
	eventuallyWithin(t, 2*time.Minute, "a release, since both have written", func() bool { return len(s.run(t).Released) > 0 })
	s.lost(t, before, "10.1.0.0-24 77")
}

// TestAnAgentThatIsNotHeardReleasesNothing is of agents that die, that are cut off,
// and whose clock is two minutes off.
func TestAnAgentThatIsNotHeardReleasesNothing(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1", "worker-2")
	other := newFakeNode(t, "worker-2", critest.Containerd)
	other.Set(other.another(t))
	other.agent(t, s.Kubeconfig())
	n := newFakeNode(t, "worker-1", critest.Containerd)
	live, phantom := s.up(t, "worker-1", "live", simple("blue", "10.1.0.0/24")), s.up(t, "worker-1", "phantom", simple("blue", "10.1.0.0/24"))
	n.Set(n.another(t), n.owned(t, live), n.owned(t, phantom))
	phantom.forceDelete(t)
	var cut atomic.Bool
	p := &proxy{before: func(*http.Request) int {
		if cut.Load() {
			return http.StatusServiceUnavailable
		}
		return 0
	}}
	a := n.agent(t, p.start(t, s))
	s.fresh(t, "worker-1")
	s.fresh(t, "worker-2")
	before := s.contents(t)
	heard := func(what string) {
		t.Helper()
		out := s.run(t)
		out.exits(t, 0)
		out.expect(t, "10.1.0.0-24 10.1.0.1", "InUse SandboxReady", "10.1.0.0-24 10.1.0.2", "Held PhantomPod")
		s.lost(t, before)
	}
	unheard := func(what string) {
		t.Helper()
		eventuallyWithin(t, 2*time.Minute, "the report to go stale: "+what, func() bool {
			out := s.product(t, "check")
			return out.verdicts()["10.1.0.0-24 10.1.0.2"] == "Held NoFreshReport"
		})
		out := s.run(t)
		out.exits(t, 0)
		equal(t, what+": released", places(out.Released), "")
		if len(out.found("NoFreshReport")) != 1 {
			t.Errorf("%s: no NoFreshReport is found", what)
		}
		s.lost(t, before)
	}
	heard("at first")
	cut.Store(true)
	unheard("cut off")
	cut.Store(false)
	s.fresh(t, "worker-1")
	eventuallyWithin(t, 2*time.Minute, "it to be heard again", func() bool { return s.product(t, "check").verdicts()["10.1.0.0-24 10.1.0.2"] == "Held PhantomPod" })
	heard("back")
	check(t, a.cmd.Process.Kill())
	unheard("dead")
}
