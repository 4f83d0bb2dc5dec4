package reconciler

import (
	"context"
	"fmt"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/podstate/v1alpha1"
)

// OnNode is a Source on a node: whatever agent that node has or has not, its
// container runtime is looked at here and now, and so the node counts as heard.
type OnNode struct {
	Source
	Node   string
	BootID string // of this machine
	// Look makes the node's report, going on from the one before it, nil for none.
	Look func(ctx context.Context, before *v1alpha1.SandboxReport) (*v1alpha1.SandboxReport, error)
}

// Observe is the Source's, with the node's report.
func (s *OnNode) Observe(ctx context.Context) (*Observation, error) {
	o, err := s.Source.Observe(ctx)
	if err != nil {
		return nil, err
	}
	return s.look(ctx, o)
}

// Refresh is the Source's, with the node's report.
func (s *OnNode) Refresh(ctx context.Context, before *Observation) (*Observation, error) {
	o, err := s.Source.Refresh(ctx, before)
	if err != nil {
		return nil, err
	}
	return s.look(ctx, o)
}

// look is made after the pools were read, so that it has the sandbox of every
// entry that they have.
func (s *OnNode) look(ctx context.Context, o *Observation) (*Observation, error) {
	node := o.Nodes[s.Node]
	if node == nil && len(o.Nodes) > 0 {
		return nil, fmt.Errorf("--node %s: the cluster has no such Node", s.Node)
	}
	if node != nil && node.BootID != "" && node.BootID != s.BootID {
		return nil, fmt.Errorf("--node %s: this is another machine (Node %s was booted as %s, this machine as %s), or its kubelet has not said yet that it was booted anew", s.Node, s.Node, node.BootID, s.BootID)
	}
	known := node != nil && node.BootID != "" // to be this machine
	report := &podstate.Report{Renewed: o.Now, LastHeard: o.Now, Written: o.Now}
	var before *v1alpha1.SandboxReport
	at := -1
	for i, r := range o.Reports {
		if r.Name == s.Node {
			at, report.RestoreSeen = i, r.RestoreSeen
			if known { // else what another machine ran would seem to be gone
				before = r.SandboxReport
			}
		}
	}
	var err error
	if report.SandboxReport, err = s.Look(ctx, before); err != nil {
		return nil, fmt.Errorf("look at node %s: %w", s.Node, err)
	}
	report.Name = s.Node
	report.BootID = ""
	if known {
		report.BootID = s.BootID
	}
	if at >= 0 {
		o.Reports[at] = report
	} else {
		o.Reports = append(o.Reports, report)
	}
	return o, nil
}
