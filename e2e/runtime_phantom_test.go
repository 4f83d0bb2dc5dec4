//go:build slow

package e2e

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// whereabouts takes an allocation over by pod name and interface. The newcomer requests another network first, so its
// interface on the phantom's network is net2.
func TestRuntime_PhantomBesideASuccessor(t *testing.T) {
	everyContainerd(t, func(t *testing.T, s *stage, n *realNode) {
		red := simple("red", "10.2.0.0/24")
		check(t, errors.Join(s.CreateNAD(t.Context(), blue), s.CreateNAD(t.Context(), red)))
		phantom := n.up(t, "web-0", blue)
		n.sees(t, phantom.id, "Ready")
		phantom.forget(t)

		web := n.object(t, "web-0", red, blue)
		before := s.contents(t)
		s.judges(t, "10.1.0.0-24 10.1.0.1", "Held PhantomPod", "reservation 10.1.0.1", "Held PhantomPod")
		s.checkReleased(t, before) // the newcomer is Pending and has no sandbox

		web.id = try(n.RunPod(t.Context(), web.spec())).must(t)
		n.sees(t, web.id, "Ready")
		before = s.contents(t)
		equal(t, "entries and reservations", len(before), 6)
		equal(t, "the phantom's entry", before["10.1.0.0-24 1"], written(phantom, "net1", "default/web-0"))
		equal(t, "the newcomer's entry", before["10.1.0.0-24 2"], written(web, "net2", "default/web-0"))
		beside := func() {
			t.Helper()
			out := s.judges(t, "10.1.0.0-24 10.1.0.1", "Held PhantomPod", "reservation 10.1.0.1", "Held PhantomPod",
				"10.1.0.0-24 10.1.0.2", "InUse SandboxReady", "reservation 10.1.0.2", "InUse SandboxReady",
				"10.2.0.0-24 10.2.0.1", "InUse SandboxReady", "reservation 10.2.0.1", "InUse SandboxReady")
			equal(t, "conflicts", len(out.found("Conflict")), 0)
			s.checkReleased(t, before)
			n.answers(t, "10.1.0.1", true)
			n.answers(t, "10.1.0.2", true)
		}
		beside()
		web.Pod = try(s.SetRunning(t.Context(), web.Pod)).must(t)
		beside()

		check(t, n.LoseDELs(true))
		check(t, n.StopPod(t.Context(), phantom.id))
		n.answers(t, "10.1.0.1", false)
		s.checkReleased(t, before) // its DEL was lost
		n.sees(t, phantom.id, "Stopped")
		// It stays listed until kubelet removes it.
		equal(t, "its state", try(n.Status(t.Context(), phantom.id)).must(t).Status.State,
			cri.PodSandboxState_SANDBOX_NOTREADY)
		check(t, n.RemovePod(t.Context(), phantom.id))
		n.sees(t, phantom.id, "Gone")
		s.judges(t, "10.1.0.0-24 10.1.0.1", "Stale PodReplaced proven", "10.1.0.0-24 10.1.0.2", "InUse SandboxReady",
			"10.2.0.0-24 10.2.0.1", "InUse SandboxReady")
		s.checkReleased(t, before, "10.1.0.0-24 1", "reservation 10.1.0.1")
		n.answers(t, "10.1.0.2", true)
		n.answers(t, "10.2.0.1", true)
		s.product(t, "check").exits(t, 0)
	})
}

// written is a pod's allocation as in contents.
func written(p *livePod, ifName, podRef string) string {
	return `{"id":"` + p.id + `","ifname":"` + ifName + `","podref":"` + podRef + `"}`
}

// TestRuntime_HungShim stops the shim of a pod's sandbox, so that containerd gets no answer from
// it, and starts the agent afterwards.
func TestRuntime_HungShim(t *testing.T) {
	everyContainerd(t, func(t *testing.T, s *stage, n *realNode) {
		check(t, s.CreateNAD(t.Context(), blue))
		hung, other := n.up(t, "hung", blue), n.up(t, "other", blue)
		n.sees(t, hung.id, "Ready")
		n.sees(t, other.id, "Ready")
		n.agent.stop(t)
		shim := shimOf(t, hung.id)
		check(t, syscall.Kill(shim, syscall.SIGSTOP))
		t.Cleanup(func() { syscall.Kill(shim, syscall.SIGCONT) })

		n.startAgent(t)
		hung.forget(t)
		other.forget(t)
		before := s.contents(t)
		check(t, n.LoseDELs(true))
		check(t, n.StopPod(t.Context(), other.id))
		r := n.sees(t, other.id, "Stopped")
		equal(t, "the one that hangs", stateIn(r, hung.id), "Ready")
		for _, b := range r.Sandboxes {
			if b.ID == hung.id {
				equal(t, "its address", b.Addresses[0].IP, "10.1.0.1")
				equal(t, "unread", b.AddressesUnread, false)
			}
		}
		s.judges(t, "10.1.0.0-24 10.1.0.1", "Held PhantomPod")
		s.checkReleased(t, before, entryAndReservation(2)...)
		n.agent.stop(t)
		// containerd 1.6 gives up on the shim when the agent gives up on containerd, and then answers as if it had asked
		// (services/tasks/local.go, getProcessState): either may be first.
		if n.flavour.Name != harness.ContainerdDebian.Name {
			contains(t, "what the agent said", n.agent.stderr.String(), hung.id)
		}
	})
}

