//go:build !slow && !cluster

package e2e

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

func TestRelease_Leak(t *testing.T) {
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
		s.checkReleased(t, before)
		out := s.run(t)
		out.exits(t, 0)
		for _, o := range []*outcome{checked, out} {
			o.expect(t, "10.1.0.0-24 10.1.0.1", "Stale PodGone", "reservation 10.1.0.1", "Stale PodGone",
				"10.1.0.0-24 10.1.0.2", "InUse AddressOnPod", "reservation 10.1.0.2", "InUse AddressOnPod")
		}
		equal(t, "released", places(out.Released), "10.1.0.0-24 10.1.0.1, reservation 10.1.0.1")
		equal(t, "failed", places(out.Failed), "")
		s.checkReleased(t, before, "10.1.0.0-24 1", "reservation 10.1.0.1")

		next := s.up(t, "worker-2", "next", blue)
		equal(t, "the address of the next pod", next.ips[0], "10.1.0.1")
		after := s.product(t, "check")
		after.exits(t, 0)
		after.expect(t, "10.1.0.0-24 10.1.0.1", "InUse AddressOnPod", "reservation 10.1.0.1", "InUse AddressOnPod")
		t.Logf("one leak among two pods: check took %d ms, run %d ms", checked.took.Milliseconds(), out.took.Milliseconds())
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
		s.checkReleased(t, before, freed...)
		// one, unless the machine stands still
		if holds := strings.Count(out.stderr, `msg="Held whereabouts' Leases"`); holds == 0 || holds > 3 {
			t.Errorf("%d holds of the Lease for 6 addresses", holds)
		}
	})
}

// TestAuditLog_DistinguishesDELFromRelease checks the source of the oracles' blame.
func TestAuditLog_DistinguishesDELFromRelease(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	ended, lost := s.up(t, "worker-1", "ended", blue), s.up(t, "worker-1", "lost", blue)
	log := s.AuditLog()
	try(log.Next()).must(t)
	ended.del(t)
	lost.leak(t)
	s.run(t).exits(t, 0)
	s.forget(t, s.up(t, "worker-1", "forgotten", blue))

	by := map[string][]harness.Write{}
	eventually(t, "the log to have it", func() bool {
		for _, w := range try(log.Next()).must(t) {
			by[w.Program] = append(by[w.Program], w)
		}
		return len(by["e2e.test"]) > 0
	})
	removed := func(program string) (keys, reservations []string) {
		for _, w := range by[program] {
			keys = append(keys, w.Removed...)
			if w.Verb == "delete" {
				reservations = append(reservations, w.Name)
			}
		}
		return keys, reservations
	}
	for program, address := range map[string]string{"whereabouts": "1", "ip-reconcile": "2"} {
		keys, reservations := removed(program)
		equal(t, "entries removed by "+program, keys, []string{address})
		equal(t, "reservations removed by "+program, reservations, []string{"10.1.0." + address})
	}
	keys, _ := removed("e2e.test")
	equal(t, "entries removed by the test", keys, []string{"1"})
	for _, w := range by["ip-reconcile"] {
		if w.Resource == harness.IPPools.Resource && w.Base == 0 {
			t.Errorf("it is for no version: %s", w)
		}
	}
}

const protectingPolicy = "testdata/protect.yaml"

// The API server answers 422 to a write that a policy denies, as for a patch whose test fails. The alert
// IPReconcileWritesDenied stays as long as writes are denied: each try counts.
func TestRelease_DeniedByAPolicy(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	s.Dispose()
	leak := s.up(t, "worker-1", "leak", blue).leak(t)
	s.mustKubectl(t, "apply", "-f", protectingPolicy)
	eventually(t, "the policy to be in force", func() bool {
		_, err := s.of(harness.IPPools).Patch(t.Context(), "10.1.0.0-24", types.JSONPatchType,
			[]byte(`[{"op":"remove","path":"/spec/allocations/1"}]`),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil
	})
	before, log := s.contents(t), s.AuditLog()
	try(log.Next()).must(t)
	out := s.run(t)
	out.exits(t, 1)
	contains(t, "what is said", out.judged(at(leak)).Message, "nobody releases here")
	equal(t, "entries and reservations", slices.Sorted(maps.Keys(s.contents(t))), slices.Sorted(maps.Keys(before)))
	equal(t, "deletes and creates of the reservation", len(try(log.Next()).must(t)), 2)

	v := s.serve(t, s.Kubeconfig(), "--confirm-after", "0s", "--pool-metrics=false")
	v.counts(t, `ip_reconcile_denied_writes_total`, 3)
	equal(t, "series of pools", v.metric(`ip_reconcile_pool_addresses`), 0)
	v.is(t, `ip_reconcile_release_delay_seconds_count{proof="unconfirmed"}`, 0)
	s.mustKubectl(t, "delete", "-f", protectingPolicy)
	s.waitReleased(t, time.Minute, "10.1.0.0-24", "1")
	v.is(t, `ip_reconcile_release_delay_seconds_count{proof="unconfirmed"}`, 1)
	v.is(t, `ip_reconcile_candidates`, 0)
}
