package serve

import (
	"context"
	"log/slog"
	"time"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// missingFor is how long a Node must have been gone before what its agent left is
// removed: nodes are deleted and join again under the same name.
const missingFor = time.Hour

// ReportGC removes the reports and Leases of Nodes that are gone for good, which
// else would stand against releases after a restore of etcd for ever.
type ReportGC struct {
	API ReportGCAPI
	Log *slog.Logger

	missingSince map[string]time.Time // since when a Node with a report was missing at every pass
}

// ReportGCAPI is what a ReportGC needs of the API.
type ReportGCAPI interface {
	// HasNode asks the API server itself.
	HasNode(ctx context.Context, name string) (bool, error)
	// DeleteReport deletes this very report, and the Lease of its agent.
	DeleteReport(ctx context.Context, r *podstate.Report) error
}

// Collect removes what may be removed, and returns when there may be more; zero for never.
func (s *ReportGC) Collect(ctx context.Context, out *reconciler.Result) (next time.Time) {
	o := out.Observation
	missing := map[string]time.Time{}
	for _, r := range o.Reports {
		if len(o.Nodes) == 0 || o.Nodes[r.Name] != nil || r.IsFresh(o.Now) {
			continue
		}
		since, known := s.missingSince[r.Name]
		if !known {
			since = o.Now
		}
		missing[r.Name] = since
		if due := since.Add(missingFor); due.After(o.Now) {
			next = reconciler.EarliestNonZero(next, due)
			continue
		}
		if out.Needs(r) {
			continue // another pass follows when that has changed
		}
		if err := s.collectOne(ctx, r); err != nil {
			s.Log.Warn("the report of a node that is gone could not be removed", "node", r.Name, "error", err)
			missing[r.Name] = o.Now // not before another hour
		}
	}
	s.missingSince = missing
	return next
}

func (s *ReportGC) collectOne(ctx context.Context, r *podstate.Report) error {
	there, err := s.API.HasNode(ctx, r.Name)
	if err != nil || there {
		return err
	}
	if err := s.API.DeleteReport(ctx, r); err != nil {
		return err
	}
	s.Log.Info("removed the SandboxReport and the Lease of a node that is gone", "node", r.Name, "lastHeard", r.LeaseRenewedAt)
	return nil
}
