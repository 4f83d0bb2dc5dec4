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
	refused          map[judge.ID]reconciler.Refusal
	findings         map[string]bool
	notes            map[string]bool
	loggedErrors     map[string]bool // why full passes failed since the last that succeeded
	warnedUnverified bool            // it was logged that the caches cannot be relied upon
	breakerLogged    bool
	awaited          []string  // nodes that a restore waited for when that was last logged
	awaitedLogged    time.Time // when that was

	unrepaired map[string]bool
}

// heldSince is why and since when something is held.
type heldSince struct {
	reason judge.Reason
	since  time.Time
}

// fullPassStarted and fullPassEnded are around a full pass. Their wording is whereabouts' own
// (v0.9.4, pkg/reconciler): people search their logs for it.
func (r *Recorder) fullPassStarted() { r.Log.Info("starting reconciler run") }

func (r *Recorder) fullPassEnded(out *reconciler.Result, took time.Duration, err error) {
	r.Metrics.fullPassEnded(took, err)
	if out != nil {
		r.record(out)
		r.logCleanedUp(out)
	}
	if err != nil {
		r.logFailed(err.Error())
		return
	}
	r.loggedErrors = nil
	s := out.Summary()
	r.Log.Info("reconciler run succeeded", "took", took.Round(time.Millisecond), "pools", s.Pools, "allocations", s.Allocations, "inUse", s.InUse,
		"held", s.Held, "stale", s.Stale, "reservations", s.Reservations, "findings", s.Findings, "released", len(out.Released), "left", out.Left())
}

// maxLoggedErrors bounds what is remembered of errors: some have a text of their own each time.
const maxLoggedErrors = 100

// logFailed logs why a full pass failed, as an error once: it is tried again and again, and of
// kinds that are read in parallel now one and now another fails first.
func (r *Recorder) logFailed(why string) {
	level := slog.LevelError
	if r.loggedErrors[why] {
		level = slog.LevelDebug
	}
	r.Log.Log(context.Background(), level, "reconciler run failed: "+why)
	if r.loggedErrors == nil || len(r.loggedErrors) >= maxLoggedErrors {
		r.loggedErrors = map[string]bool{}
	}
	r.loggedErrors[why] = true
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

// cachePassEnded counts a cache pass.
func (r *Recorder) cachePassEnded(err error) {
	switch {
	case err == nil:
		r.Metrics.cachePasses.WithLabelValues("done").Inc()
		if r.warnedUnverified {
			r.Log.Info("the caches can be relied upon again")
			r.warnedUnverified = false
		}
	case errors.Is(err, informers.ErrCacheUnverified):
		r.Metrics.cachePasses.WithLabelValues("untrusted").Inc()
	default:
		r.Metrics.cachePasses.WithLabelValues("failed").Inc()
	}
}

// cachesUnverified logs that caches cannot be relied upon although full passes were
// made for that: a watch that is closed for a moment is not worth a warning.
func (r *Recorder) cachesUnverified(why error, passes int) {
	r.Log.Debug("no pass over the caches", "why", why)
	if passes > 1 && !r.warnedUnverified {
		r.Log.Warn("until the caches can be relied upon, full passes are made instead of passes over them", "why", why)
		r.warnedUnverified = true
	}
}

// record records one pass.
func (r *Recorder) record(out *reconciler.Result) {
	r.Metrics.update(out, r.recordHeld(out))
	r.recordReleased(out)
	r.recordRefused(out)
	r.recordFindings(out)
	r.recordAwaited(out)
	r.recordUnrepaired(out)
	notes := slices.DeleteFunc(out.Notes(), func(note string) bool { return note == out.Restore.Text() }) // recordAwaited has logged it
	r.notes = forNew(r.notes, notes, func(note string) { r.Log.Warn(note) })
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

// forNew calls f for each text that was not there before, and returns those that are there now.
func forNew(before map[string]bool, now []string, f func(string)) map[string]bool {
	next := map[string]bool{}
	for _, text := range now {
		if !before[text] && !next[text] {
			f(text)
		}
		next[text] = true
	}
	return next
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
			oldest[it.Reason] = reconciler.Sooner(oldest[it.Reason], h.since)
		}
	}
	r.held = held
	return oldest
}

