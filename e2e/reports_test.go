//go:build !slow && !cluster

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/agent/cri/critest"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// The API server dates a write in managedFields, and accepts the times of other entries there from the writer: an
// account that may write a Lease can date it freely. None of that makes the Lease fresh for longer than a minute.
func TestReports_LeaseFromTheFuture(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1")
	node := s.agent(t, "worker-1")
	gone := s.up(t, "worker-1", "gone", blue).leak(t)
	node.writeReport(t, gone.gone())
	leases := s.Client().CoordinationV1().Leases(harness.LeaseNamespace)
	dated := func(by time.Duration) {
		t.Helper()
		lease := try(leases.Get(t.Context(), "worker-1", metav1.GetOptions{})).must(t)
		for i := range lease.ManagedFields {
			lease.ManagedFields[i].Time = ptr.To(metav1.NewTime(time.Now().Add(by)))
		}
		// A write that changes only such times does not count, and the API server dates what a manager changes.
		lease.Labels = map[string]string{"dated": fmt.Sprintf("x%d", by)}
		lease = try(leases.Update(t.Context(), lease, metav1.UpdateOptions{FieldManager: "another"})).must(t)
		is(t, "it is dated as it was written", podstate.LeaseRenewTime(lease), by)
	}
	verdict := func(what, want string) {
		t.Helper()
		out := s.product(t, "check")
		t.Log(what)
		out.expect(t, at(gone), want)
	}
	verdict("renewed", "Stale PodGone proven")

	dated(time.Hour)
	verdict("dated an hour ahead", "Held NoFreshReport")
	dated(-time.Hour)
	verdict("dated an hour ago", "Held NoFreshReport")

	// Nothing reads its renewTime, which is by the node's clock.
	node.change(func() { node.skew = time.Hour })
	check(t, node.renew())
	lease := try(leases.Get(t.Context(), "worker-1", metav1.GetOptions{})).must(t)
	is(t, "renewTime", lease.Spec.RenewTime.Time, time.Hour)
	is(t, "renewed", podstate.LeaseRenewTime(lease), 0)
	verdict("renewed by a clock that is an hour ahead", "Stale PodGone proven")
	dated(-2 * time.Minute)
	verdict("two minutes after that", "Held NoFreshReport")
}

// is checks that a time is about this far from now.
func is(t testing.TB, what string, got time.Time, want time.Duration) {
	t.Helper()
	if off := time.Until(got) - want; off.Abs() > 30*time.Second {
		t.Errorf("%s: %s from now, want %s", what, time.Until(got), want)
	}
}

// TestReports_RebootWithCRIO: CRI-O wipes all sandboxes at a reboot, reports no network namespaces, and sends
// no events. It is simulated, since CRI-O cannot be installed here.
func TestReports_RebootWithCRIO(t *testing.T) {
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
	// its report is still fresh, and has it Ready
	s.product(t, "check").expect(t, "10.1.0.0-24 10.1.0.2", "Held PhantomPod")
	n.bootID = filepath.Join(t.TempDir(), "boot_id")
	check(t, os.WriteFile(n.bootID, []byte("another boot\n"), 0o600))
	for _, p := range []*pod{back, lost} {
		n.forget(t, critest.Sandbox{ID: p.sandbox.ID, NetNS: filepath.Join(n.netns, p.sandbox.ID[:12])})
	}
	old := back.sandbox.ID
	back.attach(t, blue) // kubelet creates a new sandbox for the same pod
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
	s.judges(t, "10.1.0.0-24 10.1.0.1", "InUse SandboxReady")
	s.checkReleased(t, before, "10.1.0.0-24 2", "reservation 10.1.0.2")
}
