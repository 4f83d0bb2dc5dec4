package explanation

import (
	"maps"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// NodeState is what is known of a node.
type NodeState struct {
	Name string
	// Node is its object; nil where there is none, or Nodes may not be listed.
	Node *podstate.Node
	// Report is its agent's last one; nil for none.
	Report *podstate.Report
	// State is that of its report; "" where no agent is expected there.
	State judge.NodeState
	// Fresh: its report may be relied upon.
	Fresh bool
	// Awaited: its report has not been written since etcd was restored, and nothing is
	// released until it is.
	Awaited bool
}

// known reports whether there is anything by that name.
func (n NodeState) known() bool { return n.Node != nil || n.Report != nil || n.State != "" }

// nodesOf are the nodes that are asked about, or that the items and findings are about.
func (e *Explanation) nodesOf(j *judge.Judgement) []NodeState {
	if e.Subject.Kind == Node {
		return []NodeState{nodeState(j, e.Subject.Name)}
	}
	names := map[string]bool{}
	for _, it := range e.Items {
		for _, n := range it.nodes() {
			names[n] = true
		}
	}
	for _, f := range e.Findings {
		names[f.Node] = true
	}
	for _, p := range e.Pods {
		if p.Pod != nil {
			names[p.Pod.Node] = true
		}
		for _, s := range p.Sandboxes {
			names[s.Node] = true
		}
	}
	delete(names, "")
	var nodes []NodeState
	for _, name := range slices.Sorted(maps.Keys(names)) {
		nodes = append(nodes, nodeState(j, name))
	}
	return nodes
}

// nodes are those that decided: those without a fresh report, else the one that it is
// about.
func (it Item) nodes() []string {
	ev := it.Evidence()
	switch {
	case ev == nil:
		return nil
	case len(ev.WithoutReport) > 0 && it.Verdict != judge.InUse:
		return ev.WithoutReport
	case it.Node() != "":
		return []string{it.Node()}
	case ev.Sandbox == judge.NodeDead || ev.Sandbox == judge.NodeMissing || ev.Sandbox == judge.Ready || ev.Sandbox == judge.NotReady:
		return ev.Nodes
	}
	return nil
}

func nodeState(j *judge.Judgement, name string) NodeState {
	n := NodeState{Name: name, Node: j.Observation.Nodes[name], State: j.Nodes[name]}
	for _, r := range j.Observation.Reports {
		if r.Name == name {
			n.Report, n.Fresh = r, r.Fresh(j.Observation.Now)
		}
	}
	n.Awaited = j.Restore != nil && slices.Contains(j.Restore.Awaiting, name)
	return n
}

// podsOn reports whether the API has a pod on a node.
func podsOn(j *judge.Judgement, name string) bool {
	for _, p := range j.Observation.Pods {
		if p.Node == name {
			return true
		}
	}
	return false
}
