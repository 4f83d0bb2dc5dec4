//go:build !slow && !cluster

package e2e

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/agent/cri/critest"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

func TestWithoutAFreshReportNothingIsConcluded(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1", "worker-2")

	s.play(t, "from a Lease that vouches for another content", func(t *testing.T) {
		one := s.agent(t, "worker-1")
		s.agent(t, "worker-2")
		gone := s.up(t, "worker-1", "gone", blue).leak(t)
		one.writeReport(t, gone.gone())
		one.change(func() { one.lie = strings.Repeat("0", 64) })
		check(t, one.renew())
		before := s.contents(t)
		out := s.judges(t, at(gone), "Held NoFreshReport")
		equal(t, "state", out.Allocations[0].Sandbox, "NoFreshReport")
		if found := out.found("NoFreshReport"); len(found) != 1 || found[0].Node != "worker-1" {
			t.Errorf("the silent nodes are %+v", found)
		}
		s.lost(t, before)
		one.change(func() { one.lie = "" })
		check(t, one.renew())
		s.run(t).expect(t, at(gone), "Stale PodGone proven")
		s.lost(t, before, stored(gone)...)
	})

	s.play(t, "from a report without a Lease", func(t *testing.T) {
		one := s.agent(t, "worker-1")
		gone := s.up(t, "worker-1", "gone", blue).leak(t)
		one.writeReport(t, gone.gone())
		one.change(func() { one.silent = true })
		check(t, s.Client().CoordinationV1().Leases(harness.LeaseNamespace).Delete(t.Context(), "worker-1", metav1.DeleteOptions{}))
		before := s.contents(t)
		s.run(t).expect(t, at(gone), "Held NoFreshReport")
		s.lost(t, before)
	})

	s.play(t, "of a node that has none, if the sandbox may be there", func(t *testing.T) {
		one := s.agent(t, "worker-1")
		running, absent := s.up(t, "worker-1", "running", blue), s.up(t, "worker-2", "absent", blue).leak(t)
		gone := s.up(t, "worker-1", "gone", blue).leak(t)
		one.writeReport(t, running.listed(v1alpha1.SandboxReady), gone.gone())
		before := s.contents(t)
		out := s.run(t)
		// worker-1 knows what was its own, so only that of worker-2 is held.
		out.expect(t, at(running), "InUse SandboxReady", at(gone), "Stale PodGone proven", at(absent), "Held NoFreshReport")
		contains(t, "what is said", out.message(at(absent)), "worker-2")
		s.lost(t, before, stored(gone)...)
		if found := out.found("NoFreshReport"); len(found) != 1 || found[0].Node != "worker-2" {
			t.Errorf("the silent nodes are %+v", found)
		}

		check(t, s.nodes["worker-2"].SetReady(t.Context(), false))
		defer func() { check(t, s.nodes["worker-2"].SetReady(t.Context(), true)) }()
		s.run(t).expect(t, at(absent), "Held NodeUnreachable")
		s.lost(t, before, stored(gone)...)
		s.agent(t, "worker-2") // it is back, and has no such sandbox
		s.run(t).expect(t, at(absent), "Stale PodGone")
		s.lost(t, before, append(stored(gone), stored(absent)...)...)
	})

	s.play(t, "but kubelet's word that it stopped every container counts", func(t *testing.T) {
		s.agent(t, "worker-1")
		done := s.up(t, "worker-2", "done", blue).finish(t, corev1.PodSucceeded)
		failed := s.up(t, "worker-2", "failed", blue).phase(t, corev1.PodFailed)
		before := s.contents(t)
		out := s.run(t)
		out.expect(t, at(done), "Stale PodFinished", at(failed), "Held NoFreshReport")
		s.lost(t, before, stored(done)...)
	})
}