func (r *Recorder) recordRefused(out *reconciler.Result) {
	refused := map[judge.ID]reconciler.Refusal{}
	breaker := ""
	for _, x := range out.Refused {
		refused[x.ID()] = x.Why
		if x.Why == reconciler.Breaker {
			breaker = x.Detail
		}
		r.recordRefusal(x)
	}
	r.keepRefused(refused, out)
	if breaker != "" && !r.breakerLogged {
		r.Log.Error("mass release refused", "why", breaker)
		r.Events.aboutSelf("MassReleaseRefused", breaker)
	}
	r.breakerLogged = breaker != ""
	r.refused = refused
}

// keepRefused adds what was refused before and waits for a retry, which is in no list now.
func (r *Recorder) keepRefused(refused map[judge.ID]reconciler.Refusal, out *reconciler.Result) {
	for _, items := range [][]*judge.Item{out.Allocations, out.Reservations} {
		for _, it := range items {
			if it.Verdict != judge.Stale {
				continue
			}
			why, was := r.refused[it.ID()]
			if _, is := refused[it.ID()]; was && !is {
				refused[it.ID()] = why
			}
		}
	}
	for _, it := range out.Released {
		delete(refused, it.ID())
	}
}

// recordRefusal records what is not released, where that is new.
func (r *Recorder) recordRefusal(x reconciler.Refused) {
	if r.refused[x.ID()] == x.Why {
		return
	}
	r.Metrics.refused.WithLabelValues(string(x.Why)).Inc()
	if x.Why == reconciler.AwaitingConfirmation || x.Why == reconciler.Breaker || x.Why == reconciler.EtcdRestored || x.Why == reconciler.Paused {
		r.Log.Debug("not released", append(x.Attrs(), "refusal", x.Why, "detail", x.Detail)...)
		return
	}
	r.Log.Warn("not released", append(x.Attrs(), "refusal", x.Why, "detail", x.Detail)...)
	if x.Allocation != nil {
		r.Events.failed(x)
	}
}

func (r *Recorder) recordFindings(out *reconciler.Result) {
	findings := map[string]bool{}
	for _, f := range out.Findings {
		key := fmt.Sprint(f.Kind, f.Pool, f.IP, f.Node, f.Pods, f.ContainerIDs)
		if f.Kind == judge.MalformedFinding {
			key += f.Message
		}
		if !r.findings[key] && !findings[key] {
			r.Log.Warn("found", "kind", f.Kind, "address", f.IP, "pool", f.Pool, "pods", f.Pods, "containerIDs", f.ContainerIDs, "node", f.Node, "message", f.Message)
			r.Events.finding(f, uidOf(f.Pool, out))
		}
		findings[key] = true
	}
	r.findings = findings
}

// logAwaitedEvery is how often it is logged for whom a restore waits, where that changes:
// in a large cluster one node after the other writes its report.
const logAwaitedEvery = time.Minute

// recordAwaited logs for which nodes a restore waits.
func (r *Recorder) recordAwaited(out *reconciler.Result) {
	var awaited []string
	if out.Restore != nil {
		awaited = out.Restore.Awaiting
	}
	now := out.Observation.Now
	switch {
	case slices.Equal(awaited, r.awaited):
	case len(awaited) == 0:
		r.Log.Info("every node has written its report since etcd was restored, or needs not", "nodes", len(r.awaited))
		r.awaited, r.awaitedLogged = nil, time.Time{}
	case len(r.awaited) == 0 || now.Sub(r.awaitedLogged) >= logAwaitedEvery:
		r.Log.Error("nothing is released until these nodes have written their reports", "nodes", awaited, "lost", out.Restore.Lost,
			"restored", out.Restore.Restored, "why", out.Restore.Why)
		r.awaited, r.awaitedLogged = awaited, now
	}
}

// recordUnrepaired counts what could not be mended; the reconciler has logged each. What
// the breaker withholds is many at a time, and is logged once with its reason.
func (r *Recorder) recordUnrepaired(out *reconciler.Result) {
	now, withheld := map[string]bool{}, map[string]int{}
	for _, u := range out.Unrepaired {
		key := fmt.Sprint(u.Why, " ", u.Kind, u.Pool, u.IP, u.ContainerIDs)
		if !r.unrepaired[key] && !now[key] {
			r.Metrics.unrepaired.WithLabelValues(string(u.Why)).Inc()
		}
		now[key] = true
		if u.Why == reconciler.Breaker {
			now[u.Detail] = true
			withheld[u.Detail]++
		}
	}
	for _, why := range slices.Sorted(maps.Keys(withheld)) {
		if !r.unrepaired[why] {
			r.Log.Error("mass repair refused", "findings", withheld[why], "why", why)
			r.Events.aboutSelf("MassRepairRefused", why)
		}
	}
	r.unrepaired = now
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
