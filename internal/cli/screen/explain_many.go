package screen

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/explanation"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/table"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// explainNode writes what is known of a node, and what of it is stuck.
func (s *Screen) explainNode(e *explanation.Explanation, n explanation.NodeState) {
	s.gap()
	s.Line("node %s", n.Name)
	for _, text := range aboutNode(n) {
		name, rest, _ := strings.Cut(text, ": ")
		s.fact(name, rest)
	}
	s.counts(e)
	s.gatesOf(e)
	s.stuck(e)
}

// explainPools writes what is known of pools, and what in them is stuck.
func (s *Screen) explainPools(e *explanation.Explanation) {
	for _, p := range e.Pools {
		s.gap()
		s.Line("pool %s", p.Ref())
		if p.Problem != "" {
			s.fact("problem", p.Problem)
		} else {
			s.fact("range", p.RangeText)
		}
		s.fact("definitions", table.Dash(strings.Join(p.Networks(), ", ")))
		s.fact("paused", map[bool]string{true: "yes, by its annotation", false: "no"}[p.Paused])
		s.fact("addresses", aboutUsage(p))
	}
	if len(e.Pools) == 0 {
		return
	}
	s.counts(e)
	s.gatesOf(e)
	s.stuck(e)
}

// aboutUsage is how full a pool is.
func aboutUsage(p *usage.Pool) string {
	text := fmt.Sprintf("%d used; how many are usable is not known: %s", p.Used, p.Unknown)
	if p.Unknown == "" {
		text = fmt.Sprintf("%s usable, %d used, %s free (%s full)", amount(p.Usable), p.Used, amount(p.Free), percent(p))
	}
	if len(p.Waiting) > 0 {
		text += "; these pods wait for one: " + podList(p.Waiting, manyRows)
	}
	return text
}

// aboutNode are the facts about a node, each as "<name>: <fact>".
func aboutNode(n explanation.NodeState) []string {
	var facts []string
	switch {
	case n.Node == nil:
		facts = append(facts, "Node: no object by that name, or Nodes may not be listed")
	default:
		text := "Ready"
		if !n.Node.Ready {
			text = "not Ready since " + stamp(n.Node.NotReadySince)
		}
		if n.Node.OutOfService {
			text += ", tainted out-of-service"
			if n.Node.Ready {
				text += " (which does not count while it is Ready)"
			}
		}
		facts = append(facts, "Node: "+text)
	}
	if n.Report == nil {
		facts = append(facts, "report: none"+map[bool]string{true: ", although its agent should write one", false: ""}[n.State != ""])
	} else {
		state := "not fresh"
		if n.Fresh {
			state = "fresh"
		}
		facts = append(facts, fmt.Sprintf("report: %s, Lease renewed %s, content of %s, %s %s, bootID %s, %s", state, stamp(n.Report.LeaseRenewed), stamp(n.Report.ObservedAt.Time),
			table.Dash(n.Report.Runtime.Name), n.Report.Runtime.Version, map[bool]string{true: "known", false: "not known"}[n.Report.BootID != ""], Count(len(n.Report.Sandboxes), "sandbox record")))
	}
	if n.Awaited {
		facts = append(facts, "restore: it is waited for since etcd was restored, and nothing is released until it has reported")
	}
	return facts
}

// gatesOf writes what stands against releases of what is explained.
func (s *Screen) gatesOf(e *explanation.Explanation) {
	if len(e.Gates) > 0 {
		s.gap()
	}
	s.gates(e.Report)
}

// stuck writes a row for each item that is stale or held. Nothing in it is cut: a name is
// what somebody searches for.
func (s *Screen) stuck(e *explanation.Explanation) {
	for _, sec := range []struct {
		section
		verdict judge.Verdict
	}{{section{title: "STALE", level: table.Warn, release: true}, judge.Stale}, {section{title: "HELD", level: table.Plain}, judge.Held}} {
		items := e.Pick(sec.verdict)
		if len(items) == 0 {
			continue
		}
		s.Title(sec.level, sec.title, len(items))
		shown := items
		if len(items) > manyRows && !s.Wide {
			shown = items[:manyRows]
		}
		rows := make([][]string, 0, len(shown))
		for _, it := range shown {
			rows = append(rows, itemRow(sec.section, e.Report, it))
		}
		columns := slices.Clone(itemColumns(sec.section))
		for i := range columns {
			columns[i].Cut = 0
		}
		s.Table(columns, rows)
		if more := len(items) - len(shown); more > 0 {
			s.Line("and %s; -o wide has them all.", Count(more, "more row"))
		}
		s.legend(sec.section, e.Report, shown)
	}
}
