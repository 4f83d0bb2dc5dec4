package explanation

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// nodes are the nodes that are asked about, or that the items and findings are about.
func (e *Explanation) nodes() []document.ExplainedNode {
	names := sets.New[string]()
	for _, it := range e.Items() {
		names.Insert(nodesOf(it)...)
	}
	for _, f := range e.Findings {
		names.Insert(f.Node)
	}
	for _, p := range e.Document.Pods {
		names.Insert(p.Node)
		for _, b := range p.Sandboxes {
			names.Insert(b.Node)
		}
	}
	if e.Subject.Kind == Node {
		names = sets.New(e.Subject.Name)
	}
	nodes := []document.ExplainedNode{}
	for _, name := range sets.List(names.Delete("")) {
		nodes = append(nodes, e.node(name))
	}
	return nodes
}

func (e *Explanation) node(name string) document.ExplainedNode {
	d := document.ExplainedNode{Name: name, Agent: string(e.Judgement.Nodes[name])}
	d.Awaited = e.Restore != nil && slices.Contains(e.Restore.Awaiting, name)
	if n := e.Observation.Nodes[name]; n != nil {
		d.InAPI, d.Ready, d.NotReadySince, d.OutOfService = true, n.Ready, document.When(n.NotReadySince), n.OutOfService
	}
	for _, r := range e.Observation.Reports {
		if r.Name == name {
			d.Report = &document.NodeReport{Fresh: r.Fresh(e.Observation.Now), LeaseRenewed: document.When(r.LeaseRenewed),
				ObservedAt: document.When(r.ObservedAt.Time), Runtime: r.Runtime.Name + " " + r.Runtime.Version,
				BootIDKnown: r.BootID != "", Sandboxes: len(r.Sandboxes), Attachments: len(r.Attachments)}
		}
	}
	return d
}

// nodesOf are the nodes that decided about an item: those without a fresh report, else the one that
// it is about.
func nodesOf(it *judge.Item) []string {
	ev := it.Evidence()
	switch {
	case ev == nil:
		return nil
	case len(ev.WithoutReport) > 0 && it.Verdict != judge.InUse:
		return ev.WithoutReport
	case it.Node() != "":
		return []string{it.Node()}
	case slices.Contains([]judge.Sandbox{judge.NodeDead, judge.NodeMissing, judge.Ready, judge.NotReady}, ev.Sandbox):
		return ev.Nodes
	}
	return nil
}
