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
	"github.com/ip-reconcile/ip-reconcile/reconciler/schedule"
)

// Recorder tells of looks in the log, in metrics and in events: what is new, once.
// What it remembers goes with its candidate.
type Recorder struct {
	Log     *slog.Logger
	Metrics *Metrics
	Events  *Events

	held             map[reconciler.ID]reconciler.Reason
	refused          map[reconciler.ID]reconciler.Refusal
	findings         map[string]bool
	notes            map[string]bool
	lastError        string // why the last full pass could not look
	warnedUnverified bool   // it was said that the caches cannot be relied upon
	breakerLogged    bool
	awaited          []string  // nodes that a restore waited for when that was last said
	awaitedLogged    time.Time // when that was

	unrepaired map[string]bool
}

// fullPassStarted and end are around a full pass. Their wording is whereabouts' own
// (v0.9.4, pkg/reconciler): people search their logs for it.
func (t *Recorder) fullPassStarted() { t.Log.Info("starting reconciler run") }

func (t *Recorder) fullPassEnded(out *reconciler.Result, took time.Duration, err error) {
	t.Metrics.fullPassEnded(took, err)
	if out != nil {
		t.record(out)
		t.logCleanedUp(out)
	}
	if err != nil {
		level := slog.LevelError
		if t.lastError == err.Error() {
			level = slog.LevelDebug // it is tried again and again: said once
		}
		t.Log.Log(context.Background(), level, "reconciler run failed: "+err.Error())
		t.lastError = err.Error()
		return
	}
	t.lastError = ""
	s := out.Summary()
	t.Log.Info("reconciler run succeeded", "took", took.Round(time.Millisecond), "pools", s.Pools, "allocations", s.Allocations, "inUse", s.InUse,
		"held", s.Held, "stale", s.Stale, "reservations", s.Reservations, "findings", s.Findings, "released", len(out.Released), "left", out.Left())
}

func (t *Recorder) logCleanedUp(out *reconciler.Result) {
	var addresses []string
	for _, it := range out.Released {
		if it.Allocation != nil {
			addresses = append(addresses, it.Text())
		}
	}
	if len(addresses) > 0 {
		t.Log.Info("successfully cleanup IPs: [" + strings.Join(addresses, " ") + "]")
	} else {
		t.Log.Info("no IP addresses to cleanup")
	}
}

// cachePassEnded counts a look at the caches.
func (t *Recorder) cachePassEnded(err error) {
	switch {
	case err == nil:
		t.Metrics.cachePasses.WithLabelValues("done").Inc()
		if t.warnedUnverified {
			t.Log.Info("the caches can be relied upon again")
			t.warnedUnverified = false
		}
	case errors.Is(err, informers.ErrCacheUnverified):
		t.Metrics.cachePasses.WithLabelValues("untrusted").Inc()
	default:
		t.Metrics.cachePasses.WithLabelValues("failed").Inc()
	}
}

// cachesUnverified tells of caches that cannot be relied upon although full passes were
// made for that: a watch that is closed for a moment is nothing to tell of.
func (t *Recorder) cachesUnverified(why error, passes int) {
	t.Log.Debug("no look at the caches", "why", why)
	if passes > 1 && !t.warnedUnverified {
		t.Log.Warn("until the caches can be relied upon, full passes are made instead of looks at them", "why", why)
		t.warnedUnverified = true
	}
}

// record tells of one look.
func (t *Recorder) record(out *reconciler.Result) {
	t.Metrics.update(out)
	t.recordReleased(out)
	t.recordHeld(out)
	t.recordRefused(out)
	t.recordFindings(out)
	t.recordAwaited(out)
	t.recordUnrepaired(out)
	notes := slices.DeleteFunc(out.Notes(), func(note string) bool { return note == out.Restore.Text() }) // which is told
	t.notes = t.forNew(t.notes, notes, func(note string) { t.Log.Warn(note) })
}

// recordFollowed tells of what was released because of a change; the next look at
// everything tells the rest.
func (t *Recorder) recordFollowed(out *reconciler.Result) {
	t.Metrics.changesFollowed(out)
	t.recordReleased(out)
	if t.refused == nil {
		t.refused = map[reconciler.ID]reconciler.Refusal{}
	}
	for _, x := range out.Refused {
		t.recordRefusal(x)
		t.refused[x.ID()] = x.Why
	}
}

func (t *Recorder) recordReleased(out *reconciler.Result) {
	for _, it := range out.Released {
		if it.Reservation != nil {
			t.Log.Info("removed stale overlappingIP allocation [" + it.Object() + "]")
		} else {
			t.Events.released(it)
		}
	}
}

// forNew calls say for what was not said before, and returns what was said now.
func (t *Recorder) forNew(said map[string]bool, now []string, say func(string)) map[string]bool {
	next := map[string]bool{}
	for _, text := range now {
		if !said[text] && !next[text] {
			say(text)
		}
		next[text] = true
	}
	return next
}

func (t *Recorder) recordHeld(out *reconciler.Result) {
	held := map[reconciler.ID]reconciler.Reason{}
	for _, it := range out.Allocations {
		if it.Verdict != reconciler.Held {
			continue
		}
		held[it.ID()] = it.Reason
		if t.held[it.ID()] != it.Reason {
			t.Log.Info("held", append(it.Attrs(), "age", out.Age(it))...)
		}
	}
	t.held = held
}

