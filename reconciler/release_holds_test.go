package reconciler_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// removedPerHold counts the entries that each hold removed.
func (s *simulator) removedPerHold() (n []int) {
	for _, h := range s.holds {
		n = append(n, h.removed)
	}
	return n
}

// whereCallFails makes all calls fail for which is reports true.
func (s *simulator) whereCallFails(err error, is func(call, object string) bool) {
	s.fault = func(call, object string) (error, bool) {
		if is(call, object) {
			return err, false
		}
		return nil, false
	}
}

// slice is the name of the pool of a node's slice, which has its own Lease.
func slice(node string) string { return node + "-" + bluePool }

type refusals = map[plan.Refusal]int

// Many releases, and how many fit into a hold: which entries and reservations stay, why, and how many each hold
// removes.
func TestRelease_Holds(t *testing.T) {
	const always = 1 << 30
	for _, c := range []struct {
		says      string
		blue, red int // leaks
		set       func(s *simulator)
		stays     int // entries and reservations
		refused   refusals
		holds     []int
		check     func(t *testing.T, s *simulator)
	}{
		{says: "more than a hold takes", blue: 5000, holds: []int{1000, 2000, 2000}},
		{says: "the next hold tries what the last one had time for", blue: 3000, set: func(s *simulator) {
			s.takes["delete"] = 40 * time.Millisecond
		}, holds: []int{800, 800, 800, 600}},
		{says: "a hold has room for 80 deletes, and time for their entries", blue: 130, set: func(s *simulator) {
			s.takes["delete"], s.takes["patch"] = 400*time.Millisecond, 500*time.Millisecond
		}, holds: []int{80, 50}},
		{says: "one slow moment does not cost the rest of the run", blue: 4000, set: func(s *simulator) {
			s.step = func(call, _ string) {
				switch {
				case call == "hold" && len(s.holds) == 1:
					s.takes["fresh"] = 3 * time.Second
				case call == "hold" && len(s.holds) == 4:
					s.takes["fresh"] = 0
				}
			}
		}, holds: []int{1000, 0, 0, 0, 250, 500, 1000, 1250}},
		{says: "a hold of one deletes the reservation and has no time for its entry", blue: 2, set: func(s *simulator) {
			s.takes["fresh"] = 11 * time.Second
			s.step = func(call, _ string) {
				switch {
				case call == "hold" && len(s.holds) == 1:
					s.takes["fresh"], s.takes["delete"] = 0, 4500*time.Millisecond
				case call == "hold" && len(s.holds) == 2:
					s.takes["delete"] = 0
				}
			}
		}, holds: []int{0, 0, 1, 1}},
		{says: "a late answer ends the hold, and not the run", blue: 3, set: func(s *simulator) {
			s.takes["patch"], s.takes["delete"] = time.Second, time.Second
		}, holds: []int{0, 3}},
		{says: "a patch that outlasts its hold is not cancelled", blue: 3, red: 3, set: func(s *simulator) {
			s.takes["patch"] = 7 * time.Second
		}, holds: []int{6}, check: func(t *testing.T, s *simulator) { same(t, "patches", len(s.made("patch")), 2) }},
		{says: "ADDs keep the Lease busy, and reading again is slow", blue: 10, set: func(s *simulator) {
			s.takes["hold"], s.takes["refresh"] = 6*time.Second, 2100*time.Millisecond
		}, holds: []int{10}},
		{says: "what a refresh read first is too old at its end", blue: 1,
			set:   func(s *simulator) { s.takes["refreshing"] = 16 * time.Second },
			stays: 2, refused: refusals{plan.WriteFailed: 1}},
		{says: "the server's clock is behind that of the first check", blue: 3,
			set: func(s *simulator) { s.behind = 900 * time.Millisecond }, holds: []int{3}},
		{says: "a pool that ADDs change before each hold is read under it", blue: 2, set: func(s *simulator) {
			key := 100
			s.step = func(call, _ string) {
				if call == "hold" {
					key++
					s.pod(fmt.Sprint("web-", key), "u", key)
					s.entry(bluePool, key, fmt.Sprint("default/web-", key), fmt.Sprint("box-", key), true)
				}
			}
		}, stays: 2, holds: []int{2}},
		{says: "the second check never fits into a hold", blue: 3,
			set: func(s *simulator) { s.takes["fresh"] = 11 * time.Second }, stays: 6, refused: refusals{plan.WriteFailed: 3}},
		{says: "nor does that of many, which does not take a hold for each", blue: 3000,
			set:   func(s *simulator) { s.takes["fresh"] = 11 * time.Second },
			stays: 6000, refused: refusals{plan.WriteFailed: 3000}, check: func(t *testing.T, s *simulator) {
				if len(s.holds) > 15 {
					t.Errorf("%d holds", len(s.holds))
				}
			}},
		{says: "a change for which no hold has time does not keep the others", blue: 40, set: func(s *simulator) {
			s.entry("0-wide-10.0.0.0-16", 900, "default/gone-900", "box-900", true)
			s.slow = func(call, object string) time.Duration {
				if call == "fresh" && strings.Contains(object, "wide") {
					return 11 * time.Second
				}
				return 0
			}
		}, stays: 2, refused: refusals{plan.WriteFailed: 1}},
		// A write of the hold's last second may arrive when others hold the Lease.
		{says: "the second check takes all of the hold, of an entry without a reservation", set: func(s *simulator) {
			s.entry(bluePool, 1, "default/gone-1", "box-1", false)
			s.takes["fresh"] = 4200 * time.Millisecond
		}, stays: 1, refused: refusals{plan.WriteFailed: 1}, check: func(t *testing.T, s *simulator) {
			same(t, "writes", s.made("patch"), []string{})
		}},
		{says: "the patch never fits", blue: 3, set: func(s *simulator) { s.takes["patch"] = 11 * time.Second },
			stays: 6, refused: refusals{plan.WriteFailed: 3}},
		{says: "B2: a pool that always changes does not keep the others", blue: 2, red: 2, set: func(s *simulator) {
			s.step = func(call, object string) {
				if call == "patch" && object == bluePool {
					faults["pool rewritten"].before(s)
				}
			}
		}, stays: 4, refused: refusals{plan.Changed: 2}, check: func(t *testing.T, s *simulator) {
			if n := len(s.made("patch")); n > 20 {
				t.Errorf("%d patches were sent", n)
			}
		}},
		{says: "each is given up for its own error", blue: 1, red: 1, set: func(s *simulator) {
			s.step = func(call, object string) {
				if call == "patch" && object == redPool {
					s.changePool(redPool, func(*unstructured.Unstructured) {})
				}
			}
			s.whereCallFails(errServer, func(call, object string) bool { return call == "patch" && object == bluePool })
		}, stays: 4, refused: refusals{plan.WriteFailed: 1, plan.Changed: 1}},
		{says: "a pool with many items whose patches fail does not keep the others", blue: 1100, red: 3,
			set: func(s *simulator) {
				s.whereCallFails(errServer, func(call, object string) bool { return call == "patch" && object == bluePool })
			}, stays: 2200, refused: refusals{plan.WriteFailed: 1100}},
		{says: "nor does one that may not be written", blue: 1100, red: 3, set: func(s *simulator) {
			s.whereCallFails(faults["forbidden"].err, func(call, object string) bool {
				return call == "patch" && object == bluePool
			})
		}, stays: 2200, refused: refusals{plan.WriteFailed: 1100}},
		{says: "what was released before the Lease got busy counts", blue: 1500, set: func(s *simulator) {
			s.whereCallFails(apply.ErrLeaseBusy, func(call, _ string) bool { return call == "hold" && len(s.holds) > 0 })
		}, stays: 1000, refused: refusals{plan.LeaseBusy: 500}, holds: []int{1000}},
		{says: "without the Lease nothing of several batches is tried", blue: 1500,
			set:   func(s *simulator) { s.fault = failing("hold", apply.ErrLeaseBusy) },
			stays: 3000, refused: refusals{plan.LeaseBusy: 1500}},
		{says: "every reservation is recreated, however many", blue: 500, set: func(s *simulator) {
			s.takes["create"], s.fault = 500*time.Millisecond, failing("patch", errServer)
		}, stays: 1000, refused: refusals{plan.WriteFailed: 500}},
		{says: "calls that hang do not delay the recreation of others", blue: 100, set: func(s *simulator) {
			s.fault = failing("patch", errServer)
			var mu sync.Mutex
			hung := map[string]int{}
			s.slow = func(call, object string) time.Duration {
				mu.Lock()
				defer mu.Unlock()
				if hung[object]++; call != "create" || len(object) > len("10.0.0.9") || hung[object] > 2 {
					return 0
				}
				return 30 * time.Second
			}
		}, stays: 200, refused: refusals{plan.WriteFailed: 100}},
		{says: "a slow server has no more than a batch of entries without their reservations", blue: 200,
			set: func(s *simulator) {
				s.takes["delete"] = 900 * time.Millisecond
				s.step = func(string, string) {
					s.mu.Lock()
					defer s.mu.Unlock()
					if n := len(s.entries(bluePool)) - len(s.all(fakeapi.Reservations)); n > 32 {
						s.late = append(s.late, fmt.Sprint(n, " entries are without their reservations"))
					}
				}
			}},
		{says: "a slice whose Lease is busy does not keep the others waiting", set: func(s *simulator) {
			s.entry(slice("worker-1"), 1, "default/gone-1", "box-1", false)
			s.entry(slice("worker-2"), 2, "default/gone-2", "box-2", false)
			s.busy = map[string]int{slice("worker-1"): 2}
		}, holds: []int{1, 0, 1}, check: func(t *testing.T, s *simulator) {
			same(t, "the Leases that are asked for", s.made("hold")[0],
				"hold [whereabouts worker-1-10.0.0.0-16 worker-2-10.0.0.0-16]")
		}},
		{says: "a slice whose Lease is always busy is given up, and the shared Lease is not held in vain",
			set: func(s *simulator) {
				s.leaks(slice("worker-1"), 100)
				s.busy = map[string]int{slice("worker-1"): always}
			}, stays: 200, refused: refusals{plan.LeaseBusy: 100}, check: func(t *testing.T, s *simulator) {
				if writes := s.made("delete", "patch", "create"); len(s.holds) > 20 || len(writes) > 0 {
					t.Errorf("%d holds, and writes %v", len(s.holds), writes)
				}
			}},
		{says: "a slice with many items whose Lease is busy keeps nobody for long", set: func(s *simulator) {
			s.leaks(slice("worker-1"), 1100)
			s.entry(slice("worker-2"), 1, "default/gone", "box", false)
			s.busy = map[string]int{slice("worker-1"): always}
		}, stays: 2200, refused: refusals{plan.LeaseBusy: 1100}},
		{says: "a slice whose Lease RBAC forbids keeps no other, and is asked for once", set: func(s *simulator) {
			s.leaks(slice("worker-1"), 100)
			s.entry(slice("worker-2"), 101, "default/gone", "box", false)
			s.forbidden = slice("worker-1")
		}, stays: 200, refused: refusals{plan.NoLease: 100}, holds: []int{1}},
		{says: "pools of many slices are read again once", set: func(s *simulator) {
			for i := 1; i <= 300; i++ {
				s.entry(slice(fmt.Sprint("node-", i)), i, fmt.Sprint("default/gone-", i), fmt.Sprint("box-", i), false)
			}
		}, check: func(t *testing.T, s *simulator) {
			if n, holds := len(s.made("refresh")), len(s.made("hold")); n > 3 || holds < 20 {
				t.Errorf("all was read again %d times, for %d holds", n, holds)
			}
		}},
		{says: "recreating reservations does not keep the Lease", blue: 100, set: func(s *simulator) {
			s.takes["create"], s.fault = 100*time.Millisecond, failing("patch", errServer)
			s.step = func(call, _ string) {
				if call == "hold" && len(s.holds) == 1 {
					s.api.Revision = 1 // then nothing may be released any more
					time.Sleep(10 * time.Second)
				}
			}
		}, stays: 200, refused: refusals{plan.EtcdRestored: 100}},
	} {
		inBubble(t, c.says, func(t *testing.T, s *simulator) {
			for pool, n := range map[string]int{bluePool: c.blue, redPool: c.red} {
				if n > 0 {
					s.leaks(pool, n)
				}
			}
			time.Sleep(5 * time.Minute)
			if c.set != nil {
				c.set(s)
			}
			r := s.reconciler(nil)
			r.Options.AllowMassRelease = true
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			began := time.Now()
			out, err := r.Run(ctx)
			if took := time.Since(began); err != nil || took > 5*time.Minute {
				t.Errorf("it took %s: %v", took, err)
			}
			same(t, "entries and reservations that stay", len(s.stored()), c.stays)
			same(t, "refused", refusalCounts(out), c.refused)
			if c.holds != nil {
				same(t, "entries per hold", s.removedPerHold(), c.holds)
				same(t, "recreated reservations", s.made("create"), []string{})
			}
			if c.check != nil {
				c.check(t, s)
			}
			if s.longest > 11*time.Second {
				t.Errorf("a hold took %s", s.longest)
			}
		})
	}
}

