package reconciler

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// WithLocalNode is a Source on a node: whatever agent that node has or has not, its
// container runtime is looked at here and now, and so the node counts as heard.
type WithLocalNode struct {
	Source
	Node   string
	BootID string // of this machine
	// Inspect makes the node's report, going on from the one before it, nil for none, and
	// the UIDs of all pods that the runtime runs, those on the host network included.
	Inspect func(ctx context.Context, before *v1alpha1.SandboxReport) (report *v1alpha1.SandboxReport, runs []string, err error)
}

// List is the Source's, with the node's report.
func (s *WithLocalNode) List(ctx context.Context) (*judge.Observation, error) {
	o, err := s.Source.List(ctx)
	if err != nil {
		return nil, err
	}
	return s.inspect(ctx, o)
}

// Relist is the Source's, with the node's report.
func (s *WithLocalNode) Relist(ctx context.Context, before *judge.Observation) (*judge.Observation, error) {
	o, err := s.Source.Relist(ctx, before)
	if err != nil {
		return nil, err
	}
	return s.inspect(ctx, o)
}

// inspect is made after the pools were read, so that it has the sandbox of every entry that they have.
func (s *WithLocalNode) inspect(ctx context.Context, o *judge.Observation) (*judge.Observation, error) {
	at := slices.IndexFunc(o.Reports, func(r *podstate.Report) bool { return r.Name == s.Node })
	last := &podstate.Report{SandboxReport: &v1alpha1.SandboxReport{}}
	if at >= 0 {
		last = o.Reports[at]
	}
	known, err := s.known(o, last)
	if err != nil {
		return nil, err
	}
	var machine v1alpha1.Machine
	if node := o.Nodes[s.Node]; node != nil && node.BootID == s.BootID {
		machine = node.Machine
	}
	var before *v1alpha1.SandboxReport
	if at >= 0 && last.BootID == s.BootID { // else what another machine ran would seem to be gone
		before = last.SandboxReport
	}
	report := &podstate.Report{Renewed: o.Now, LeaseRenewed: o.Now, Written: o.Now, RestoreSeen: last.RestoreSeen}
	var runs []string
	if report.SandboxReport, runs, err = s.Inspect(ctx, before); err != nil {
		return nil, fmt.Errorf("inspect node %s: %w", s.Node, err)
	}
	if !known {
		if err := s.runsHere(o, runs); err != nil {
			return nil, err
		}
	}
	report.Name = s.Node
	report.BootID, report.Machine = "", machine
	if known {
		report.BootID = s.BootID
	}
	if before != nil && !machine.Known() {
		report.Machine = before.Machine
	}
	if at >= 0 {
		o.Reports[at] = report
	} else {
		o.Reports = append(o.Reports, report)
	}
	return o, nil
}

// known reports whether the node is known to be this machine by its boot id: its Node object's, or where that has none
// or Nodes may not be read, its last report's. It is an error where it is known to be another.
func (s *WithLocalNode) known(o *judge.Observation, last *podstate.Report) (bool, error) {
	node := o.Nodes[s.Node]
	switch {
	case node == nil && len(o.Nodes) > 0:
		return false, fmt.Errorf("--node %s: the cluster has no such Node", s.Node)
	case node != nil && node.BootID == s.BootID:
		return true, nil
	case node != nil && node.BootID != "":
		return false, fmt.Errorf("--node %s: this is another machine (Node %s was booted as %s, this machine as %s), or its kubelet has not said yet that it was booted again", s.Node, s.Node, node.BootID, s.BootID)
	case last.BootID == s.BootID:
		return true, nil
	case last.BootID != "" && last.Fresh(o.Now):
		return false, fmt.Errorf("--node %s: this is another machine (the agent of %s reports that it was booted as %s, this machine as %s)", s.Node, s.Node, last.BootID, s.BootID)
	}
	return false, nil
}

// runsHere is an error unless the pods that run here are the node's by the API: a pod of one UID never moves.
func (s *WithLocalNode) runsHere(o *judge.Observation, runs []string) error {
	here, running := false, sets.New(runs...)
	for _, p := range o.Pods {
		if p.Node == "" || !running.Has(p.RuntimeUID) {
			continue
		}
		if p.Node != s.Node {
			return fmt.Errorf("--node %s: this is another machine: its container runtime runs pod %s, which is bound to node %s", s.Node, p.NamespacedName, p.Node)
		}
		here = true
	}
	if !here {
		return fmt.Errorf("--node %s: nothing tells that this machine is that node: Nodes may not be listed or it has no boot id, there is no report of it since this machine was booted, and none of the %d pods that run here is bound to it; allow list of nodes", s.Node, len(runs))
	}
	return nil
}
