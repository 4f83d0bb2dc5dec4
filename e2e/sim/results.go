package sim

import (
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// reservationBackIn is how soon a process must recreate a reservation that it deleted while the address was in use.
const reservationBackIn = 45 * time.Second

// checkBack checks that a reservation which a process deleted, and which an address in use needs, is back in time,
// unless the process was killed or etcd was restored.
func (s *Simulation) checkBack(k key, d *debt) {
	s.after(reservationBackIn, func() {
		if s.owed[k] == d && s.isOwed(k, d) && !d.by.killed.Load() && !s.restoredSince(d.since) {
			s.fail("the reservation %s, which the product deleted, is missing after %s, and %s uses the address", k.Name,
				reservationBackIn, d.attachment)
		}
	})
}

// removal is an entry that a process removed.
type removal struct {
	by    *client
	asked time.Time // when it sent the write
	pool  key
	slot  string
}

// checkResult checks that the result of a pass that began then names each entry that the pass removed: as released, or
// as one whose release was not confirmed. An ADD that got the address since hides that the entry was removed.
func (s *Simulation) checkResult(r *replica, began time.Time, out *reconciler.Result) {
	named := map[removal]bool{}
	for _, it := range out.Released {
		if it.Allocation != nil {
			named[removal{pool: fakeapi.At(fakeapi.Pools, it.Pool.Namespace, it.Pool.Name), slot: it.Allocation.Key}] = true
		}
	}
	for _, x := range out.Refused {
		if x.Allocation != nil {
			pool := fakeapi.At(fakeapi.Pools, x.Item.Pool.Namespace, x.Item.Pool.Name)
			named[removal{pool: pool, slot: x.Allocation.Key}] = true
		}
	}
	for _, x := range s.removals {
		_, isTaken := allocationsOf(s.api.Get(x.pool))[x.slot]
		if x.by != r.as || x.asked.Before(began) || isTaken || s.api.Get(x.pool) == nil || s.restoredSince(x.asked) {
			continue
		}
		if !named[removal{pool: x.pool, slot: x.slot}] {
			s.fail("%s removed the entry %s of %s, and the result of its pass does not have it", r.as.name, x.slot, x.pool.Name)
		}
	}
	s.removals = slices.DeleteFunc(s.removals, func(x removal) bool { return x.by == r.as })
}
