package informers

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

func TestAReportThatTheWatchesHadSeenIsMissedForAWhile(t *testing.T) {
	t.Parallel()
	sees := func(k *knownReports, now time.Time, there ...string) []string {
		o := &judge.Observation{Now: now}
		for _, name := range there {
			r := &v1alpha1.SandboxReport{}
			r.Name = name
			o.Reports = append(o.Reports, &podstate.Report{SandboxReport: r})
		}
		k.setMissed(o)
		return slices.Sorted(maps.Keys(o.Missed))
	}
	now := time.Now()
	b := newBench(t)
	nothing := []string(nil)
	equal(t, "of none", sees(b.source.reports, now), nothing)
	one := b.watchEvent("sandboxreports", aReport("7"))
	equal(t, "of one that is there", sees(b.source.reports, now, "worker-1"), nothing)
	b.session.view.remove("sandboxreports", one)
	equal(t, "of one that went", sees(b.source.reports, now.Add(5*time.Minute)), []string{"worker-1"})
	equal(t, "ten minutes later", sees(b.source.reports, now.Add(missedFor)), []string{"worker-1"})
	equal(t, "after that", sees(b.source.reports, now.Add(missedFor+time.Minute)), nothing)

	b.watchEvent("sandboxreports", aReport("8"))
	equal(t, "in caches that are thrown away", sees(b.source.reports, now), []string{"worker-1"}) // nobody told that it went
	b.watchEvent("sandboxreports", aReport("9"))
	equal(t, "and that is there again", sees(b.source.reports, now, "worker-1"), nothing)
	b.watchEvent("sandboxreports", aReport("10"))
	b.source.reports.setMissed(&judge.Observation{Now: now, ReportsUnreadable: true})
	equal(t, "after a pass that could not read reports", sees(b.source.reports, now, "worker-1"), nothing)
}

func TestBothKindsOfPassesReportWhichReportsAreMissed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.session.view.remove("sandboxreports", b.watchEvent("sandboxreports", aReport("7")))
	equal(t, "a full pass", len(b.fullPass(t).Missed), 1)
	o, err := b.source.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "a cache pass", len(o.Missed), 1)
}
