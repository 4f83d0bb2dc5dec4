package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/record"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/informers"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
	"github.com/ip-reconcile/ip-reconcile/reconciler/schedule"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// Recorder writes the results of passes to the log, metrics and Events. It writes each fact once.
type Recorder struct {
	Log     *slog.Logger
	Metrics *Metrics
	Events  *Events

	held             map[judge.ID]heldItem
	facts            map[string]time.Time // when each was last observed
	hasWarnedOfCache bool                 // since the last verified cache pass
	pendingLoggedAt  time.Time            // when the nodes that a restore waits for were last logged; zero without any
}

// forgetAfter is how long a fact must be absent to be new again. Passes and tries of failed writes pause for less.
const forgetAfter = 2 * observeEvery

// isNew remembers a fact and reports whether it is new.
func (r *Recorder) isNew(fact ...any) bool {
	text, now := fmt.Sprintln(fact...), time.Now()
	if r.facts == nil {
		r.facts = map[string]time.Time{}
	}
	last, isKnown := r.facts[text]
	r.facts[text] = now
	return !isKnown || now.Sub(last) > forgetAfter
}

// heldItem is the reason of a Held item, and since when it is held for it.
type heldItem struct {
	reason judge.Reason
	since  time.Time
}

// Once logs a single pass as a full pass of a Server. It writes no Events, as whereabouts' own one-shot program (v0.5).
func Once(log *slog.Logger, pass func() (*reconciler.Result, error)) {
	r := &Recorder{Log: log, Metrics: NewMetrics(prometheus.NewRegistry()),
		Events: &Events{EventRecorder: &record.FakeRecorder{}}}
	r.fullPassStarted()
	start := time.Now()
	out, err := pass()
	r.fullPassEnded(out, time.Since(start), err, "")
}

// fullPassStarted logs the start of a full pass. The messages of full passes are those of whereabouts v0.9.4
// (pkg/reconciler), for which people search their logs.
func (r *Recorder) fullPassStarted() { r.Log.Info("starting reconciler run") }

func (r *Recorder) fullPassEnded(out *reconciler.Result, took time.Duration, err error, expression string) {
	r.Metrics.fullPassEnded(took, err, expression)
	if out != nil {
		r.record(out)
		var addresses []string
		for _, it := range out.Released {
			if it.Allocation != nil {
				addresses = append(addresses, it.Text())
			}
		}
		if len(addresses) > 0 {
			r.Log.Info("successfully cleanup IPs", "addresses", addresses)
		} else {
			r.Log.Info("no IP addresses to cleanup")
		}
	}
	if err != nil {
		level := slog.LevelError
		if !r.isNew("failed", err) {
			level = slog.LevelDebug
		}
		r.Log.Log(context.Background(), level, "reconciler run failed", "error", err)
		return
	}
	s := out.Summary()
	r.Log.Info("reconciler run succeeded", "duration", took.Round(time.Millisecond), "pools", s.Pools,
		"allocations", s.Allocations, "inUse", s.InUse, "held", s.Held, "stale", s.Stale,
		"reservations", s.Reservations, "findings", s.Findings, "released", len(out.Released), "refused", len(out.Refused))
}

// cachePassEnded counts a cache pass. It warns of unverified caches only after two full passes, because a watch may be
// closed for a moment.
func (r *Recorder) cachePassEnded(err error, fullPasses int) {
	result := "done"
	switch {
	case err == nil:
		if r.hasWarnedOfCache {
			r.Log.Info("Watch caches are verified again")
			r.hasWarnedOfCache = false
		}
	case errors.Is(err, informers.ErrCacheUnverified):
		result = "unverified"
		r.Log.Debug("Skipped a cache pass", "error", err)
		if fullPasses > 1 && !r.hasWarnedOfCache {
			r.Log.Warn("Making full passes until the watch caches are verified", "error", err)
			r.hasWarnedOfCache = true
		}
	default:
		result = "failed"
	}
	r.Metrics.cachePasses.WithLabelValues(result).Inc()
}

func (r *Recorder) record(out *reconciler.Result) {
	maps.DeleteFunc(r.facts, func(_ string, last time.Time) bool { return time.Since(last) > forgetAfter })
	pools := usage.Of(out.Assessment)
	r.Metrics.update(out, r.recordHeld(out), pools)
	r.poolFull(out, pools)
	r.recordReleased(out)
	r.recordRefused(out)
	r.recordFindings(out)
	r.recordRestore(out)
	r.recordUnrepaired(out)
	for _, note := range out.Notes() {
		if note != out.Restore.Text() && r.isNew(note) { // recordRestore logs that text
			r.Log.Warn("Note on the pass", "note", note)
		}
	}
}

func (r *Recorder) recordReleased(out *reconciler.Result) {
	for _, it := range out.Released {
		if it.Reservation != nil {
			r.Log.Info("removed stale overlappingIP allocation", "reservation", it.Object())
		} else {
			r.Events.released(it)
		}
	}
}