func TestAfterARestoreNothingIsReleasedUntilEveryNodeHasWritten(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1", "worker-2")
	one, two := s.agent(t, "worker-1"), s.agent(t, "worker-2")
	gone, absent := s.up(t, "worker-1", "gone", blue).leak(t), s.up(t, "worker-1", "absent", blue).leak(t)
	one.writeReport(t, gone.gone())
	two.writeReport(t)
	before := s.contents(t)

	// The API server's times have whole seconds: a later one than both reports'.
	restored := time.Now().Truncate(time.Second).Add(time.Second)
	one.change(func() { one.restored = restored.UTC().Format(time.RFC3339) })
	eventually(t, "the next second", func() bool { return time.Now().After(restored) })
	one.writeReport(t, gone.gone())
	refused := func() {
		t.Helper()
		out := s.run(t)
		out.exits(t, 1)
		equal(t, "failed", places(out.Failed), at(gone)+", "+at(absent))
		contains(t, "what is said", out.message(at(gone)), "etcd was restored at "+one.restored, "worker-2 has not written")
		s.lost(t, before)
	}
	check(t, two.renew()) // whether since the restore, no run can tell yet
	two.change(func() { two.silent = true })
	refused()
	refused()
	two.change(func() { two.silent = false })
	// Since the first run, which has kept when it knew of the restore, by more than two API servers' clocks may differ.
	eventually(t, "a renewal that counts", func() bool {
		check(t, two.renew())
		return s.run(t).code == 0
	})
	s.lost(t, before, append(stored(gone), stored(absent)...)...)
}

func TestAPhantomKeepsItsAddressAsLongAsItRuns(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1", "worker-2")
	one := s.agent(t, "worker-1")
	s.agent(t, "worker-2")
	phantom := s.up(t, "worker-1", "web-0", blue)
	phantom.forceDelete(t)
	one.writeReport(t, phantom.listed(v1alpha1.SandboxReady))
	before := s.contents(t)
	out := s.judges(t, at(phantom), "Held PhantomPod", "reservation "+phantom.ips[0], "Held PhantomPod")
	if found := out.found("Phantom"); len(found) != 1 || found[0].Pods[0] != "default/web-0" || found[0].ContainerIDs[0] != phantom.sandbox.ID || found[0].IP != phantom.ips[0] {
		t.Errorf("the phantoms are %+v", found)
	}
	s.product(t, "check").exits(t, 1)
	s.lost(t, before)
	// It is the phantom's in deed, and nobody else gets it.
	equal(t, "the address is configured", try(phantom.sandbox.Has(netip.MustParseAddr(phantom.ips[0]))).must(t), true)
	equal(t, "the address of the next pod", s.up(t, "worker-2", "next", blue).ips[0], "10.1.0.2")

	check(t, phantom.sandbox.Close())
	one.writeReport(t, phantom.stopped())
	before = s.contents(t)
	out = s.product(t, "run") // with the default --confirm-after
	out.expect(t, at(phantom), "Stale PodGone proven")
	s.lost(t, before, stored(phantom)...)
	out.waitsForNothing(t)
}

// The API server dates a write in managedFields, and takes the times of other entries there from whoever writes the
// object: who may write a Lease can date it as he likes. None of that makes it fresh for longer than a minute.
func TestALeaseFromTheFutureConfirmsNothing(t *testing.T) {
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
		// A write that changes nothing but such times is none, and what a manager changes is dated by the API server.
		lease.Labels = map[string]string{"dated": fmt.Sprintf("x%d", by)}
		lease = try(leases.Update(t.Context(), lease, metav1.UpdateOptions{FieldManager: "another"})).must(t)
		is(t, "it is dated as it was written", podstate.LeaseRenewed(lease), by)
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

	// Its renewTime, by the node's clock, is another matter: nothing reads it.
	node.change(func() { node.skew = time.Hour })
	check(t, node.renew())
	lease := try(leases.Get(t.Context(), "worker-1", metav1.GetOptions{})).must(t)
	is(t, "renewTime", lease.Spec.RenewTime.Time, time.Hour)
	is(t, "renewed", podstate.LeaseRenewed(lease), 0)
	verdict("renewed by a clock that is an hour ahead", "Stale PodGone proven")
	dated(-2 * time.Minute)
	verdict("two minutes after that", "Held NoFreshReport")
}

// is checks that a time is about so far from now.
func is(t testing.TB, what string, got time.Time, want time.Duration) {
	t.Helper()
	if off := time.Until(got) - want; off.Abs() > 30*time.Second {
		t.Errorf("%s: %s from now, want %s", what, time.Until(got), want)
	}
}

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
	s.judges(t, "10.1.0.0-24 10.1.0.1", "InUse SandboxReady")
	s.lost(t, before, "10.1.0.0-24 2", "reservation 10.1.0.2")
}
