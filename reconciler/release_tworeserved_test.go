package reconciler

import (
	"testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// The reservation protects both entries until neither is needed any more.
func TestAReservationOfTwoEntriesStaysUntilBothAreReleased(t *testing.T) {
	res := aReservation("10.0.0.5", "default/web-0", old)
	wide := func(id, ifName string) part {
		return aPool("10.0.0.0-16", "10.0.0.0/16", alloc{"5", "default/web-0", id, ifName})
	}
	j := judged(observe(usualPool, wide("box-2", "net2"), res, onWorker(gone("box-1", its1))), judge.Policy{})
	for _, it := range j.Allocations {
		if it.Proven && len((&releaseAttempt{Item: it}).reservations(map[judge.ID]bool{it.ID(): true})) > 0 {
			t.Errorf("the release of %s deletes the reservation that the unconfirmed entry still has", it.Object())
		}
	}
}
