package serve

import (
	"context"
	"log/slog"
	"time"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// goneFor is how long a Node must have been gone before what its agent left is
// removed: nodes are deleted and join again under the same name.
const goneFor = time.Hour

// Sweeper removes the reports and Leases of Nodes that are gone for good, which
// else would stand against releases after a restore of etcd for ever.
type Sweeper struct {
	API SweepAPI
	Log *slog.Logger

	missing map[string]time.Time // since when a Node with a report was not there at every look
}

// SweepAPI is what a Sweeper needs of the API.
type SweepAPI interface {
	// HasNode asks the API server itself.
	HasNode(ctx context.Context, name string) (bool, error)
	// DeleteReport deletes this very report, and the Lease of its agent.
	DeleteReport(ctx context.Context, r *podstate.Report) error
}

// Sweep removes what may be removed, and says when there may be more; zero for never.
func (s *Sweeper) Sweep(ctx context.Context, out *reconciler.Result) (next time.Time) {
	o := out.Observation
	missing := map[string]time.Time{}
	for _, r := range o.Reports {
		if len(o.Nodes) == 0 || o.Nodes[r.Name] != nil || r.Fresh(o.Now) {
			continue
		}
		since, known := s.missing[r.Name]
		if !known {
			since = o.Now
		}
		missing[r.Name] = since
		if due := since.Add(goneFor); due.After(o.Now) {
			next = reconciler.Sooner(next, due)
			continue
		}
		if out.Needs(r) {
			continue // a look follows when that has changed
		}
		if err := s.remove(ctx, r); err != nil {
			s.Log.Warn("the report of a node that is gone could not be removed", "node", r.Name, "error", err)
			missing[r.Name] = o.Now // not before another hour
		}
	}
	s.missing = missing
	return next
}

func (s *Sweeper) remove(ctx context.Context, r *podstate.Report) error {
	there, err := s.API.HasNode(ctx, r.Name)
	if err != nil || there {
		return err
	}
	if err := s.API.DeleteReport(ctx, r); err != nil {
		return err
	}
	s.Log.Info("removed the SandboxReport and the Lease of a node that is gone", "node", r.Name, "lastHeard", r.LeaseRenewed)
	return nil
}
