package serve

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/record"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore/restoretest"
)

// What an operator learns of a fence, in the order in which it happens. The counters go on from row to row.
func TestRecorder_FenceEvents(t *testing.T) {
	registry, events := prometheus.NewRegistry(), record.NewFakeRecorder(1)
	var log strings.Builder
	r := newRecorder(&log)
	r.Metrics, r.Events = NewMetrics(registry), &Events{EventRecorder: events}
	timedOut := restore.Lowered{Outcome: restore.TimedOut, Age: 90 * time.Second, Remaining: "3 allocations"}
	byLeader := timedOut
	byLeader.IsLeader = true
	for _, c := range []struct {
		event                    restore.Event
		fence, settled, timedOut float64
		log, says                string
	}{
		{restore.Unreachable{Err: errors.New("refused")}, 0, 0, 0, "", ""}, // logged at the level debug
		{restore.NotRaised{Why: "older"}, 0, 0, 0, `level=WARN msg="Cannot raise the fence, because no pool is known yet" ` +
			"reason=older", ""},
		{restore.Raised{Why: "older", Timeout: 90 * time.Second}, 0, 0, 0,
			`level=ERROR msg="Raising the fence after a restore of etcd" reason=older timeout=1m30s`,
			"Warning FenceRaised etcd was restored (older); whereabouts' ADDs and DELs wait until the pools record all " +
				"addresses in use, for at most 1m30s"},
		{restore.Complete{After: time.Second, SinceOutage: 2 * time.Second}, 1, 0, 0,
			`level=INFO msg="Raised the fence, ADDs and DELs wait" duration=1s sinceOutage=2s`, ""},
		{restore.Lowered{Outcome: restore.Settled, Age: 3 * time.Second}, 0, 1, 0,
			`level=INFO msg="Lowered the fence, no work remains" duration=3s`, ""},
		{restore.Complete{After: time.Second}, 1, 1, 0,
			`level=INFO msg="Raised the fence, ADDs and DELs wait" duration=1s`, ""},
		{restore.Lowered{Outcome: restore.ByPeer, Age: 3 * time.Second}, 0, 1, 0,
			`level=INFO msg="Another replica lowered the fence" duration=3s`, ""},
		{timedOut, 0, 1, 1, `level=ERROR msg="Lowered the fence at its timeout, whereabouts may assign addresses in use" ` +
			`duration=1m30s isLeader=false remaining="3 allocations"`, ""},
		{byLeader, 0, 1, 2, `level=ERROR msg="Lowered the fence at its timeout, whereabouts may assign addresses in use" ` +
			`duration=1m30s isLeader=true remaining="3 allocations"`,
			"Warning FenceTimedOut ADDs and DELs continue after 1m30s, and work remains: 3 allocations"},
	} {
		log.Reset()
		r.FenceEvent(c.event)
		what := fmt.Sprintf("%+v", c.event)
		fences := series(t, registry, "fences_total")
		restoretest.Equal(t, what+": fence, settled, timed out", []float64{valueOf(t, r.Metrics.fence), fences["Settled"],
			fences["TimedOut"]}, []float64{c.fence, c.settled, c.timedOut})
		_, logged, _ := strings.Cut(strings.TrimSpace(log.String()), " ") // without the time
		restoretest.Equal(t, what+": log", logged, c.log)
		said := ""
		if len(events.Events) > 0 {
			said = <-events.Events
		}
		restoretest.Equal(t, what+": Event", said, c.says)
	}
}

// A repair recreates a lost pool under the Lease of its ADDs.
func TestLeasesOf_ALostPool(t *testing.T) {
	pool := ippool.NewPool("kube-system", "blue", netip.MustParsePrefix("10.0.0.0/24"))
	repair := findings.Finding{Kind: findings.Unrecorded, Repair: &findings.Repair{Pool: pool, NewPool: true}}
	leases := leasesOf(&reconciler.Result{Assessment: &findings.Assessment{
		Judgement: &judge.Judgement{Observation: &facts.Observation{}},
		Findings:  []findings.Finding{repair, {Kind: findings.Conflict}}}})
	restoretest.Equal(t, "Leases", leases, "map[kube-system:[whereabouts]]")
}
