// Package reconciler acts on the verdicts of package judge. It keeps the order of a pass: package plan decides what may
// be released now, and that is checked again under whereabouts' Lease. Writes carry proofs: patches test what they
// replace, deletes have preconditions.
//
//	Source → judge.Judge → plan.Make → second check under the Lease → apply.Session
//
// Sources and Leases come from outside (kube, informers, snapshot), so that the live API, a folder of files and a
// simulator run through the same code. Read reconciler.go, package plan, release.go and package apply, in that order.
// known.go has what passes learn; packages memory and restore make it.
package reconciler

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"k8s.io/utils/clock"

	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// Reconciler makes passes over one cluster. It is not safe for use by several goroutines.
type Reconciler struct {
	Source  Source
	Leases  apply.Leases
	Options plan.Options
	Clock   clock.Clock
	// Jitter spreads a pause, so that several writers do not stay in step.
	Jitter       func(time.Duration) time.Duration
	Log          *slog.Logger
	Process      *Process
	BreakerStore StateStore // shares what the breaker counts with other processes; nil for none
	Fence        Fence      // keeps ADDs and DELs waiting after a restore of etcd; nil for none
	RestoreStore StateStore // shares the etcd restore state with other processes; nil for none
	// WithoutRestoreStore goes on where RBAC forbids RestoreStore: a restore that another process knows of then pauses
	// nothing here. An operator accepts that with --without-lease.
	WithoutRestoreStore bool
	PassStore           StateStore    // keeps the PassRecord of the last full pass; nil for none
	Schedule            func() string // returns the cron expression for the PassRecord; nil for none
	MaxWait             time.Duration // how long a run waits for confirmations; 0 has no limit
	PodsComplete        bool          // the listed pods are all pods, even if there are none
	Because             string        // the person's sentence for the log of each release by hand
	// OnOutcome receives each Outcome as soon as it is known, those of releases and repairs under the hold that made them.
	// It must not block; nil for none. A dry run has no outcomes.
	OnOutcome func(Outcome)
	Progress  func(string) // receives progress messages, from several goroutines at once; nil for none
}

const (
	recheckEvery    = time.Minute // how often a waiting run makes a pass: an unconfirmed verdict must stand in each
	maxFailedChecks = 5           // how many failed passes in a row end a waiting run
)

const timeOfDay = "15:04:05 UTC" // a layout