// Two overlapping pools record an address for one podref, and share its reservation.
func TestRelease_SharedReservation(t *testing.T) {
	const small = "10.0.0.0-17"
	inBubble(t, "it is released once", func(t *testing.T, s *simulator) {
		s.entry(bluePool, 5, "default/web-0", "box-1", true)
		s.entry(small, 5, "default/web-0", "box-2", false)
		time.Sleep(5 * time.Minute)
		out, _ := run(t, s.reconciler(t))
		same(t, "stored", len(s.stored()), 0)
		same(t, "released", len(out.Released), 3)
	})
	inBubble(t, "it stays until both are released", func(t *testing.T, s *simulator) {
		s.entry(bluePool, 5, "default/web-0", "box-1", true)
		s.entry(small, 5, "default/web-0", "box-2", false)
		time.Sleep(5 * time.Minute)
		s.keepReporting(goneOn("worker-1", v1alpha1.Gone{ID: "box-1", UID: "uid-1"})) // box-2 is not confirmed
		r := s.confirming(t)
		out := pass(t, r)
		same(t, "released", len(out.Released), 1)
		same(t, "stored", s.stored(), map[string]bool{small + " 5": true, "reservation 10.0.0.5": true})
	})
	// The reservation is deleted for the first entry, since the second is to be released, too. The hold ends before that.
	const second = "it is recreated for the second entry, whose pod proves live before the next hold"
	inBubble(t, second, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 199)
		s.entry(bluePool, 200, "default/web-0", "box-blue", true)
		s.entry(small, 200, "default/web-0", "box-small", false)
		time.Sleep(5 * time.Minute)
		s.takes["delete"] = 400 * time.Millisecond
		s.step = func(call, _ string) {
			if call == "hold" && len(s.holds) == 1 {
				s.pod("web-0", "u", 200)
			}
		}
		r := s.reconciler(nil)
		r.Options.AllowMassRelease = true
		run(t, r)
		if stored := s.stored(); stored[bluePool+" 200"] && !stored["reservation 10.0.0.200"] {
			t.Error("the entry of the running pod has no reservation any more")
		}
	})
	for says, lost := range map[string]int{"": 0, ", also where the answer to its delete is lost": 1} {
		inBubble(t, "it is recreated for an entry that an ADD makes in the other pool"+says, func(
			t *testing.T, s *simulator) {
			s.entry(bluePool, 1, "default/web-0", "box-old", true)
			s.poolOf(smallPool, "10.0.0.0/24")
			s.pod("web-0", "uid-2")
			time.Sleep(5 * time.Minute)
			report := goneOn("worker-1", v1alpha1.Gone{ID: "box-old", UID: "uid-1"})
			fails := map[string]int{"delete": lost, "patch": 1}
			s.step = func(call, _ string) {
				if s.setReport(report); call == "patch" && fails[call] > 0 {
					s.fill(smallPool, "1", entryOf("box-new"))
				}
			}
			s.fault = func(call, _ string) (error, bool) {
				if fails[call] == 0 {
					return nil, false
				}
				fails[call]--
				return errServer, call == "delete"
			}
			r := s.confirming(t)
			for range 2 { // proven after a minute
				pass(t, r)
				time.Sleep(2 * time.Minute)
			}
			same(t, "stored", s.stored(), map[string]bool{smallPool + " 1": true, "reservation " + blueAddress: true})
		})
	}
}

