// Package reconciler acts on the verdicts of package judge. It plans what may be released now and checks that again
// under whereabouts' Lease. Its writes carry proofs: patches test what they replace, deletes have preconditions.
//
//	Source → judge.Judge → Plan → second check under the Lease → Writer
//
// Sources and writers come from outside (kube, informers, snapshot), so that the live API, a folder of files and a
// simulator run through the same code. Read reconciler.go, plan.go, change.go and executor.go, in that order.
// history.go has the memory of a process, restored.go and restoregate.go handle restores of etcd.
package reconciler

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"k8s.io/utils/clock"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/audit"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Reconciler makes passes over one cluster. It is not safe for use by several goroutines.
type Reconciler struct {
	Source  Source
	Writer  Writer
	Options Options
	Clock   clock.Clock
	// Jitter spreads a pause, so that several writers do not stay in step.
	Jitter       func(time.Duration) time.Duration
	Log          *slog.Logger
	History      *History
	BreakerStore StateStore // shares what the breaker counts with other processes; nil for none
	Fence        Fence      // keeps ADDs and DELs waiting after a restore of etcd; nil for none
	RestoreStore StateStore // shares the etcd restore state with other processes; nil for none
	// WithoutRestoreStore goes on where RBAC forbids RestoreStore: a restore that another process knows of then pauses
	// nothing here. An operator accepts that with --without-lease.
	WithoutRestoreStore bool
	PassStore           StateStore    // keeps the PassRecord of the last full pass; nil for none
	Schedule            func() string // returns the cron expression for the PassRecord; nil for none
	// Audit receives a record of each release, repair, refusal by a person and pause. It does not block; nil for none.
	Audit    func(audit.Record)
	Progress func(string) // receives progress messages, from several goroutines at once; nil for none
}

// Result is what a pass observed and did.
type Result struct {
	*judge.Judgement
	Released    []*judge.Item
	Delays      []Delay // those of the released items, where known
	Refused     []Refused
	CommonGates []Gate // the gates of the last pass that concern more than one item
	refusedIDs  map[judge.ID]bool
	Repaired    []judge.Finding // the findings that were repaired, or would be in a dry run
	Unrepaired  []Unrepaired    // the findings that --repair could not repair
	// ToRepair is how many findings --repair has yet to repair: they wait, are paused, were refused or failed.
	ToRepair      int
	Oldest        time.Time     // since when the oldest Stale item is Stale; zero for none
	Attempts      int           // how many items had a second check
	CheckDuration time.Duration // how long observing and judging took
}

// Delay is how long an item was proven, or else Stale, before it was released.
type Delay struct {
	Proven bool
	After  time.Duration
}

const (
	recheckEvery    = time.Minute // how often a waiting run makes a pass: an unconfirmed verdict must stand in each
	maxFailedChecks = 5           // how many failed passes in a row end a waiting run
)

const timeOfDay = "15:04:05 UTC" // a layout

// Check observes and judges once.
func (r *Reconciler) Check(ctx context.Context) (*judge.Judgement, error) {
	r.progress("Reading the cluster")
	fenced := r.fencedSince()
	o, err := r.Source.List(ctx)
	if err != nil {
		return nil, err
	}
	r.History.noteKnownNodes(o)
	if err := o.PodsMissing(); err != nil && !r.Options.PodsComplete {
		r.History.checkRevision(o) // the next pass does not show it again
		return nil, err
	}
	if r.fencedSince().Equal(fenced) { // all was read behind the fence
		o.FencedSince = fenced
	}
	if !o.Static {
		o.Local = r.Clock.Now()
	}
	if k := &r.History.storedRestore; !o.Watched || !k.isRead || k.readErr != nil {
		r.loadRestore(ctx, o)
	}
	r.History.checkRevision(o)
	r.History.restore.noteDoubts(o)
	r.History.noteRestores(o) // before it is judged: a restore makes taints doubtful
	j := judge.Judge(o, r.History, r.Options.judgePolicy())
	r.History.Remember(j)
	j.Restore = r.History.restoreState(j)
	j.Recheck = EarliestNonZero(j.Recheck, r.History.restore.nextTimeout(o.Now))
	return j, nil
}

func (r *Reconciler) fencedSince() time.Time {
	if r.Fence == nil {
		return time.Time{}
	}
	return r.Fence.Since()
}

