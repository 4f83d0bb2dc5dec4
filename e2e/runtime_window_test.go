//go:build slow

package e2e

import (
	"slices"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

func TestAnAddressIsKeptBeforeItsSandboxIsListed(t *testing.T) {
	everyContainerd(t, func(t *testing.T, flavour harness.Flavour) {
		s := newStageWithReports(t, "worker-1")
		blue, blocker := simple("blue", "10.1.0.0/24"), s.NewCNIBlocker()
		check(t, s.CreateBlockedNAD(t.Context(), blue, blocker))
		n := s.realNode(t, "worker-1", flavour)
		check(t, blocker.Block())
		starting, started := n.held(t, blocker, "starting", blue)
		leaving, left := n.held(t, blocker, "leaving", blue)
		n.sees(t, starting.id, "Attached")
		n.sees(t, leaving.id, "Attached")
		before := s.contents(t)
		kept := func(pairs ...string) {
			t.Helper()
			equal(t, "sandboxes", len(try(n.Sandboxes(t.Context())).must(t)), 0)
			out := s.run(t)
			out.exits(t, 0)
			out.expect(t, pairs...)
			s.lost(t, before)
			n.answers(t, "10.1.0.1", true)
			n.answers(t, "10.1.0.2", true)
		}
		kept(slices.Concat(of(1, "InUse PodPending"), of(2, "InUse PodPending"))...)
		leaving.forget(t)
		kept(slices.Concat(of(1, "InUse PodPending"), of(2, "Held Attached"))...)

		check(t, blocker.Unblock())
		check(t, <-started)
		n.sees(t, starting.id, "Ready")
		// Multus finds no pod to write the status to, and containerd undoes the ADD.
		if err := <-left; err == nil {
			t.Error("Multus did not miss the pod")
		}
		s.lost(t, before, entryAndReservation(2)...)
		try(s.SetRunning(t.Context(), starting.Pod)).must(t)
		out := s.run(t)
		out.exits(t, 0)
		out.expect(t, of(1, "InUse SandboxReady")...)
		s.lost(t, before, entryAndReservation(2)...)
		n.answers(t, "10.1.0.1", true)
		n.answers(t, "10.1.0.2", false)
	})
}

func TestAnAddressIsKeptWhenContainerdDiesBeforeItListsTheSandbox(t *testing.T) {
	everyContainerd(t, func(t *testing.T, flavour harness.Flavour) {
		s := newStageWithReports(t, "worker-1")
		blue, blocker := simple("blue", "10.1.0.0/24"), s.NewCNIBlocker()
		check(t, s.CreateBlockedNAD(t.Context(), blue, blocker))
		n := s.realNode(t, "worker-1", flavour)
		check(t, blocker.Block())
		web, started := n.held(t, blocker, "web", blue)
		n.sees(t, web.id, "Attached")
		before := s.contents(t)
		web.forget(t)
		kept := func(verdict string) {
			t.Helper()
			out := s.run(t)
			out.exits(t, 0)
			out.expect(t, of(1, verdict)...)
			s.lost(t, before)
			n.answers(t, "10.1.0.1", true)
		}
		kept("Held Attached")
		n.renews(t)
		n.Kill()
		if err := <-started; err == nil {
			t.Error("the pod is up")
		}
		kept("Held Attached")

		// Containerd finds it on its disk; its ADD goes on without containerd.
		check(t, n.Start(t.Context()))
		n.sees(t, web.id, "NotReady")
		kept("Held SandboxNotReady")
		check(t, blocker.Unblock())
		eventually(t, "the ADD to end", func() bool { return len(blocker.Waiting()) == 0 })
		kept("Held SandboxNotReady")

		// As kubelet does with a sandbox of a pod that it does not know.
		check(t, n.LoseDELs(true))
		check(t, n.StopPod(t.Context(), web.id))
		n.answers(t, "10.1.0.1", false)
		n.sees(t, web.id, "Stopped")
		s.lost(t, before)
		s.run(t).exits(t, 0)
		s.lost(t, before, entryAndReservation(1)...)
	})
}

// held brings a pod as far as its ADD, which a blocker holds after whereabouts: the
// address is recorded and configured, and containerd does not list the sandbox.
func (n *realNode) held(t testing.TB, blocker harness.CNIBlocker, name string, networks ...harness.Network) (p *livePod, done <-chan error) {
	t.Helper()
	p = n.object(t, name, networks...)
	before := blocker.Waiting()
	ended := make(chan error, 1)
	go func() {
		_, err := n.RunPod(t.Context(), p.spec())
		ended <- err
	}()
	eventually(t, "the ADD of "+name+" to wait", func() bool { return len(blocker.Waiting()) > len(before) || len(ended) > 0 })
	if len(ended) > 0 {
		t.Fatalf("the ADD of %s did not wait: %v", name, <-ended)
	}
	for _, id := range blocker.Waiting() {
		if !slices.Contains(before, id) {
			p.id = id
		}
	}
	return p, ended
}