// Check observes and judges once. The result has done nothing.
func (r *Reconciler) Check(ctx context.Context) (*Result, error) {
	r.progress("Reading the cluster")
	fenced, known := r.fencedSince(), r.Process.Known
	if !known.IsRead() { // what is read then is read since
		known = known.with(r.loadRestore(ctx, known.State, &facts.Observation{Now: r.Clock.Now()}))
	}
	known.State = known.BeginRead()
	o, err := r.Source.List(ctx)
	if err == nil {
		o.PodsComplete = r.PodsComplete
		err = o.PodsMissing()
	}
	if err != nil {
		r.Process.Known, _ = r.Process.Known.afterFailure(o, r.Clock.Now())
		return nil, err
	}
	if r.fencedSince().Equal(fenced) { // all was read behind the fence
		o.FencedSince = fenced
	}
	if !o.Static {
		o.Local = r.Clock.Now()
	}
	switch {
	case o.Static:
		if known, err = known.ofSnapshot(o); err != nil {
			return nil, err
		}
	case !o.Watched || !known.IsRead():
		known = known.with(r.loadRestore(ctx, known.State, o))
	}
	observed, restored := known.Observe(o)
	known, o.Restored = known.with(observed), restored
	a := findings.Assess(judge.Judge(facts.New(o, known, r.Options.JudgePolicy()), known, r.Options.Overrides))
	known = known.After(a.Judgement)
	r.Process.Known = known
	r.Process.repairCounts = r.Process.repairCounts.LastHour(o.Now)
	return &Result{Assessment: a, Restore: known.Status(a.Judgement), Recheck: known.NextTimeout(o.Now)}, nil
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
	began := r.Clock.Now()
	var first map[judge.ID]bool // the items that the first pass found unconfirmed
	var repairedBy time.Time    // when the findings of the first pass are due
	out, err := r.passes(ctx, func() (out *Result, next time.Time, atMost time.Duration, err error) {
		out, next, err = r.Pass(ctx, nil)
		switch {
		case err != nil:
		case r.Process.Known.AwaitsRead(out.Judgement):
			next = out.Observation.Now
		case r.awaitsReports(out, began):
			next = plan.EarliestNonZero(next, out.Observation.Now.Add(recheckEvery))
		}
		return out, next, recheckEvery, err
	}, func(out *Result, next time.Time, pause time.Duration) (waits bool) {
		if r.Process.Known.AwaitsRead(out.Judgement) {
			r.Log.Info("Reading again after the restore of etcd", "pause", pause)
			return true
		}
		if r.awaitsReports(out, began) {
			return true
		}
		found, now := out.unconfirmed(), out.Observation.Now
		if first == nil {
			first = judge.IDs(found)
			if r.Options.Repair {
				repairedBy = now.Add(plan.RepairAfter)
			}
		}
		isAwaited := now.Before(repairedBy) || slices.ContainsFunc(found, func(x plan.Refused) bool { return first[x.ID()] })
		if most := r.MaxWait; !isAwaited || most > 0 && r.Clock.Since(began)+pause > most {
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
	if !r.Options.DryRun {
		out = out.ended()
	}
	r.Decline(out)
	out = out.withReleased()
	r.RecordPass(ctx, out, r.Clock.Since(began), nil)
	return out, nil
}

// awaitsReports reports whether a run waits until the nodes have reported since a restore that no store keeps: the next
// run would begin to wait anew. Agents renew their reports every 20 s.
func (r *Reconciler) awaitsReports(out *Result, began time.Time) bool {
	return r.WithoutRestoreStore && !r.Process.Known.IsRead() && !out.Restore.Complete() &&
		r.Clock.Since(began) < 3*recheckEvery
}

// passes makes passes until none is due, and returns what they did. pass returns when the next one is due, zero for
// never, and the longest pause; waits decides whether to wait for it. Only an error of the first pass is returned.
func (r *Reconciler) passes(
	ctx context.Context, pass func() (out *Result, next time.Time, atMost time.Duration, err error),
	waits func(out *Result, next time.Time, pause time.Duration) bool,
) (out *Result, err error) {
	for failed := 0; ; {
		now, next, atMost, err := pass()
		if err == nil {
			out = now.after(out)
		}
		pause := recheckEvery
		switch {
		case out == nil:
			return nil, err
		case ctx.Err() != nil, err == nil && next.IsZero(), r.Options.DryRun:
			return out, nil
		case err == nil:
			failed, pause = 0, min(max(next.Sub(out.Observation.Now), time.Second), atMost)
			if !waits(out, next, pause) {
				return out, nil
			}
		default: // a later pass may succeed
			r.Log.Warn("Could not read the cluster again", "error", err)
			if failed++; failed == maxFailedChecks {
				return out.withWarning(fmt.Sprintf("gave up waiting: %v", err)), nil
			}
		}
		if !r.pause(ctx, pause) {
			return out, nil
		}
	}
}

// Pass observes once, writes what may be written now, and does not wait for confirmations. Where ready is given, only
// items that it accepts are released. The time is when the next item is confirmed; zero for none.
func (r *Reconciler) Pass(ctx context.Context, ready func(*judge.Item) bool) (*Result, time.Time, error) {
	began := r.Clock.Now()
	out, err := r.Check(ctx)
	if err != nil { // what is known of a restore is shared all the same: others may release meanwhile
		r.saveRestore(ctx, r.Clock.Now())
		return nil, time.Time{}, err
	}
	j := out.Assessment
	out.CheckDuration = r.Clock.Since(began)
	r.saveRestore(ctx, j.Observation.Now)
	p, done, attempts := r.releasePlanned(ctx, j, ready)
	out.CommonGates, out.Refused = p.CommonGates, uniqueRefused(slices.Concat(done.refused, p.Refused))
	out.Released, out.Delays, out.Attempts = done.released, done.delays, attempts
	out.Oldest = r.Process.Known.OldestStale()
	until := p.Until
	switch {
	case r.Options.Repair && r.Options.DryRun:
		repairs := r.planRepairs(j)
		out.Repaired, out.Unrepaired = repairs.Findings(j.Facts()), repairs.Refused
	case r.Options.Repair:
		repaired := r.repair(ctx, j)
		out.Repaired, out.Unrepaired, out.ToRepair = repaired.repaired, repaired.unrepaired, repaired.remaining
		until = plan.EarliestNonZero(until, repaired.next)
	}
	r.saveRestore(ctx, j.Observation.Now) // a second check may have detected a restore
	return out, until, nil
}

// plan picks what may be released now, by what the breaker counted last.
func (r *Reconciler) plan(j *judge.Judgement) *plan.Plan {
	known := r.Process.Known
	return plan.Make(j, known.Memory, known.State, r.Process.releases, r.Options)
}

// releasePlanned releases what a plan for the judgement allows. attempts is how many items had a second check.
func (r *Reconciler) releasePlanned(
	ctx context.Context, j *findings.Assessment, ready func(*judge.Item) bool,
) (p *plan.Plan, done releaseOutcome, attempts int) {
	p = r.plan(j.Judgement)
	if ready != nil {
		p.Release = slices.DeleteFunc(p.Release, func(it *judge.Item) bool { return !ready(it) })
	}
	intended := r.countInWindow(ctx, j, p, r.Options.DryRun)
	if r.Options.DryRun {
		r.forecast(ctx, j, p)
		r.checkLeases(ctx, p)
		for _, it := range p.Release {
			done.refused = append(done.refused, refusedBecause(it, plan.DryRunRefusal, "would be released"))
		}
		return p, done, 0
	}
	r.comparePauses(j.Observation, p.CommonGates)
	done = r.release(ctx, j.Facts(), p.Release)
	r.correctWindow(ctx, j, intended, done.released)
	return p, done, len(p.Release)
}

func (r *Reconciler) progress(format string, args ...any) {
	if r.Progress != nil {
		r.Progress(fmt.Sprintf(format, args...))
	}
}

// pause waits for d. It returns false if the context ends first.
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
