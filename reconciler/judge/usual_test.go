package judge_test

import (
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// What surrounds the usual allocation in most tests.
var (
	box1     = Sandbox("box-1", UsualUID)
	stopped1 = Sandbox("box-1", UsualUID, NotReady(Closed))
	gone1    = Gone("box-1", UsualUID)
	with5    = WithAddress("10.0.0.5", "")
	with6    = WithAddress("10.0.0.6", "")

	empty    = Pool("10.0.0.0-24", "10.0.0.0/24")
	reserved = Reservation("10.0.0.5", "default/web-0", LongAgo)
	wb       = NAD("wb", WhereaboutsConfig("10.0.0.0/24", ""))

	nodes = All(Node("worker-1"), Node("worker-2"))
	dead1 = Node("worker-1", NotReadyFor(time.Hour), OutOfService)
	dead2 = Node("worker-2", NotReadyFor(time.Hour), OutOfService)

	unreported = Want(judge.Held, judge.NoFreshReportReason, false, judge.NoFreshReport)
)

// usualIn judges the usual allocation.
func usualIn(t *testing.T, parts ...Part) *judge.Item {
	t.Helper()
	return AllocationOf(t, Judged(Observe(parts...), facts.Policy{}), "10.0.0.5")
}
