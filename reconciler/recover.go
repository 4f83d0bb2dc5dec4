package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
)

// errNoReports: without reports nothing shows which sandboxes run.
var errNoReports = errors.New("no node agent has reported, so nothing can be written back; " +
	"deploy the agents, inspect a single node with --cri, or use a --snapshot with their sandboxreports and leases")

const (
	recoverEvery = 2 * time.Second // the pause of Recover behind a fence, where reports arrive all the time
	// unknownFor is how long Recover waits for what it cannot read. An API server that has just started, as after a
	// restore, forbids for a moment what it grants then.
	unknownFor = time.Minute
)

// UnknownLack is why there may be more that pools and reservations lack than a pass has found; "" if there is not.
func (out *Result) UnknownLack() string {
	if o := out.Observation; o.PauseUnknown != "" {
		return o.PauseUnknown
	}
	isRepaired := func(k findings.Kind) bool {
		return k == findings.Unrecorded || k == findings.Misrecorded || k == findings.MissingReservation
	}
	for _, s := range out.Observation.UnknownSources() {
		if slices.ContainsFunc(findings.KindsOf(s.Name), isRepaired) {
			return fmt.Sprintf("%s: %s", s.Name, s.Unknown)
		}
	}
	return ""
}

// RestorePass is what a Guard is told of a pass. leases are those of all pools, and of those that a repair creates.
func (out *Result) RestorePass(leases map[string][]string) restore.Pass {
	return restore.Pass{Judgement: out.Judgement, Restore: out.Restore, Leases: leases, ToRepair: out.ToRepair,
		Unknown: out.UnknownLack()}
}

// CheckToRecover is Check, which is repeated for unknownFor at most while it is denied. Behind a fence, which ends with
// Recover, it is repeated while it fails.
func (r *Reconciler) CheckToRecover(ctx context.Context) (*Result, error) {
	for began := r.Clock.Now(); ; {
		out, err := r.Check(ctx)
		isFinal := r.Fence == nil && !errors.Is(err, apply.ErrForbidden)
		if err == nil || isFinal || r.Clock.Since(began) >= unknownFor {
			return out, err
		}
		r.progress("Reading again: %v", err)
		if !r.pause(ctx, recoverEvery) {
			return nil, err
		}
	}
}

// Recover writes into pools and reservations what runs, and waits for findings until they are due, and a minute for
// what it cannot read. Behind a fence it waits for nodes, too, as a Guard does. With DryRun it observes once, and the
// result lists what it would write. The error says that the cluster could not be read.
func (r *Reconciler) Recover(ctx context.Context) (*Result, error) {
	var (
		late    []string // the nodes that have not reported since the fence stands, or since a restore
		unknown string
		since   time.Time // it is unknown; zero for known
	)
	return r.passes(ctx, func() (out *Result, next time.Time, atMost time.Duration, err error) {
		out, err = r.CheckToRecover(ctx)
		if err == nil && (out.WithoutAgents || out.Observation.Static && len(out.Observation.Reports.Or(nil)) == 0) {
			err = errNoReports
		}
		if err != nil {
			return nil, time.Time{}, 0, err
		}
		if r.Options.DryRun {
			p := r.planRepairs(out.Assessment)
			out.ToRepair, out.Unrepaired = p.Total, p.Refused
			return out, time.Time{}, 0, nil
		}
		done := r.repair(ctx, out.Assessment)
		out.Repaired, out.Unrepaired, out.ToRepair = done.repaired, done.unrepaired, done.remaining
		next, atMost, late = done.next, recheckEvery, nil
		if fenced := out.Observation.FencedSince; !fenced.IsZero() {
			atMost = recoverEvery
			late = out.NotRenewedSince(fenced)
			if !out.Restore.Complete() {
				late = append(late, out.Restore.Awaiting...)
				slices.Sort(late)
				late = slices.Compact(late)
			}
			if len(late) > 0 {
				next = plan.EarliestNonZero(next, out.Observation.Now.Add(recoverEvery))
			}
		}
		now := out.Observation.Now
		switch unknown = out.UnknownLack(); {
		case unknown == "":
			since = time.Time{}
		case since.IsZero():
			since = now
		}
		if unknown != "" && now.Sub(since) < unknownFor {
			next = plan.EarliestNonZero(next, now.Add(recoverEvery))
		}
		return out, next, atMost, nil
	}, func(out *Result, next time.Time, pause time.Duration) bool {
		if unknown != "" {
			r.progress("Waiting for what cannot be read (%s)", unknown)
			return true
		}
		if len(late) > 0 {
			r.progress("Waiting for new reports from %s", facts.AtMost(late, 3))
			return true
		}
		r.progress("Waiting until findings can be repaired, %d to go: the next is due at %s; the next pass is at %s",
			out.ToRepair, next.UTC().Format(timeOfDay), out.Observation.Now.Add(pause).UTC().Format(timeOfDay))
		return true
	})
}
