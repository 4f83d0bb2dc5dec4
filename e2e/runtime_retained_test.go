//go:build slow

package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// A stopped sandbox stays listed until kubelet removes it, in the seed case for
// two months. Here one stays and one is removed; both lost their DEL.
func TestAStoppedSandboxLosesItsAddressAtOnceWhetherItIsKeptOrRemoved(t *testing.T) {
	everyContainerd(t, func(t *testing.T, flavour harness.Flavour) {
		s := newStageWithReports(t, "worker-1")
		n := s.realNode(t, "worker-1", flavour)
		blue := s.runtimeNetwork(t, "blue", "10.1.0.0/24")
		kept, removed, live := n.up(t, "kept", blue), n.up(t, "removed", blue), n.up(t, "live", blue)
		for _, p := range []*livePod{kept, removed, live} {
			n.sees(t, p.id, "Ready") // only what was seen can be seen to have gone
		}
		before := s.contents(t)
		equal(t, "entries and reservations", len(before), 6)

		check(t, n.LoseDELs(true))
		for _, p := range []*livePod{kept, removed} {
			check(t, n.StopPod(t.Context(), p.id))
			p.forget(t)
		}
		check(t, n.RemovePod(t.Context(), removed.id))
		equal(t, "the state of what is kept", try(n.Status(t.Context(), kept.id)).must(t).Status.State, cri.PodSandboxState_SANDBOX_NOTREADY)
		n.answers(t, "10.1.0.1", false)
		n.answers(t, "10.1.0.2", false)
		n.sees(t, kept.id, "Stopped")
		n.sees(t, removed.id, "Gone")
		s.lost(t, before)

		out := s.product(t, "run") // with the default --confirm-after
		out.exits(t, 0)
		out.expect(t, "10.1.0.0-24 10.1.0.1", "Stale PodGone proven", "reservation 10.1.0.1", "Stale PodGone proven",
			"10.1.0.0-24 10.1.0.2", "Stale PodGone proven", "reservation 10.1.0.2", "Stale PodGone proven",
			"10.1.0.0-24 10.1.0.3", "InUse SandboxReady", "reservation 10.1.0.3", "InUse SandboxReady")
		s.lost(t, before, "10.1.0.0-24 1", "reservation 10.1.0.1", "10.1.0.0-24 2", "reservation 10.1.0.2")
		containsNot(t, "the log", out.stderr, "waiting before the next pass") // what is proven is freed at once
		n.answers(t, "10.1.0.3", true)
		s.product(t, "check").exits(t, 0)
	})
}

// Nobody calls StopPodSandbox for a phantom whose pause process the kernel killed:
// it is NOTREADY, and its network namespace is there with the address.
func TestASandboxWithoutItsPauseProcessKeepsItsAddressUntilItIsStopped(t *testing.T) {
	everyContainerd(t, func(t *testing.T, flavour harness.Flavour) {
		s := newStageWithReports(t, "worker-1")
		n := s.realNode(t, "worker-1", flavour)
		web := n.up(t, "web-0", s.runtimeNetwork(t, "blue", "10.1.0.0/24"))
		n.sees(t, web.id, "Ready")
		before := s.contents(t)

		check(t, n.KillPause(t.Context(), web.id))
		n.sees(t, web.id, "NotReady")
		out := s.run(t)
		out.exits(t, 0)
		out.expect(t, "10.1.0.0-24 10.1.0.1", "InUse AddressOnPod", "reservation 10.1.0.1", "InUse AddressOnPod")
		s.lost(t, before)

		notReady := func() {
			t.Helper()
			out := s.run(t)
			out.exits(t, 0)
			out.expect(t, "10.1.0.0-24 10.1.0.1", "Held SandboxNotReady", "reservation 10.1.0.1", "Held SandboxNotReady")
			s.lost(t, before)
			n.answers(t, "10.1.0.1", true)
		}
		failed := web.read(t) // somebody says so who is not kubelet
		failed.Status.Phase = corev1.PodFailed
		try(s.Client().CoreV1().Pods(failed.Namespace).UpdateStatus(t.Context(), failed, metav1.UpdateOptions{})).must(t)
		notReady()
		web.forget(t)
		notReady()

		check(t, n.LoseDELs(true))
		check(t, n.StopPod(t.Context(), web.id))
		n.answers(t, "10.1.0.1", false)
		s.lost(t, before) // its DEL was lost
		n.sees(t, web.id, "Stopped")
		out = s.product(t, "run")
		out.exits(t, 0)
		out.expect(t, "10.1.0.0-24 10.1.0.1", "Stale PodGone proven")
		s.lost(t, before, "10.1.0.0-24 1", "reservation 10.1.0.1")
	})
}
