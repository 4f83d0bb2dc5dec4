package reconciler_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

func TestMoreThanAHoldCanTakeIsReleasedInBatches(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 2500)
		r := s.reconciler(nil)
		r.Options.AllowMassRelease = true
		out, _ := run(t, r)
		same(t, "stored", len(s.stored()), 0)
		same(t, "refused", refusalCounts(out), map[reconciler.Refusal]int{})
		same(t, "entries per hold", s.removedPerHold(), []int{1000, 1500})
	})
}

func (s *simulator) removedPerHold() (n []int) {
	for _, h := range s.holds {
		n = append(n, h.removed)
	}
	return n
}

// Sixteen deletes at a time that take 400 ms each: there is room for 80 in the two
// seconds in which new work may begin, and time is left for their entries.
func TestWhatAHoldHasNoRoomForIsLeftToTheNextOne(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 130)
		s.takes["delete"], s.takes["patch"] = 400*time.Millisecond, 500*time.Millisecond
		r := s.reconciler(t)
		r.Options.AllowMassRelease = true
		out, _ := run(t, r)
		same(t, "stored", len(s.stored()), 0)
		same(t, "refused", refusalCounts(out), map[reconciler.Refusal]int{})
		same(t, "entries per hold", s.removedPerHold(), []int{80, 50})
		same(t, "reservations that were put back", s.made("create"), []string{})
	})
}

// A server that hangs for a while in the middle of a run costs the time that it
// hangs, and not the size of all batches that follow.
func TestOneSlowMomentDoesNotCostTheRestOfTheRun(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 4000)
		s.step = func(call, _ string) {
			switch {
			case call == "hold" && len(s.holds) == 1:
				s.takes["fresh"] = 3 * time.Second
			case call == "hold" && len(s.holds) == 4:
				s.takes["fresh"] = 0
			}
		}
		r := s.reconciler(nil)
		r.Options.AllowMassRelease = true
		out, _ := run(t, r)
		same(t, "stored", len(s.stored()), 0)
		same(t, "refused", refusalCounts(out), map[reconciler.Refusal]int{})
		same(t, "entries per hold", s.removedPerHold(), []int{1000, 0, 0, 0, 250, 500, 1000, 1250})
		same(t, "reservations that were put back", s.made("create"), []string{})
	})
}

// Every write of a server needs longer than a hold may rest on one renewal: each
// hold ends after the first, and the next one goes on.
func TestALateAnswerEndsTheHoldAndNotTheRun(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 3)
		s.takes["patch"], s.takes["delete"] = time.Second, time.Second
		out, _ := run(t, s.reconciler(t))
		same(t, "stored", len(s.stored()), 0)
		same(t, "refused", refusalCounts(out), map[reconciler.Refusal]int{})
		same(t, "entries per hold", s.removedPerHold(), []int{0, 3})
		same(t, "reservations that were put back", s.made("create"), []string{})
	})
}

// A server that needs seven seconds for a patch gets them: the Lease is given back
// after five, and what was written is not written again.
func TestAPatchThatOutlastsItsHoldIsNotBrokenOff(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 3)
		s.leaks(redPool, 3)
		s.takes["patch"] = 7 * time.Second
		out, _ := run(t, s.reconciler(t))
		same(t, "stored", len(s.stored()), 0)
		same(t, "refused", refusalCounts(out), map[reconciler.Refusal]int{})
		same(t, "entries per hold", s.removedPerHold(), []int{6})
		same(t, "patches", len(s.made("patch")), 2)
		same(t, "reservations that were put back", s.made("create"), []string{})
	})
}

// ADDs of one node hold the Lease of their slice: the slices of other nodes do
// not wait for it, and nobody is kept waiting for the shared one meanwhile.
func TestASliceWhoseLeaseIsBusyDoesNotKeepTheOthersWaiting(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		for i, pool := range []string{"worker-1-" + bluePool, "worker-2-" + bluePool} {
			s.entry(pool, i+1, fmt.Sprint("default/gone-", i), fmt.Sprint("box-", i), false)
		}
		s.busy = map[string]int{"worker-1-" + bluePool: 2}
		out, _ := run(t, s.reconciler(t))
		same(t, "stored", len(s.stored()), 0)
		same(t, "refused", refusalCounts(out), map[reconciler.Refusal]int{})
		same(t, "entries per hold", s.removedPerHold(), []int{1, 0, 1})
		same(t, "the Leases that are asked for", s.made("hold")[0], "hold [whereabouts worker-1-10.0.0.0-16 worker-2-10.0.0.0-16]")
	})
}

func TestASliceWhoseLeaseIsAlwaysBusyIsLeftForTheNextRun(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.entry("worker-1-"+bluePool, 1, "default/gone", "box", true)
		before := s.stored()
		s.busy = map[string]int{"worker-1-" + bluePool: 1000}
		out, _ := run(t, s.reconciler(t))
		same(t, "stored", s.stored(), before)
		same(t, "refused", refusalCounts(out), map[reconciler.Refusal]int{reconciler.LeaseBusy: 1})
		same(t, "writes", s.made("delete", "patch", "create"), []string{})
	})
}

// A pool that ADDs have changed by each turn with the Lease is read under it.
func TestAPoolThatChangesBeforeEachHoldIsReleasedAllTheSame(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 2)
		key := 100
		s.step = func(call, _ string) {
			if call == "hold" {
				key++
				s.pod(fmt.Sprint("web-", key), "u", key)
				s.entry(bluePool, key, fmt.Sprint("default/web-", key), fmt.Sprint("box-", key), true)
			}
		}
		out, _ := run(t, s.reconciler(t))
		same(t, "refused", refusalCounts(out), map[reconciler.Refusal]int{})
		same(t, "released", len(out.Released), 4)
		same(t, "entries per hold", s.removedPerHold(), []int{0, 2})
		same(t, "reservations that were put back", s.made("create"), []string{})
	})
}
