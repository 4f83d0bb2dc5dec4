package kube

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// rereadFor is how long an observation waits for agents that have written their report
// and not yet the Lease with its hash. It may be made while
// whereabouts' Lease is held.
const rereadFor = 250 * time.Millisecond

// rereadUnverified reads again the reports whose hash is not in the Lease of their agent,
// which is alive: an agent writes the report and then the Lease, and the lists may have been
// in between. What stays so, or cannot be read again, is as it was.
func (c *Cluster) rereadUnverified(ctx context.Context, o *judge.Observation) {
	ctx, cancel := context.WithTimeout(ctx, rereadFor)
	defer cancel()
	for i, r := range o.Reports {
		alive := podstate.Report{Renewed: r.LeaseRenewed}
		for r.Renewed.IsZero() && alive.Fresh(o.Now) && ctx.Err() == nil {
			again := c.rereadReport(ctx, r.Name)
			if again == nil {
				break
			}
			if r = again; r.Renewed.IsZero() {
				select {
				case <-ctx.Done():
				case <-time.After(50 * time.Millisecond):
				}
			}
		}
		o.Reports[i] = r
	}
}

// rereadReport reads one report and its Lease, nil where one was not to be had. By
// LIST, for which there is a right.
func (c *Cluster) rereadReport(ctx context.Context, name string) *podstate.Report {
	only := named(name)
	reports, err := c.objects.Resource(v1alpha1.Resource()).List(ctx, only)
	if err != nil || len(reports.Items) != 1 {
		return nil
	}
	leases, err := c.core.CoordinationV1().Leases(c.LeaseNamespace).List(ctx, only)
	if err != nil || len(leases.Items) != 1 {
		return nil
	}
	report := &v1alpha1.SandboxReport{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(reports.Items[0].Object, report) != nil {
		return nil
	}
	return podstate.ReadReport(report, &leases.Items[0])
}