// Run makes passes until nothing that its first pass has found awaits confirmation. What later passes find is released
// if it is confirmed by then, and is for the next run otherwise. The error says that the cluster could not be read.
// Failures of single objects are in the result.
func (r *Reconciler) Run(ctx context.Context) (*Result, error) {
	out, began := &Result{}, r.Clock.Now()
	var first map[judge.ID]bool // the items that the first pass found unconfirmed
	var repairedBy time.Time    // when the findings of the first pass are due
	err := r.passes(ctx, out, func() (next time.Time, atMost time.Duration, err error) {
		next, err = r.pass(ctx, out, nil)
		return next, recheckEvery, err
	}, func(next time.Time, pause time.Duration) (waits bool) {
		found, now := out.unconfirmed(), out.Observation.Now
		if first == nil {
			first = idsOf(found)
			if r.Options.Repair {
				repairedBy = now.Add(repairAfter)
			}
		}
		isAwaited := now.Before(repairedBy) || slices.ContainsFunc(found, func(x Refused) bool { return first[x.ID()] })
		if most := r.Options.MaxWait; !isAwaited || most > 0 && r.Clock.Since(began)+pause > most {
			out.dropConfirmationTimes()
			return false
		}
		r.progress("Waiting for confirmations, %d to go: the first is due at %s; the next pass is at %s",
			len(found), next.UTC().Format(timeOfDay), now.Add(pause).UTC().Format(timeOfDay))
		r.Log.Info("Waiting before the next pass", "pause", pause, "unconfirmed", len(found), "until", next)
		return true
	})
	if err != nil {
		r.RecordPass(ctx, nil, r.Clock.Since(began), err)
		return nil, err
	}
	if ctx.Err() != nil {
		out.dropConfirmationTimes()
	}
	r.RecordRefusals(out)
	out.addReleased()
	r.RecordPass(ctx, out, r.Clock.Since(began), nil)
	return out, nil
}

// passes makes passes until none is due. pass returns when the next one is due, zero for never, and the longest pause;
// waits decides whether to wait for it. Only an error of the first pass is returned.
func (r *Reconciler) passes(
	ctx context.Context, out *Result, pass func() (next time.Time, atMost time.Duration, err error),
	waits func(next time.Time, pause time.Duration) bool,
) error {
	for failed := 0; ; {
		next, atMost, err := pass()
		pause := recheckEvery
		switch {
		case err != nil && out.Judgement == nil:
			return err
		case ctx.Err() != nil, err == nil && next.IsZero(), r.Options.DryRun:
			return nil
		case err == nil:
			failed, pause = 0, min(max(next.Sub(out.Observation.Now), time.Second), atMost)
			if !waits(next, pause) {
				return nil
			}
		default: // a later pass may succeed
			r.Log.Warn("Could not read the cluster again", "error", err)
			if failed++; failed == maxFailedChecks {
				out.Observation.Warnings = append(out.Observation.Warnings, fmt.Sprintf("gave up waiting: %v", err))
				return nil
			}
		}
		if !r.pause(ctx, pause) {
			return nil
		}
	}
}

// Pass observes once, releases what may be released now, and does not wait for confirmations. Where ready is given,
// only items that it accepts are released, and the result's lists omit the others. The time is when the next item is
// confirmed; zero for none.
func (r *Reconciler) Pass(ctx context.Context, ready func(*judge.Item) bool) (*Result, time.Time, error) {
	out := &Result{}
	until, err := r.pass(ctx, out, ready)
	if err != nil {
		return nil, time.Time{}, err
	}
	return out, until, nil
}

func (r *Reconciler) pass(ctx context.Context, out *Result, ready func(*judge.Item) bool) (until time.Time, err error) {
	began := r.Clock.Now()
	j, err := r.Check(ctx)
	if err != nil {
		return time.Time{}, err
	}
	out.CheckDuration = r.Clock.Since(began)
	r.saveRestore(ctx, j.Observation)
	until, out.Oldest = r.releasePlanned(ctx, j, out, ready), r.History.oldestStale
	switch {
	case r.Options.Repair && r.Options.DryRun:
		out.Repaired, out.Unrepaired = r.History.plannedRepairs(j, r.Options)
	case r.Options.Repair:
		until = EarliestNonZero(until, r.repair(ctx, j, out))
	}
	r.saveRestore(ctx, j.Observation) // a second check may have detected a restore
	return until, nil
}

