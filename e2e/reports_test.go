//go:build !slow && !cluster

package e2e

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
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
		out := s.run(t)
		out.exits(t, 0)
		out.expect(t, at(gone), "Held NoFreshReport")
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
	check(t, two.renew()) // since the first run, which has kept what the Lease was
	s.run(t).exits(t, 0)
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
	out := s.run(t)
	out.exits(t, 0)
	out.expect(t, at(phantom), "Held PhantomPod", "reservation "+phantom.ips[0], "Held PhantomPod")
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
