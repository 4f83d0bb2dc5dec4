//go:build !slow && !cluster

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/agent/cri/critest"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

// TestARebootIsSeenWithCRIOsSandboxes: CRI-O wipes all sandboxes at a reboot, has no word on
// network namespaces, and sends no events. It is made up, since CRI-O cannot be
// installed here.
func TestARebootIsSeenWithCRIOsSandboxes(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1")
	n := newFakeNode(t, "worker-1", critest.CRIO)
	blue := simple("blue", "10.1.0.0/24")
	back, lost := s.up(t, "worker-1", "back", blue), s.up(t, "worker-1", "lost", blue)
	n.Set(n.owned(t, back), n.owned(t, lost))
	a := n.agent(t, s.Kubeconfig())
	s.fresh(t, "worker-1")
	s.run(t).expect(t, "10.1.0.0-24 10.1.0.1", "InUse SandboxReady", "10.1.0.0-24 10.1.0.2", "InUse SandboxReady")
	a.stop(t)
	lost.forceDelete(t)

	check(t, s.nodes["worker-1"].SetBootID(t.Context(), "another boot"))
	s.product(t, "check").expect(t, "10.1.0.0-24 10.1.0.2", "Held PhantomPod") // its report is fresh yet, and says Ready
	n.bootID = filepath.Join(t.TempDir(), "boot_id")
	check(t, os.WriteFile(n.bootID, []byte("another boot\n"), 0o600))
	for _, p := range []*pod{back, lost} {
		n.forget(t, critest.Sandbox{ID: p.sandbox.ID, NetNS: filepath.Join(n.netns, p.sandbox.ID[:12])})
	}
	old := back.sandbox.ID
	back.attach(t, blue) // kubelet makes a new sandbox for the same pod
	again := n.owned(t, back)
	again.Attempt = 1
	n.Set(again)
	n.agent(t, s.Kubeconfig())
	r := s.reported(t, "worker-1", "the old ones gone", func(r *v1alpha1.SandboxReport) bool {
		return stateIn(r, old) == "Gone" && stateIn(r, lost.sandbox.ID) == "Gone" && r.BootID == "another boot"
	})
	equal(t, "runtime", r.Runtime.Name, "cri-o")
	s.fresh(t, "worker-1")
	before := s.contents(t)
	out := s.run(t)
	out.exits(t, 0)
	out.expect(t, "10.1.0.0-24 10.1.0.1", "InUse SandboxReady")
	s.lost(t, before, "10.1.0.0-24 2", "reservation 10.1.0.2")
}

// TestEntriesOfOtherProgramsCostOnlyThemselves: half-written, huge and foreign files
// in the caches.
func TestEntriesOfOtherProgramsCostOnlyThemselves(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1")
	n := newFakeNode(t, "worker-1", critest.Containerd)
	good := n.sandbox(t, 1, "10.1.0.0/24", "10.1.0.1")
	n.Set(good)
	half, huge := strings.Repeat("a", 64), strings.Repeat("b", 64)
	check(t, os.WriteFile(filepath.Join(n.results, "podnet-"+half+"-eth0"), []byte(`{"kind":"cniCacheV1","containerId":"`), 0o600))
	check(t, os.WriteFile(filepath.Join(n.results, "podnet-"+huge+"-eth0"), make([]byte, 3<<20), 0o600))
	check(t, os.WriteFile(filepath.Join(n.results, "README"), []byte("foreign"), 0o600))
	check(t, os.Mkdir(filepath.Join(n.multus, strings.Repeat("c", 64)), 0o700))
	n.agent(t, s.Kubeconfig())
	r := s.reported(t, "worker-1", "the good one", func(r *v1alpha1.SandboxReport) bool { return stateIn(r, good.ID) == "Ready" })
	equal(t, "its address", r.Sandboxes[0].Addresses[0].IP, "10.1.0.1")
	equal(t, "half-written", stateIn(r, half), "Attached")
	equal(t, "huge", stateIn(r, huge), "Attached")
}