// releasePlanned releases what a plan for the judgement allows, and returns when the next item is confirmed.
func (r *Reconciler) releasePlanned(
	ctx context.Context, j *judge.Judgement, out *Result, ready func(*judge.Item) bool,
) (until time.Time) {
	out.Judgement, out.Refused = j, nil
	plan := r.History.plan(j, r.Options)
	out.CommonGates = plan.CommonGates
	if ready != nil {
		plan.Release = slices.DeleteFunc(plan.Release, func(it *judge.Item) bool { return !ready(it) })
	}
	intended, before := r.countInWindow(ctx, j, plan, r.Options.DryRun), len(out.Released)
	if r.Options.DryRun {
		r.forecast(ctx, j, plan)
		r.checkLeases(ctx, plan)
		for _, it := range plan.Release {
			out.refuse(refusedBecause(it, DryRunRefusal, "would be released"))
		}
	} else {
		r.recordPauses(j.Observation, plan.CommonGates)
		out.Attempts += len(plan.Release)
		r.release(ctx, j.Index(), plan.Release, out)
		r.correctWindow(ctx, j, intended, out.Released[before:])
	}
	for _, x := range plan.Refused {
		out.refuse(x)
	}
	return plan.Until
}

// EarliestNonZero returns the earlier of two times, where zero is never.
func EarliestNonZero(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// unconfirmed returns the items that await confirmation.
func (out *Result) unconfirmed() []Refused {
	return slices.DeleteFunc(slices.Clone(out.Refused), func(x Refused) bool { return x.Why != AwaitingConfirmation })
}

// dropConfirmationTimes removes the time of release from items that await confirmation, since the run ends.
func (out *Result) dropConfirmationTimes() {
	for i := range out.Refused {
		if g := &out.Refused[i].Gate; g.Why == AwaitingConfirmation {
			g.At, g.Detail = time.Time{}, "not confirmed when the run ended; run again"
		}
	}
}

// addReleased adds the items that earlier passes released to the last judgement.
func (out *Result) addReleased() {
	if len(out.Released) == 0 {
		return
	}
	j := out.Judgement
	has := idsOf(slices.Concat(j.Allocations, j.Reservations))
	for _, it := range out.Released {
		switch {
		case has[it.ID()]:
		case it.Allocation != nil:
			j.Allocations = append(j.Allocations, it)
		default:
			j.Reservations = append(j.Reservations, it)
		}
		has[it.ID()] = true
	}
	slices.SortStableFunc(j.Allocations, judge.ByPlace)
	slices.SortStableFunc(j.Reservations, judge.ByPlace)
}

// refuse adds an item that is not released, once.
func (out *Result) refuse(x Refused) {
	if len(out.Refused) == 0 { // a new pass
		out.refusedIDs = map[judge.ID]bool{}
	}
	if id := x.ID(); !out.refusedIDs[id] {
		out.refusedIDs[id] = true
		out.Refused = append(out.Refused, x)
	}
}

func (r *Reconciler) recordRelease(out *Result, it *judge.Item, o *judge.Observation) {
	out.Released = append(out.Released, it)
	if it.Allocation != nil || len(it.Related()) == 0 { // a reservation is part of the release of its allocation
		if d, ok := r.History.delayOf(it, r.Clock.Now()); ok {
			out.Delays = append(out.Delays, d)
		}
	}
	attrs := append(it.Attrs(), "age", it.Age(o.Now))
	if r.Options.ByHand {
		attrs = append(attrs, "isOverridden", it.IsOverridden(), "because", r.Options.Because)
	}
	r.Log.Info("Released", attrs...)
}

func (r *Reconciler) progress(format string, args ...any) {
	if r.Progress != nil {
		r.Progress(fmt.Sprintf(format, args...))
	}
}

// wait pauses for about d; it ends early with the context.
func (r *Reconciler) wait(ctx context.Context, d time.Duration) { r.pause(ctx, r.Jitter(d)) }

func (r *Reconciler) pause(ctx context.Context, d time.Duration) bool {
	t := r.Clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C():
		return true
	}
}

// Needs reports whether something that was not released may have its sandbox, or a claimant, on the report's node.
func (out *Result) Needs(r *podstate.Report) bool {
	released := idsOf(out.Released)
	return slices.ContainsFunc(slices.Concat(out.Allocations, out.Reservations), func(it *judge.Item) bool {
		e := it.Evidence()
		return e != nil && (slices.Contains(e.Nodes, r.Name) || e.ClaimantNode == r.Name) && !released[it.ID()]
	})
}
