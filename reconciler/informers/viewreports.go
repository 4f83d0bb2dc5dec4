package informers

import (
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

func (v *view) addReport(o *judge.Observation, name string, r *report) {
	if r.err != nil {
		o.ReportsUnreadable = true
		o.Unreadable = append(o.Unreadable, fmt.Sprintf("SandboxReport %s: %v", name, r.err))
		return
	}
	o.Reports = append(o.Reports, v.reportOf(name, r, o.Now))
}

// reportOf is a node's report with its Lease.
func (v *view) reportOf(name string, r *report, now time.Time) *podstate.Report {
	lease := v.leaseOf(name)
	if r.previous != nil && now.Sub(r.previousSince) < leaseDelay && verifies(lease, r.previous) {
		r = r.previous
		if v.changes != nil {
			v.changes.nodes[name] = true // reported again, since it counts for leaseDelay only
		}
	}
	return podstate.ReadHashedReport(r.SandboxReport, r.hash, lease)
}

// leaseDelay is for how long an agent may have written a report and not yet the
// Lease with its hash.
const leaseDelay = 5 * time.Second

// retainVerified keeps, beside a report that has just come, the one before it while
// the agent's Lease still has the hash of that one: else each report would leave its node
// without a fresh one until the Lease is written, and confirmation would start over.
func (v *view) retainVerified(before, after *item) {
	r, ok := after.parsed.(*report)
	if !ok || before == nil {
		return
	}
	old := before.parsed.(*report)
	if old.previous != nil && verifies(v.leaseOf(after.Name), old.previous) {
		old = old.previous
	}
	if r.err == nil && old.err == nil && old.hash != r.hash && verifies(v.leaseOf(after.Name), old) {
		kept := *old
		kept.previous = nil
		r.previous, r.previousSince = &kept, v.now()
	}
}

func (v *view) leaseOf(node string) *coordinationv1.Lease {
	if i := v.objects["leases"][types.NamespacedName{Namespace: v.leases, Name: node}]; i != nil {
		return i.parsed.(*coordinationv1.Lease)
	}
	return nil
}

// verifies reports whether an agent's Lease has the hash of a report, which counts as fresh
// only then.
func verifies(l *coordinationv1.Lease, r *report) bool {
	return l != nil && r.hash != "" && l.Annotations[v1alpha1.HashAnnotation] == r.hash
}
