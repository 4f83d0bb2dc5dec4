//go:build slow

package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// TestAShimThatHangsCostsOnlyItsOwnSandbox stops the shim of a pod's sandbox, so that
// containerd gets no answer from it, and starts the agent afterwards.
func TestAShimThatHangsCostsOnlyItsOwnSandbox(t *testing.T) {
	everyContainerd(t, func(t *testing.T, flavour harness.Flavour) {
		s := newStageWithReports(t, "worker-1")
		n := s.realNode(t, "worker-1", flavour)
		blue := s.runtimeNetwork(t, "blue", "10.1.0.0/24")
		hung, other := n.up(t, "hung", blue), n.up(t, "other", blue)
		n.sees(t, hung.id, "Ready")
		n.sees(t, other.id, "Ready")
		n.stopAgent(t)
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
		out := s.run(t)
		out.exits(t, 0)
		out.expect(t, "10.1.0.0-24 10.1.0.1", "Held PhantomPod")
		s.lost(t, before, entryAndReservation(2)...)
		n.stopAgent(t)
		// containerd 1.6 gives up on the shim when the agent gives up on containerd, and then answers as if
		// it had asked (services/tasks/local.go, getProcessState): either may be first.
		if said := n.agent.stderr.String(); flavour.Name != harness.ContainerdDebian.Name || strings.Contains(said, hung.id) {
			contains(t, "what the agent said", said, hung.id, "only the network mode of the sandbox is known")
		}
	})
}

// shimOf is the process that containerd started for a sandbox.
func shimOf(t testing.TB, id string) int {
	t.Helper()
	for _, path := range try(filepath.Glob("/proc/[0-9]*/cmdline")).must(t) {
		text, _ := os.ReadFile(path) // it may have ended
		args := bytes.Split(text, []byte{0})
		if filepath.Base(string(args[0])) == "containerd-shim-runc-v2" && slices.ContainsFunc(args, func(a []byte) bool { return string(a) == id }) {
			return try(strconv.Atoi(filepath.Base(filepath.Dir(path)))).must(t)
		}
	}
	t.Fatalf("there is no shim of %s", id)
	return 0
}
