package reconciler

import (
	"testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// The reservation protects both entries until neither is needed any more.
func TestAReservationOfTwoEntriesStaysUntilBothAreReleased(t *testing.T) {
	res := Reservation("10.0.0.5", "default/web-0", LongAgo)
	wide := func(id, ifName string) Part {
		return Pool("10.0.0.0-16", "10.0.0.0/16", Alloc("5", "default/web-0", id, ifName))
	}
	j := Judged(Observe(UsualPool, wide("box-2", "net2"), res, ReportingWorker(Gone("box-1", UsualUID))), judge.Policy{})
	for _, it := range j.Allocations {
		if it.Proven && len((&change{Item: it}).reservations(map[judge.ID]bool{it.ID(): true})) > 0 {
			t.Errorf("the release of %s deletes the reservation that the unconfirmed entry still has", it.Object())
		}
	}
}
