package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/informers"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/schedule"
)

// Recorder records passes in the log, in metrics and in events: what is new, once.
// It forgets what it remembers of an allocation once that is gone.
type Recorder struct {
	Log     *slog.Logger
	Metrics *Metrics
	Events  *Events

	held             map[judge.ID]heldSince
	recorded         map[string]time.Time // when it was recorded last, of what is recorded once
	warnedUnverified bool                 // it was logged that the caches cannot be relied upon
	awaitedLogged    time.Time            // when it was last logged for which nodes a restore waits; zero while it waits for none
}

// forgetAfter is how long something must have been gone to be recorded when it comes again: longer than the longest
// pause between passes, and between the tries of what fails.
const forgetAfter = 2 * observeEvery

// isNew reports whether something was not recorded yet, and records it.
func (r *Recorder) isNew(key ...any) bool {
	text, now := fmt.Sprintln(key...), time.Now()
	if r.recorded == nil {
		r.recorded = map[string]time.Time{}
	}
	last, isKnown := r.recorded[text]
	r.recorded[text] = now
	return !isKnown || now.Sub(last) > forgetAfter
}

// heldSince is why and since when something is held.
type heldSince struct {
	reason judge.Reason
	since  time.Time
}

// fullPassStarted and fullPassEnded are around a full pass. Their wording is whereabouts' own
// (v0.9.4, pkg/reconciler): people search their logs for it.
func (r *Recorder) fullPassStarted() { r.Log.Info("starting reconciler run") }

func (r *Recorder) fullPassEnded(out *reconciler.Result, took time.Duration, err error, expression string) {
	r.Metrics.fullPassEnded(took, err, expression)
	if out != nil {
		r.record(out)
		r.logCleanedUp(out)
	}
	if err != nil {
		level := slog.LevelError
		if !r.isNew("failed", err) { // it is tried again and again
			level = slog.LevelDebug
		}
		r.Log.Log(context.Background(), level, "reconciler run failed: "+err.Error())
		return
	}
	s := out.Summary()
	r.Log.Info("reconciler run succeeded", "took", took.Round(time.Millisecond), "pools", s.Pools, "allocations", s.Allocations,
		"inUse", s.InUse, "held", s.Held, "stale", s.Stale, "reservations", s.Reservations, "findings", s.Findings,
		"released", len(out.Released), "left", len(out.Refused))
}

func (r *Recorder) logCleanedUp(out *reconciler.Result) {
	var addresses []string
	for _, it := range out.Released {
		if it.Allocation != nil {
			addresses = append(addresses, it.Text())
		}
	}
	if len(addresses) > 0 {
		r.Log.Info("successfully cleanup IPs: [" + strings.Join(addresses, " ") + "]")
	} else {
		r.Log.Info("no IP addresses to cleanup")
	}
}

// cachePassEnded counts a cache pass. It logs that the caches cannot be relied upon where so many full passes were made
// for that in vain: a watch that is closed for a moment is not worth a warning.
func (r *Recorder) cachePassEnded(err error, fullPasses int) {
	result := "done"
	switch {
	case err == nil:
		if r.warnedUnverified {
			r.Log.Info("the caches can be relied upon again")
			r.warnedUnverified = false
		}
	case errors.Is(err, informers.ErrCacheUnverified):
		result = "unverified"
		r.Log.Debug("no pass over the caches", "why", err)
		if fullPasses > 1 && !r.warnedUnverified {
			r.Log.Warn("until the caches can be relied upon, full passes are made instead of passes over them", "why", err)
			r.warnedUnverified = true
		}
	default:
		result = "failed"
	}
	r.Metrics.cachePasses.WithLabelValues(result).Inc()
}

// record records one pass.
func (r *Recorder) record(out *reconciler.Result) {
	maps.DeleteFunc(r.recorded, func(_ string, last time.Time) bool { return time.Since(last) > forgetAfter })
	r.Metrics.update(out, r.recordHeld(out))
	r.recordReleased(out)
	r.recordRefused(out)
	r.recordFindings(out)
	r.recordAwaited(out)
	r.recordUnrepaired(out)
	for _, note := range out.Notes() {
		if note != out.Restore.Text() && r.isNew(note) { // recordAwaited has logged that
			r.Log.Warn(note)
		}
	}
}

func (r *Recorder) recordReleased(out *reconciler.Result) {
	for _, it := range out.Released {
		if it.Reservation != nil {
			r.Log.Info("removed stale overlappingIP allocation [" + it.Object() + "]")
		} else {
			r.Events.released(it)
		}
	}
}

// recordHeld logs what is newly held, and returns since when the first item is, by reason. A reservation
// that shares an allocation's verdict is not counted beside it.
func (r *Recorder) recordHeld(out *reconciler.Result) map[judge.Reason]time.Time {
	held, oldest := map[judge.ID]heldSince{}, map[judge.Reason]time.Time{}
	for _, items := range [][]*judge.Item{out.Allocations, out.Reservations} {
		for _, it := range items {
			if it.Verdict != judge.Held || it.Reservation != nil && len(it.Related()) > 0 {
				continue
			}
			h, known := r.held[it.ID()]
			if !known || h.reason != it.Reason {
				h = heldSince{it.Reason, out.Observation.Now}
				r.Log.Info("held", append(it.Attrs(), "age", it.Age(out.Observation.Now))...)
			}
			held[it.ID()] = h
			oldest[it.Reason] = reconciler.EarliestNonZero(oldest[it.Reason], h.since)
		}
	}
	r.held = held
	return oldest
}