// shimOf is the process that containerd started for a sandbox.
func shimOf(t testing.TB, id string) int {
	t.Helper()
	for _, path := range try(filepath.Glob("/proc/[0-9]*/cmdline")).must(t) {
		text, _ := os.ReadFile(path) // it may have ended
		args := bytes.Split(text, []byte{0})
		if filepath.Base(string(args[0])) == "containerd-shim-runc-v2" && slices.ContainsFunc(args,
			func(a []byte) bool { return string(a) == id }) {
			return try(strconv.Atoi(filepath.Base(filepath.Dir(path)))).must(t)
		}
	}
	t.Fatalf("no shim of %s", id)
	return 0
}

func TestRuntime_SandboxNotListedYet(t *testing.T) {
	everyContainerd(t, func(t *testing.T, s *stage, n *realNode) {
		blocker := s.NewCNIBlocker()
		check(t, s.CreateBlockedNAD(t.Context(), blue, blocker))
		check(t, blocker.Block())
		starting, started := n.held(t, blocker, "starting", blue)
		leaving, left := n.held(t, blocker, "leaving", blue)
		n.sees(t, starting.id, "Attached")
		n.sees(t, leaving.id, "Attached")
		before := s.contents(t)
		kept := func(pairs ...string) {
			t.Helper()
			equal(t, "sandboxes", len(try(n.Sandboxes(t.Context())).must(t)), 0)
			s.judges(t, pairs...)
			s.checkReleased(t, before)
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
		s.checkReleased(t, before, entryAndReservation(2)...)
		try(s.SetRunning(t.Context(), starting.Pod)).must(t)
		s.judges(t, of(1, "InUse SandboxReady")...)
		s.checkReleased(t, before, entryAndReservation(2)...)
		n.answers(t, "10.1.0.1", true)
		n.answers(t, "10.1.0.2", false)
	})
}

func TestRuntime_ContainerdDiesBeforeListing(t *testing.T) {
	everyContainerd(t, func(t *testing.T, s *stage, n *realNode) {
		blocker := s.NewCNIBlocker()
		check(t, s.CreateBlockedNAD(t.Context(), blue, blocker))
		check(t, blocker.Block())
		web, started := n.held(t, blocker, "web", blue)
		n.sees(t, web.id, "Attached")
		before := s.contents(t)
		web.forget(t)
		kept := func(verdict string) {
			t.Helper()
			s.judges(t, of(1, verdict)...)
			s.checkReleased(t, before)
			n.answers(t, "10.1.0.1", true)
		}
		kept("Held Attached")
		n.renews(t)
		n.Kill()
		if err := <-started; err == nil {
			t.Error("the pod is up")
		}
		kept("Held Attached")

		// containerd finds the sandbox on its disk; its ADD continues without containerd.
		check(t, n.Start(t.Context()))
		n.sees(t, web.id, "NotReady")
		kept("Held SandboxNotReady")
		check(t, blocker.Unblock())
		eventually(t, "the ADD to end", func() bool { return len(blocker.Waiting()) == 0 })
		kept("Held SandboxNotReady")

		// kubelet does this with a sandbox of a pod that it does not know.
		check(t, n.LoseDELs(true))
		check(t, n.StopPod(t.Context(), web.id))
		n.answers(t, "10.1.0.1", false)
		n.sees(t, web.id, "Stopped")
		s.checkReleased(t, before)
		s.run(t).exits(t, 0)
		s.checkReleased(t, before, entryAndReservation(1)...)
	})
}

// held starts a pod up to its ADD, which a blocker holds after whereabouts: the address is recorded and configured, and
// containerd does not list the sandbox.
func (n *realNode) held(t testing.TB, blocker harness.CNIBlocker, name string, networks ...harness.Network) (p *livePod,
	done <-chan error) {
	t.Helper()
	p = n.object(t, name, networks...)
	before := blocker.Waiting()
	ended := make(chan error, 1)
	go func() {
		_, err := n.RunPod(t.Context(), p.spec())
		ended <- err
	}()
	eventually(t, "the ADD of "+name+" to wait", func() bool {
		return len(blocker.Waiting()) > len(before) ||
			len(ended) > 0
	})
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
