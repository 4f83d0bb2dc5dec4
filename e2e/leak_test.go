//go:build !slow && !cluster

package e2e

import (
	"strings"
	"testing"
)

func TestALeakIsFreed(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2")

	s.play(t, "with its reservation, and the next ADD gets the address", func(t *testing.T) {
		check(t, s.CreateNAD(t.Context(), blue))
		leaked, live := s.up(t, "worker-1", "leaked", blue), s.up(t, "worker-2", "live", blue)
		equal(t, "addresses", []string{leaked.ips[0], live.ips[0]}, []string{"10.1.0.1", "10.1.0.2"})
		leaked.leak(t)
		before := s.contents(t)
		equal(t, "entries and reservations", len(before), 4)

		checked := s.product(t, "check")
		checked.exits(t, 1)
		s.lost(t, before)
		out := s.run(t)
		out.exits(t, 0)
		for _, o := range []*outcome{checked, out} {
			o.expect(t, "10.1.0.0-24 10.1.0.1", "Stale PodGone", "reservation 10.1.0.1", "Stale PodGone",
				"10.1.0.0-24 10.1.0.2", "InUse AddressOnPod", "reservation 10.1.0.2", "InUse AddressOnPod")
		}
		equal(t, "released", places(out.Released), "10.1.0.0-24 10.1.0.1, reservation 10.1.0.1")
		equal(t, "failed", places(out.Failed), "")
		s.lost(t, before, "10.1.0.0-24 1", "reservation 10.1.0.1")

		next := s.up(t, "worker-2", "next", blue)
		equal(t, "the address of the next pod", next.ips[0], "10.1.0.1")
		after := s.product(t, "check")
		after.exits(t, 0)
		after.expect(t, "10.1.0.0-24 10.1.0.1", "InUse AddressOnPod", "reservation 10.1.0.1", "InUse AddressOnPod")
		t.Logf("one leak among two pods: check took %d ms, run %d ms", checked.took.Milliseconds(), out.took.Milliseconds())
	})

	s.play(t, "but not by a dry run, which says what would be", func(t *testing.T) {
		s.up(t, "worker-1", "leaked", blue).leak(t)
		before, leases := s.contents(t), s.leases(t)
		out := s.run(t, "--dry-run")
		out.exits(t, 1)
		equal(t, "released", places(out.Released), "")
		equal(t, "failed", places(out.Failed), "10.1.0.0-24 10.1.0.1")
		contains(t, "the dry run", out.message("10.1.0.0-24 10.1.0.1"), "would be released")
		s.lost(t, before)
		equal(t, "versions of Leases", s.leases(t), leases)
		s.run(t).exits(t, 0)
		s.lost(t, before, "10.1.0.0-24 1", "reservation 10.1.0.1")
	})

	s.play(t, "and explained", func(t *testing.T) {
		p := s.up(t, "worker-1", "leaked", blue).leak(t)
		out := product(t, "explain", "10.1.0.1", "--kubeconfig", s.Kubeconfig())
		out.exits(t, 0)
		contains(t, "explain", out.stdout, "10.1.0.1 in pool kube-system/10.1.0.0-24", "Stale, unconfirmed", "PodGone",
			"none by that name", p.sandbox.ID, "reservation    kube-system/10.1.0.1")
		product(t, "explain", "10.1.0.77", "--kubeconfig", s.Kubeconfig()).exits(t, 1)
		as := s.product(t, "explain", "10.1.0.1")
		equal(t, "explained", places(append(as.Allocations, as.Reservations...)), "10.1.0.0-24 10.1.0.1, reservation 10.1.0.1")
	})

	s.play(t, "and many at once, in one hold of the Lease", func(t *testing.T) {
		var freed []string
		for i := range 12 {
			p := s.up(t, "worker-1", "p-"+string(rune('a'+i)), blue)
			if i%2 == 0 {
				p.leak(t)
				freed = append(freed, "10.1.0.0-24 "+strings.TrimPrefix(p.ips[0], "10.1.0."), "reservation "+p.ips[0])
			}
		}
		before := s.contents(t)
		out := s.run(t, "--log-level", "debug")
		out.exits(t, 0)
		s.lost(t, before, freed...)
		if holds := strings.Count(out.stderr, `msg="a hold of the Lease"`); holds == 0 || holds > 3 { // one, unless the machine stands still
			t.Errorf("%d holds of the Lease for 6 addresses", holds)
		}
	})
}