// recordHeld logs newly held items, and returns since when the oldest item is held, by reason. A reservation with the
// verdict of an allocation does not count.
func (r *Recorder) recordHeld(out *reconciler.Result) map[judge.Reason]time.Time {
	held, oldest := map[judge.ID]heldItem{}, map[judge.Reason]time.Time{}
	for _, items := range [][]*judge.Item{out.Allocations, out.Reservations} {
		for _, it := range items {
			if it.Verdict != judge.Held || it.Reservation != nil && len(it.Related()) > 0 {
				continue
			}
			h, isKnown := r.held[it.ID()]
			if !isKnown || h.reason != it.Reason {
				h = heldItem{it.Reason, out.Observation.Now}
				r.Log.Info("Held", append(it.Attrs(), "age", it.Age(out.Observation.Now))...)
			}
			held[it.ID()] = h
			oldest[it.Reason] = plan.EarliestNonZero(oldest[it.Reason], h.since)
		}
	}
	r.held = held
	return oldest
}

func (r *Recorder) recordRefused(out *reconciler.Result) {
	for _, x := range out.Refused {
		if x.Why == plan.Breaker && r.isNew("MassReleaseRefused") {
			r.Log.Error("Refused a mass release", "detail", x.Detail)
			r.Events.aboutSelf("MassReleaseRefused", x.Detail)
		}
		if r.isNew("refused", x.ID(), x.Why) {
			r.recordRefusal(x)
		}
	}
}

func (r *Recorder) recordRefusal(x plan.Refused) {
	r.Metrics.refused.WithLabelValues(string(x.Why)).Inc()
	attrs := append(x.Attrs(), "refusal", x.Why, "detail", x.Detail)
	switch x.Why {
	case plan.AwaitingConfirmation, plan.Breaker, plan.EtcdRestored, plan.Paused:
		r.Log.Debug("Not released", attrs...)
		return
	}
	r.Log.Warn("Not released", attrs...)
	if x.Allocation != nil {
		r.Events.failed(x)
	}
}

func (r *Recorder) recordFindings(out *reconciler.Result) {
	for _, f := range out.Findings {
		message := ""
		if f.Kind == findings.MalformedFinding {
			message = f.Message
		}
		if r.isNew("finding", f.Kind, f.Pool, f.IP, f.Node, f.Pods, f.ContainerIDs, message) {
			r.Log.Warn("Found a defect", "kind", f.Kind, "address", f.IP, "pool", f.Pool, "pods", f.Pods,
				"containerIDs", f.ContainerIDs, "node", f.Node, "message", f.Message)
			r.Events.finding(f, out.Observation.Pools)
		}
	}
}

// logPendingEvery is the minimum time between logs of pending nodes, which may report one after the other.
const logPendingEvery = time.Minute

// recordRestore logs the nodes that a restore waits for.
func (r *Recorder) recordRestore(out *reconciler.Result) {
	now := out.Observation.Now
	switch {
	case out.Restore.Complete():
		if !r.pendingLoggedAt.IsZero() {
			r.Log.Info("All nodes have reported since the restore of etcd, releases continue")
		}
		r.pendingLoggedAt = time.Time{}
	case now.Sub(r.pendingLoggedAt) >= logPendingEvery && r.isNew("awaited", out.Restore.ID, out.Restore.Awaiting):
		r.Log.Error("Releases are paused until nodes report after the restore of etcd", "nodes", out.Restore.Awaiting,
			"lost", out.Restore.LostNodes, "restore", out.Restore.ID, "detected", out.Restore.Restored,
			"reason", out.Restore.Why)
		r.pendingLoggedAt = now
	}
}

// recordUnrepaired counts failed and refused repairs, which the reconciler has logged. It logs refusals by the breaker,
// once per reason.
func (r *Recorder) recordUnrepaired(out *reconciler.Result) {
	refused := map[string]int{}
	for _, u := range out.Unrepaired {
		if r.isNew("unrepaired", u.Why, u.Kind, u.Pool, u.IP, u.ContainerIDs) {
			r.Metrics.unrepaired.WithLabelValues(string(u.Why)).Inc()
		}
		if u.Why == plan.Breaker {
			refused[u.Detail]++
		}
	}
	for _, detail := range slices.Sorted(maps.Keys(refused)) {
		if r.isNew("MassRepairRefused", detail) {
			r.Log.Error("Refused a mass repair", "findings", refused[detail], "detail", detail)
			r.Events.aboutSelf("MassRepairRefused", detail)
		}
	}
}

func (r *Recorder) restoreDetected(id, why string, when time.Time) {
	r.Metrics.restores.Inc()
	r.Log.Error("Detected a restore of etcd, releases are paused until all nodes report", "restore", id, "reason", why,
		"at", when)
	r.Events.aboutSelf("EtcdRestored", "etcd was restored (restore "+id+": "+why+
		"); releases are paused until all nodes report, and the watch caches are rebuilt")
}

// CachesRebuilt records a rebuild of caches that differ from the API server.
func (r *Recorder) CachesRebuilt(why string) {
	r.Metrics.rebuilds.Inc()
	r.Log.Error("Watch caches differ from the API server and are rebuilt", "reason", why)
	r.Events.aboutSelf("CacheRebuilt", "watch caches differ from the API server and are rebuilt: "+why)
}

// ScheduleChanged records the schedule in force. It is safe to call during a pass.
func (r *Recorder) ScheduleChanged(status schedule.Status) {
	r.Metrics.scheduleChanged(status)
	if status.Err != nil {
		r.Events.aboutSelf("BadSchedule", status.Err.Error())
	}
}