// recordRefused records what is newly refused.
func (r *Recorder) recordRefused(out *reconciler.Result) {
	for _, x := range out.Refused {
		if x.Why == reconciler.Breaker && r.isNew("MassReleaseRefused") {
			r.Log.Error("mass release refused", "why", x.Detail)
			r.Events.aboutSelf("MassReleaseRefused", x.Detail)
		}
		if r.isNew("refused", x.ID(), x.Why) {
			r.recordRefusal(x)
		}
	}
}

func (r *Recorder) recordRefusal(x reconciler.Refused) {
	r.Metrics.refused.WithLabelValues(string(x.Why)).Inc()
	attrs := append(x.Attrs(), "refusal", x.Why, "detail", x.Detail)
	switch x.Why {
	case reconciler.AwaitingConfirmation, reconciler.Breaker, reconciler.EtcdRestored, reconciler.Paused:
		r.Log.Debug("not released", attrs...)
		return
	}
	r.Log.Warn("not released", attrs...)
	if x.Allocation != nil {
		r.Events.failed(x)
	}
}

func (r *Recorder) recordFindings(out *reconciler.Result) {
	for _, f := range out.Findings {
		message := ""
		if f.Kind == judge.MalformedFinding {
			message = f.Message
		}
		if r.isNew("finding", f.Kind, f.Pool, f.IP, f.Node, f.Pods, f.ContainerIDs, message) {
			r.Log.Warn("found", "kind", f.Kind, "address", f.IP, "pool", f.Pool, "pods", f.Pods, "containerIDs", f.ContainerIDs, "node", f.Node, "message", f.Message)
			r.Events.finding(f, uidOf(f.Pool, out))
		}
	}
}

// logAwaitedEvery is how often it is logged for whom a restore waits, where that changes:
// in a large cluster one node after the other writes its report.
const logAwaitedEvery = time.Minute

// recordAwaited logs for which nodes a restore waits.
func (r *Recorder) recordAwaited(out *reconciler.Result) {
	now := out.Observation.Now
	switch {
	case out.Restore.Complete():
		if !r.awaitedLogged.IsZero() {
			r.Log.Info("every node has written its report since etcd was restored, or needs not")
		}
		r.awaitedLogged = time.Time{}
	case now.Sub(r.awaitedLogged) >= logAwaitedEvery && r.isNew("awaited", out.Restore.Restored, out.Restore.Awaiting):
		r.Log.Error("nothing is released until these nodes have written their reports", "nodes", out.Restore.Awaiting, "lost", out.Restore.LostNodes,
			"restored", out.Restore.Restored, "why", out.Restore.Why)
		r.awaitedLogged = now
	}
}

// recordUnrepaired counts what could not be mended; the reconciler has logged each. What
// the breaker withholds is many at a time, and is logged once with its reason.
func (r *Recorder) recordUnrepaired(out *reconciler.Result) {
	withheld := map[string]int{}
	for _, u := range out.Unrepaired {
		if r.isNew("unrepaired", u.Why, u.Kind, u.Pool, u.IP, u.ContainerIDs) {
			r.Metrics.unrepaired.WithLabelValues(string(u.Why)).Inc()
		}
		if u.Why == reconciler.Breaker {
			withheld[u.Detail]++
		}
	}
	for _, why := range slices.Sorted(maps.Keys(withheld)) {
		if r.isNew("MassRepairRefused", why) {
			r.Log.Error("mass repair refused", "findings", withheld[why], "why", why)
			r.Events.aboutSelf("MassRepairRefused", why)
		}
	}
}

func (r *Recorder) restoreNoticed(why string, when time.Time) {
	r.Metrics.restores.Inc()
	r.Log.Error("etcd was restored: nothing is released until every node has written its report since", "why", why, "at", when)
	r.Events.aboutSelf("EtcdRestored", why+": nothing is released until every node has written its report since; the caches are rebuilt")
}

// CachesRebuilt records that caches disagreed with the API server and are thrown away.
func (r *Recorder) CachesRebuilt(why string) {
	r.Metrics.rebuilds.Inc()
	r.Log.Error("the caches were out of step with the API server and are rebuilt", "why", why)
	r.Events.aboutSelf("CacheRebuilt", "the caches were out of step with the API server and are rebuilt: "+why)
}

// ScheduleChanged records the schedule that is in force. It may be called while a pass is
// recorded.
func (r *Recorder) ScheduleChanged(status schedule.Status) {
	r.Metrics.scheduleChanged(status)
	if status.Err != nil {
		r.Events.aboutSelf("BadSchedule", status.Err.Error())
	}
}
