package reconciler

import (
	"context"
	"fmt"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

// WithLocalNode is a Source on a node. It inspects the container runtime, so the node needs no agent to have a report.
type WithLocalNode struct {
	Source
	Node   string
	BootID string // of this machine
	// Inspect makes the node's report, based on the previous one, nil for none.
	Inspect func(ctx context.Context, before *v1alpha1.SandboxReport) (*v1alpha1.SandboxReport, error)
}

// List lists the Source and adds the node's report.
func (s *WithLocalNode) List(ctx context.Context) (*facts.Observation, error) {
	o, err := s.Source.List(ctx)
	return s.inspect(ctx, o, err)
}

// Relist lists the Source again and adds the node's report.
func (s *WithLocalNode) Relist(ctx context.Context, before *facts.Observation) (*facts.Observation, error) {
	o, err := s.Source.Relist(ctx, before)
	return s.inspect(ctx, o, err)
}

// inspect adds the node's report. It runs after the pools were read, so that it has the sandbox of every allocation.
// The Node must have the boot ID of this machine: otherwise the sandboxes of another machine would seem to be gone.
func (s *WithLocalNode) inspect(ctx context.Context, o *facts.Observation, err error) (*facts.Observation, error) {
	if err != nil {
		return o, err
	}
	node := o.Nodes.Or(nil)[s.Node]
	switch {
	case node == nil:
		return o, fmt.Errorf("--node %s: this Node does not exist, or listing nodes is forbidden", s.Node)
	case node.BootID != s.BootID:
		return o, fmt.Errorf("--node %s: this is another machine, or its kubelet has not reported its boot ID yet "+
			"(Node %q, this machine %q)", s.Node, node.BootID, s.BootID)
	}
	report := &podstate.Report{ConfirmedAt: o.Now, LeaseRenewedAt: o.Now, WrittenAt: o.Now, IsLocal: true}
	var before *v1alpha1.SandboxReport
	reports := slices.Clone(o.Reports.Or(nil))
	if why := o.Reports.Why(); why != "" { // other nodes lack a fresh report then
		o.Warnings = append(o.Warnings, fmt.Sprintf("SandboxReports are unknown, but for that of %s: %s", s.Node, why))
	}
	at := slices.IndexFunc(reports, func(r *podstate.Report) bool { return r.Name == s.Node })
	if at >= 0 {
		if report.RestoreNonce = reports[at].RestoreNonce; reports[at].BootID == s.BootID {
			before = reports[at].SandboxReport
		}
		reports = slices.Delete(reports, at, at+1)
	}
	if report.SandboxReport, err = s.Inspect(ctx, before); err != nil {
		return o, fmt.Errorf("inspect node %s: %w", s.Node, err)
	}
	report.Name, report.BootID, report.Machine = s.Node, s.BootID, node.Machine
	if before != nil && !node.Machine.IsKnown() {
		report.Machine = before.Machine
	}
	o.Reports = facts.Complete(append(reports, report), o.Reports.Revision())
	return o, nil
}