func (t *Recorder) recordRefused(out *reconciler.Result) {
	refused := map[reconciler.ID]reconciler.Refusal{}
	breaker := ""
	for _, x := range out.Refused {
		refused[x.ID()] = x.Why
		if x.Why == reconciler.Breaker {
			breaker = x.Detail
		}
		t.recordRefusal(x)
	}
	// What is left alone for a while is in no list, and stays what it was.
	for _, items := range [][]*reconciler.Item{out.Allocations, out.Reservations} {
		for _, it := range items {
			if it.Verdict != reconciler.Stale {
				continue
			}
			why, was := t.refused[it.ID()]
			if _, is := refused[it.ID()]; was && !is {
				refused[it.ID()] = why
			}
		}
	}
	for _, it := range out.Released {
		delete(refused, it.ID())
	}
	if breaker != "" && !t.breakerLogged {
		t.Log.Error("mass release refused", "why", breaker)
		t.Events.aboutSelf("MassReleaseRefused", breaker)
	}
	t.breakerLogged = breaker != ""
	t.refused = refused
}

// recordRefusal tells of what is not released, where that is new.
func (t *Recorder) recordRefusal(x reconciler.Refused) {
	if t.refused[x.ID()] == x.Why {
		return
	}
	t.Metrics.refused.WithLabelValues(string(x.Why)).Inc()
	if x.Why == reconciler.AwaitingConfirmation || x.Why == reconciler.Breaker || x.Why == reconciler.EtcdRestored || x.Why == reconciler.Paused {
		t.Log.Debug("not released", append(x.Attrs(), "why", x.Why, "detail", x.Detail)...)
		return
	}
	t.Log.Warn("not released", append(x.Attrs(), "why", x.Why, "detail", x.Detail)...)
	if x.Allocation != nil {
		t.Events.failed(x)
	}
}

func (t *Recorder) recordFindings(out *reconciler.Result) {
	findings := map[string]bool{}
	for _, f := range out.Findings {
		key := fmt.Sprint(f.Kind, f.Pool, f.IP, f.Node, f.Pods, f.ContainerIDs)
		if f.Kind == reconciler.MalformedFinding {
			key += f.Message
		}
		if !t.findings[key] && !findings[key] {
			t.Log.Warn("found", "kind", f.Kind, "address", f.IP, "pool", f.Pool, "pods", f.Pods, "containerIDs", f.ContainerIDs, "node", f.Node, "message", f.Message)
			t.Events.finding(f, uidOf(f.Pool, out))
		}
		findings[key] = true
	}
	t.findings = findings
}

// logAwaitedEvery is how often it is said for whom a restore waits, where that changes:
// in a large cluster one node after the other writes its report.
const logAwaitedEvery = time.Minute

// recordAwaited tells for which nodes a restore waits.
func (t *Recorder) recordAwaited(out *reconciler.Result) {
	var awaited []string
	if out.Restore != nil {
		awaited = out.Restore.Awaiting
	}
	now := out.Observation.Now
	switch {
	case slices.Equal(awaited, t.awaited):
	case len(awaited) == 0:
		t.Log.Info("every node has written its report since etcd was restored, or needs not", "nodes", len(t.awaited))
		t.awaited, t.awaitedLogged = nil, time.Time{}
	case len(t.awaited) == 0 || now.Sub(t.awaitedLogged) >= logAwaitedEvery:
		t.Log.Error("nothing is released until these nodes have written their reports", "nodes", awaited, "lost", out.Restore.Lost,
			"restored", out.Restore.Restored, "why", out.Restore.Why)
		t.awaited, t.awaitedLogged = awaited, now
	}
}

// recordUnrepaired counts what could not be mended; the reconciler has logged each. What
// the breaker withholds is many at a time, and is told once with its reason.
func (t *Recorder) recordUnrepaired(out *reconciler.Result) {
	now, withheld := map[string]bool{}, map[string]int{}
	for _, u := range out.Unrepaired {
		key := fmt.Sprint(u.Why, " ", u.Kind, u.Pool, u.IP, u.ContainerIDs)
		if !t.unrepaired[key] && !now[key] {
			t.Metrics.unrepaired.WithLabelValues(string(u.Why)).Inc()
		}
		now[key] = true
		if u.Why == reconciler.Breaker {
			now[u.Detail] = true
			withheld[u.Detail]++
		}
	}
	for _, why := range slices.Sorted(maps.Keys(withheld)) {
		if !t.unrepaired[why] {
			t.Log.Error("mass repair refused", "findings", withheld[why], "why", why)
			t.Events.aboutSelf("MassRepairRefused", why)
		}
	}
	t.unrepaired = now
}

func (t *Recorder) restoreNoticed(why string, when time.Time) {
	t.Metrics.restores.Inc()
	t.Log.Error("etcd was restored: nothing is released until every node has written its report since", "why", why, "at", when)
	t.Events.aboutSelf("EtcdRestored", why+": nothing is released until every node has written its report since; the caches are rebuilt")
}

// CachesRebuilt tells of caches that were out of step with the API server.
func (t *Recorder) CachesRebuilt(why string) {
	t.Metrics.rebuilds.Inc()
	t.Log.Error("the caches were out of step with the API server and are rebuilt", "why", why)
	t.Events.aboutSelf("CacheRebuilt", "the caches were out of step with the API server and are rebuilt: "+why)
}

// ScheduleChanged tells of the schedule that is in force. It may be called while a
// look is told of.
func (t *Recorder) ScheduleChanged(state schedule.Status) {
	t.Metrics.scheduleChanged(state)
	if state.Err != nil {
		t.Events.aboutSelf("BadSchedule", state.Err.Error())
	}
}
