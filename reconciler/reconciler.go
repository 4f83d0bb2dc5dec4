// Package reconciler acts on what package judge decides: it plans what may be released now, checks that again under
// whereabouts' Lease, writes with proofs (patches that test what they replace, deletes with preconditions), repairs
// what is missing, and remembers what the next pass must know.
//
//	Source → judge.Judge → Plan → second check under the Lease → Writer
//
// Sources and writers come in from outside (kube, informers, snapshot), so that the live API, a folder of files and a
// simulator run through the very same code. Read reconciler.go, plan.go, change.go and executor.go, in that order;
// history.go is what is remembered, restored.go and fence what a restore of etcd asks for.
package reconciler

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"k8s.io/utils/clock"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Reconciler makes passes over one cluster. It is used by one goroutine.
type Reconciler struct {
	Source  Source
	Writer  Writer
	Options Options
	Clock   clock.Clock
	// Jitter spreads a pause so that several writers do not stay in step.
	Jitter  func(time.Duration) time.Duration
	Log     *slog.Logger
	History *History
	// BreakerStore keeps what the breaker counts beyond this process; nil for nowhere.
	BreakerStore StateStore
	// Fence tells whether ADDs and DELs are kept waiting because etcd was restored; nil where nothing does.
	Fence Fence
	// RestoreStore keeps what is known of restores of etcd beyond this process; nil for nowhere.
	RestoreStore StateStore
	// PassStore keeps the PassRecord of the last full pass beyond this process; nil for nowhere.
	PassStore StateStore
	// Schedule is the cron expression that the PassRecord names; nil for none.
	Schedule func() string
	// Progress, where set, is told what is being done, by several goroutines at once.
	Progress func(string)
}

// Result is what a pass saw and did.
type Result struct {
	*judge.Judgement
	Released []*judge.Item
	// Delays are those of what was released, where they are known.
	Delays  []Delay
	Refused []Refused
	// CommonGates are the gates of the last pass that are not about single items.
	CommonGates []Gate
	refused     map[judge.ID]bool // the same
	// Repaired are findings that were repaired; of a dry run those that would be, when they have stood for long enough.
	Repaired []judge.Finding
	// Unrepaired are findings that --repair could not repair.
	Unrepaired []Unrepaired
	// ToRepair is how many findings are left that --repair would repair: they wait, are
	// paused, were withheld or failed.
	ToRepair int
	// Oldest is since when the first of what is stale is so; zero where nothing is.
	Oldest time.Time
	// Attempts is for how many a second check was made.
	Attempts int
	// CheckDuration is how long it took to observe and to judge.
	CheckDuration time.Duration
}

// Delay is how long something was proven, or where it is not Stale, before it was released.
type Delay struct {
	Proven bool
	After  time.Duration
}

// recheckEvery is how often a run that waits observes everything again: an unconfirmed verdict must hold in every pass.
const recheckEvery = time.Minute

// maxFailedChecks is after how many passes in a row that could not be made a run that waits gives up.
const maxFailedChecks = 5

// Check observes and judges once.
func (r *Reconciler) Check(ctx context.Context) (*judge.Judgement, error) {
	r.progress("reading the cluster…")
	fenced := r.fencedSince()
	o, err := r.Source.List(ctx)
	if err != nil {
		return nil, err
	}
	if err := o.PodsMissing(); err != nil && !r.Options.PodsComplete {
		r.History.checkRevision(o) // it is not shown again
		return nil, err
	}
	if r.fencedSince().Equal(fenced) { // all was read behind the fence
		o.FencedSince = fenced
	}
	if !o.Static {
		o.Local = r.Clock.Now()
	}
	r.loadRestore(ctx, o)
	r.History.noteMissed(o)
	r.History.checkRevision(o)
	r.History.restore.noteDoubts(o)
	r.History.noteRestores(o) // before it is judged: a restore makes taints doubtful
	j := judge.Judge(o, r.History, r.Options.judging())
	r.History.Remember(j)
	j.Restore = r.History.restoreState(j)
	j.Recheck = EarliestNonZero(j.Recheck, r.History.restore.due(o.Now))
	return j, nil
}

func (r *Reconciler) fencedSince() time.Time {
	if r.Fence == nil {
		return time.Time{}
	}
	since, standing := r.Fence.Since()
	if !standing {
		return time.Time{}
	}
	return since
}

// Run makes one pass: it judges everything, releases what is Stale, and waits for unconfirmed verdicts to be confirmed
// where there are any. The error says that the cluster could not be read; what went wrong with single objects is in the
// result.
func (r *Reconciler) Run(ctx context.Context) (*Result, error) {
	out, began := &Result{}, r.Clock.Now()
	if err := r.run(ctx, out); err != nil {
		r.RecordPass(ctx, nil, r.Clock.Since(began), err)
		return nil, err
	}
	if ctx.Err() != nil {
		out.noPromises()
	}
	out.listReleased()
	r.RecordPass(ctx, out, r.Clock.Since(began), nil)
	return out, nil
}

func (r *Reconciler) run(ctx context.Context, out *Result) error {
	began := r.Clock.Now()
	return r.passes(ctx, out, func() (until time.Time, most time.Duration, err error) {
		until, err = r.pass(ctx, out, nil)
		return until, recheckEvery, err
	}, func(until time.Time, pause time.Duration) (waits bool) {
		if most := r.Options.MaxWait; most > 0 && r.Clock.Since(began)+pause > most {
			out.noPromises()
			return false
		}
		unconfirmed := countUnconfirmed(out.Refused)
		r.progress("%d unconfirmed, the first to be freed at %s; next pass in %s", unconfirmed, until.Format(time.TimeOnly), pause.Round(time.Second))
		r.Log.Info("waiting before the next pass", "pause", pause, "unconfirmed", unconfirmed, "until", until)
		return true
	})
}