// A write whose answer is lost may arrive after the next read.
func TestRelease_WritesThatArriveLate(t *testing.T) {
	inBubble(t, "a patch: the release is reported", func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 1)
		r := s.reconciler(t)
		r.Leases = &landsLate{simulator: s}
		out, _ := run(t, r)
		same(t, "stored", len(s.stored()), 0)
		same(t, "released", len(out.Released), 2)
	})
	// By then its pod is back, and the ADD has adopted the reservation.
	inBubble(t, "a delete: it finds another reservation", func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 2)
		var late *ippool.Reservation
		tries := 0 // the second one follows at once
		s.fault = func(call, object string) (error, bool) {
			if call != "delete" || object != blueAddress || tries == 2 {
				return nil, false
			}
			if tries++; tries == 1 {
				s.mu.Lock()
				late = ippool.Read[ippool.Reservation](s.reservation(object))
				s.mu.Unlock()
				faults["ADD"].before(s)
			}
			return errServer, false
		}
		run(t, s.reconciler(t))
		_ = s.delete(t.Context(), late)
		same(t, "stored", s.stored(), map[string]bool{bluePool + " 1": true, "reservation " + blueAddress: true})
	})
	// An ADD to an overlapping pool that takes the Lease next finds it.
	t.Run("none: an entry that proves live after a failed patch has its reservation before the hold ends",
		func(t *testing.T) {
			bubble(t, func(t *testing.T, s *simulator) {
				s.leaks(bluePool, 2)
				s.fault = func(call, _ string) (error, bool) {
					if call != "patch" || len(s.holds) > 1 {
						return nil, false
					}
					faults["ADD"].before(s)
					return errServer, false
				}
				out, _ := run(t, s.reconciler(t))
				same(t, "calls", s.made("hold", "create", "clear")[:3],
					[]string{"hold [whereabouts]", "create " + blueAddress, "clear "})
				same(t, "released", len(out.Released), 2)
				same(t, "stored", s.stored(), map[string]bool{bluePool + " 1": true, "reservation " + blueAddress: true})
			})
		})
}
