package reconciler

import (
	"fmt"
	"testing"
	"time"

	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// The leak precedes the agents: no report has its id, so that every node must report. An autoscaler adds a node every
// ten minutes, and its agent first reports 30 s later.
func TestLiveness_NodesThatJoin(t *testing.T) {
	p := newProcess(t, quarter)
	base := All(UsualPool, ReportingWorker())
	released := func(at time.Duration, parts ...Part) bool {
		plan := p.pass(at, append(parts, base)...)
		return len(plan.Release) > 0
	}
	for at := time.Duration(0); at <= 20*minute; at += 10 * minute {
		spot := fmt.Sprint("spot-", int(at/minute))
		if released(at, Node(spot)) { // a watch wakes the reconciler
			t.Fatalf("released %s after the start, while a node was unknown", at)
		}
		if released(at+30*time.Second, Node(spot), FreshReport(spot)) {
			t.Logf("released after %s", at)
			return
		}
		if released(at+9*minute+59*time.Second, Node(spot), FreshReport(spot)) {
			t.Logf("released after %s", at)
			return
		}
	}
	t.Error("within half an hour it was not released, although each node's first report lacked it")
}

// The same with nodes that leave: the machine ends, and its Node object exists for another minute.
func TestLiveness_NodesThatLeave(t *testing.T) {
	p := newProcess(t, quarter)
	base := All(UsualPool, ReportingWorker())
	for at := time.Duration(0); at <= 20*minute; at += 10 * minute {
		for _, plan := range []*Plan{
			p.pass(at, base, Node("spot", NotReadyFor(minute)), ReportRenewed("spot", 70*time.Second)),
			p.pass(at+minute, base, ReportRenewed("spot", 130*time.Second)), // the Node object is gone
			p.pass(at+9*minute, base),
		} {
			if len(plan.Release) > 0 {
				t.Logf("released after %s", at)
				return
			}
		}
	}
	t.Error("within half an hour it was not released")
}