// passes makes passes until none is due any more. A pass returns when the next one is due, zero for never, and after
// how long at most it is made; waits decides whether that is waited for. The error is that of the first pass: what
// earlier ones did is in the result.
func (r *Reconciler) passes(ctx context.Context, out *Result, pass func() (until time.Time, most time.Duration, err error),
	waits func(until time.Time, pause time.Duration) bool,
) error {
	for failed := 0; ; {
		until, most, err := pass()
		pause := recheckEvery
		switch {
		case err != nil && out.Judgement == nil:
			return err
		case ctx.Err() != nil, err == nil && until.IsZero(), r.Options.DryRun:
			return nil
		case err == nil:
			failed, pause = 0, min(max(until.Sub(out.Observation.Now), time.Second), most)
			if !waits(until, pause) {
				return nil
			}
		default: // what waits may still be confirmed
			r.Log.Warn("could not read the cluster again", "error", err)
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

// Pass observes once, releases what may be released now, and does not wait for anything to be confirmed. Where ready is
// given, only items that it lets through are released; the others stay out of the result's lists. The time is when what
// waits now will be confirmed; zero if nothing waits. Verdicts may change at Due, too.
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
	until, out.Oldest = r.releasePlanned(ctx, j, out, ready), r.History.oldest
	switch {
	case r.Options.Repair && r.Options.DryRun:
		out.Repaired, out.Unrepaired = r.History.wouldRepair(j, r.Options)
	case r.Options.Repair:
		until = EarliestNonZero(until, r.repair(ctx, j, out))
	}
	r.saveRestore(ctx, j.Observation) // a second check may have shown one
	return until, nil
}

// releasePlanned releases what a judgement says, and returns when what waits now will be confirmed.
func (r *Reconciler) releasePlanned(ctx context.Context, j *judge.Judgement, out *Result, ready func(*judge.Item) bool) (until time.Time) {
	out.Judgement, out.Refused = j, nil
	plan := r.History.plan(j, r.Options)
	out.CommonGates = plan.CommonGates
	if ready != nil {
		plan.Release = slices.DeleteFunc(plan.Release, func(it *judge.Item) bool { return !ready(it) })
	}
	intended, before := r.countInWindow(ctx, j, plan), len(out.Released)
	if r.Options.DryRun {
		r.forecast(ctx, j, plan)
		r.checkLeases(ctx, plan)
		for _, it := range plan.Release {
			out.refuse(refusedBecause(it, DryRunRefusal, "would be released"))
		}
	} else {
		out.Attempts += len(plan.Release)
		r.release(ctx, j.Index(), plan.Release, out)
		r.correctWindow(ctx, j, intended, out.Released[before:])
	}
	for _, x := range plan.Refused {
		out.refuse(x)
	}
	return plan.Until
}

// EarliestNonZero is the earlier of two times, of which zero is never.
func EarliestNonZero(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func countUnconfirmed(refused []Refused) int {
	return (&Plan{Refused: refused}).count(AwaitingConfirmation)
}

// noPromises takes from what awaits confirmation the time at which it would be released: a run that was ended
// releases nothing more.
func (out *Result) noPromises() {
	for i := range out.Refused {
		if g := &out.Refused[i].Gate; g.Why == AwaitingConfirmation {
			g.At, g.Detail = time.Time{}, "it was not confirmed when the run was ended: run again"
		}
	}
}

// listReleased adds what earlier passes released to what the last one saw.
func (out *Result) listReleased() {
	if len(out.Released) == 0 {
		return
	}
	j, there := out.Judgement, map[judge.ID]bool{}
	for _, items := range [][]*judge.Item{j.Allocations, j.Reservations} {
		for _, it := range items {
			there[it.ID()] = true
		}
	}
	for _, it := range out.Released {
		switch {
		case there[it.ID()]:
		case it.Allocation != nil:
			j.Allocations = append(j.Allocations, it)
		default:
			j.Reservations = append(j.Reservations, it)
		}
		there[it.ID()] = true
	}
	slices.SortStableFunc(j.Allocations, judge.ByPlace)
	slices.SortStableFunc(j.Reservations, judge.ByPlace)
}

// refuse notes an item that is not released, once.
func (out *Result) refuse(x Refused) {
	if len(out.Refused) == 0 { // a pass begins with none
		out.refused = map[judge.ID]bool{}
	}
	if id := x.ID(); !out.refused[id] {
		out.refused[id] = true
		out.Refused = append(out.Refused, x)
	}
}

// done records a release.
func (r *Reconciler) done(out *Result, it *judge.Item, o *judge.Observation) {
	out.Released = append(out.Released, it)
	if it.Allocation != nil || len(it.Related()) == 0 { // a reservation goes with its entry
		if d, ok := r.History.delayOf(it, r.Clock.Now()); ok {
			out.Delays = append(out.Delays, d)
		}
	}
	r.Log.Info("released", append(it.Attrs(), "age", it.Age(o.Now))...)
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

// Needs reports whether an allocation or reservation that was not released rests on a report: it could be of a sandbox
// of that node, or is held because one of that node carries the address.
func (out *Result) Needs(r *podstate.Report) bool {
	released := map[judge.ID]bool{}
	for _, it := range out.Released {
		released[it.ID()] = true
	}
	return slices.ContainsFunc(slices.Concat(out.Allocations, out.Reservations), func(it *judge.Item) bool {
		e := it.Evidence()
		return e != nil && (slices.Contains(e.Nodes, r.Name) || e.ClaimantNode == r.Name) && !released[it.ID()]
	})
}
