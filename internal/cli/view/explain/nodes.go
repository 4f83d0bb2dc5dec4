package explain

import (
	"cmp"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/advice"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
)

// NodeSteps returns the steps that end what nodes hold, for the findings on such nodes. Of the nodes that are not
// Ready, and of the others, the one that holds most is the example.
func NodeSteps(a advice.Advisor, j *findings.Assessment, found []view.Finding) (steps []view.Advice) {
	a = advisorOf(a, j)
	for _, kind := range []findings.Kind{findings.NoFreshReportFinding, findings.NodeNotReady} {
		held := lists.Filter(found, func(f view.Finding) bool { return f.Kind == kind && f.Holds > 0 && f.Node != "" })
		slices.SortStableFunc(held, func(f, g view.Finding) int { return cmp.Compare(g.Holds, f.Holds) })
		all := lists.Map(held, func(f view.Finding) string { return f.Node })
		isDown := down(j.Observation, all)
		others := lists.Filter(all, func(name string) bool { return !slices.Contains(isDown, name) })
		if len(isDown) > 0 {
			steps = append(steps, a.Steps("findings", string(kind), advice.Facts{Nodes: isDown, DownNodes: isDown, Most: 1})...)
		}
		if len(others) > 0 {
			steps = append(steps, a.Steps("findings", string(kind), advice.Facts{Nodes: others, Most: 1})...)
		}
	}
	return advice.Unique(steps)
}

// CompleteStatus completes the lines of a status: commands name the cluster, and a line on nodes that hold addresses
// has the steps that end that. j is nil where addresses could not be judged.
func CompleteStatus(a advice.Advisor, j *findings.Assessment, lines []view.StatusLine) []view.StatusLine {
	lines = slices.Clone(lines)
	for i := range lines {
		l := &lines[i]
		l.Next = a.OnCluster(l.Next)
		if j == nil || l.Level == view.LevelOK {
			continue
		}
		kind := map[string]findings.Kind{"agents": findings.NoFreshReportFinding, "nodes": findings.NodeNotReady}[l.ID]
		found := lists.Filter(j.Findings, func(f findings.Finding) bool { return f.Kind == kind })
		l.Advice = NodeSteps(a, j, lists.Map(found, view.NewFinding))
	}
	return lines
}

// advisorOf returns the advisor of a judgement.
func advisorOf(a advice.Advisor, j *findings.Assessment) advice.Advisor {
	a.Nodes, a.WithoutAgents = j.Observation.Nodes.Or(nil), j.WithoutAgents
	return a
}

// down returns the nodes that are neither Ready nor declared dead.
func down(o *facts.Observation, nodes []string) []string {
	return lists.Filter(nodes, func(name string) bool {
		n := o.Nodes.Or(nil)[name]
		return n != nil && !n.Ready && !n.IsDead()
	})
}
