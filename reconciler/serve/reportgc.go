package serve

import (
	"context"
	"log/slog"
	"time"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// missingFor is how long a Node must be missing before its report is deleted: it may join again.
const missingFor = time.Hour

// ReportGC deletes the reports and Leases of deleted Nodes, which would pause releases forever after a restore of etcd.
type ReportGC struct {
	API ReportGCAPI
	Log *slog.Logger

	missingSince map[string]time.Time // by name, the first of the passes in a row without the Node
}

// ReportGCAPI is a kube.Cluster.
type ReportGCAPI interface {
	// HasNode reads by quorum.
	HasNode(ctx context.Context, name string) (bool, error)
	// DeleteReport deletes exactly this report, and the Lease of its agent.
	DeleteReport(ctx context.Context, r *podstate.Report) error
}

// Collect deletes reports, and returns when the next one may be due; zero for never.
func (s *ReportGC) Collect(ctx context.Context, out *reconciler.Result) (next time.Time) {
	o := out.Observation
	missing := map[string]time.Time{}
	nodes := o.Nodes.Or(nil)
	for _, r := range o.Reports.Or(nil) {
		if len(nodes) == 0 || nodes[r.Name] != nil || r.IsFresh(o.Now) {
			continue
		}
		since, isKnown := s.missingSince[r.Name]
		if !isKnown {
			since = o.Now
		}
		missing[r.Name] = since
		if due := since.Add(missingFor); due.After(o.Now) {
			next = plan.EarliestNonZero(next, due)
			continue
		}
		if out.Needs(r) {
			continue
		}
		if err := s.collectOne(ctx, r); err != nil {
			s.Log.Warn("Cannot delete the report of a deleted node", "node", r.Name, "error", err)
			missing[r.Name] = o.Now // try again in an hour
		}
	}
	s.missingSince = missing
	return next
}

func (s *ReportGC) collectOne(ctx context.Context, r *podstate.Report) error {
	hasNode, err := s.API.HasNode(ctx, r.Name)
	if err != nil || hasNode {
		return err
	}
	if err := s.API.DeleteReport(ctx, r); err != nil {
		return err
	}
	s.Log.Info("Deleted the SandboxReport and the Lease of a deleted node", "node", r.Name, "renewed", r.LeaseRenewedAt)
	return nil
}
