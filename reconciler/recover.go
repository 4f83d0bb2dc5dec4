package reconciler

import (
	"context"
	"errors"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// errNoReports: without reports nothing shows which sandboxes run.
var errNoReports = errors.New("no node agent has reported, so nothing can be written back; " +
	"deploy the agents, inspect a single node with --cri, or use a --snapshot with their sandboxreports and leases")

const recoverEvery = 2 * time.Second // the pause of Recover behind a fence, where reports arrive all the time

// Recover writes into pools and reservations what runs, and waits for findings until they are due. With DryRun it
// observes once, and the result lists what it would write. The error says that the cluster could not be read.
func (r *Reconciler) Recover(ctx context.Context) (*Result, error) {
	var late []string // the nodes that have not reported since the fence stands
	return r.passes(ctx, func() (out *Result, next time.Time, atMost time.Duration, err error) {
		out, err = r.Check(ctx)
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
			if late = out.NotRenewedSince(fenced); len(late) > 0 {
				next = plan.EarliestNonZero(next, out.Observation.Now.Add(recoverEvery))
			}
		}
		return out, next, atMost, nil
	}, func(out *Result, next time.Time, pause time.Duration) bool {
		if len(late) > 0 {
			r.progress("Waiting for new reports from %s", facts.AtMost(late, 3))
			return true
		}
		r.progress("Waiting until findings can be repaired, %d to go: the next is due at %s; the next pass is at %s",
			out.ToRepair, next.UTC().Format(timeOfDay), out.Observation.Now.Add(pause).UTC().Format(timeOfDay))
		return true
	})
}
