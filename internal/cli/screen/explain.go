package screen

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/advice"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/explanation"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/table"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Explain writes all that is known of a subject, and what can be done.
func (s *Screen) Explain(e *explanation.Explanation) {
	for _, text := range e.Missing {
		s.Text("", text)
	}
	for _, text := range e.Notes() {
		if text != e.Restore.Text() { // it is told below
			s.Text("Note: ", text)
		}
	}
	switch e.Subject.Kind {
	case explanation.Pool:
		s.explainPools(e)
	case explanation.Node:
		if e.Found {
			s.explainNode(e, e.Nodes[0])
		}
	default:
		s.explainPods(e)
		for _, it := range e.Items {
			s.explainItem(e, it)
		}
		s.nodes(e)
	}
	s.known(e)
	s.Findings("FINDINGS", e.Findings)
	s.advice(e.Advice)
}

// explainPods writes what is known of the pod that is asked about.
func (s *Screen) explainPods(e *explanation.Explanation) {
	for _, p := range e.Pods {
		name := e.Subject.Namespace + "/" + e.Subject.Name
		s.gap()
		s.Line("pod %s", name)
		if p.Pod == nil {
			s.fact("API", "it has no such pod")
		} else {
			text := fmt.Sprintf("%s on node %s, UID %s, created %s", p.Pod.Phase, table.Dash(p.Pod.Node), p.Pod.UID, stamp(p.Pod.Created))
			if !p.Pod.Deleted.IsZero() {
				text += ", deleted: its grace period ends " + stamp(p.Pod.Deleted)
			}
			s.fact("API", text)
			s.fact("network-status", strings.ToLower(explanation.NetworkStatus(p.Pod))+", with "+listed(p.Carries, "no address of a pool"))
		}
		if p.Waits != "" {
			s.fact("waits", p.Waits)
		}
		for _, b := range p.Sandboxes {
			s.fact("sandbox", aboutListed(b))
		}
		if len(e.Items) == 0 {
			s.fact("recorded", "nothing, in any pool")
		}
	}
}

// aboutListed is a sandbox as its node's report has it.
func aboutListed(b explanation.SandboxState) string {
	text := fmt.Sprintf("%s on %s, id %s, UID %s, since %s, with %s", b.State, b.Node, b.ID, table.Dash(b.UID), stamp(b.Created), listed(b.Addresses, "no address that is known"))
	if !b.Fresh {
		text += "; that report is not fresh"
	}
	return text
}

func listed[T fmt.Stringer](all []T, none string) string {
	if len(all) == 0 {
		return none
	}
	var texts []string
	for _, x := range all {
		texts = append(texts, x.String())
	}
	return strings.Join(texts, ", ")
}

// nodes writes a line for each node that decides about what is explained.
func (s *Screen) nodes(e *explanation.Explanation) {
	if len(e.Nodes) == 0 {
		return
	}
	s.gap()
	s.Line("nodes")
	for _, n := range e.Nodes[:min(len(e.Nodes), manyRows)] {
		s.fact(n.Name, strings.Join(aboutNode(n), "; "))
	}
	if more := len(e.Nodes) - manyRows; more > 0 {
		s.fact("", Count(more, "more node"))
	}
}

// known writes what this process knows of the past.
func (s *Screen) known(e *explanation.Explanation) {
	told := slices.ContainsFunc(e.Gates, func(g report.Gate) bool { return g.Why == reconciler.EtcdRestored && g.Count > 0 })
	if r := e.Restore; r != nil && !r.Complete() && !told {
		s.gap()
		s.Text("Restore: ", r.Text())
	} else if r != nil && r.Complete() {
		s.gap()
		s.Text("Restore: ", fmt.Sprintf("etcd was restored at %s (%s), and no node is waited for any more.", r.Date(), r.Why))
	}
	if n := e.Recent.Releases; n > 0 {
		whose := "by all processes that share the Lease of the breaker"
		if !e.Recent.Shared {
			whose = "by this process, and no more is known"
		}
		s.gap()
		s.Text("Breaker: ", fmt.Sprintf("%s within the last hour, of %s there were before (%s).", Count(n, "unconfirmed release"), Count(e.Recent.Of, "allocation"), whose))
	}
}

// advice writes what can be done: each command on a line of its own, which is never broken,
// so that it can be copied.
func (s *Screen) advice(steps []advice.Step) {
	if len(steps) == 0 {
		return
	}
	s.Line("\n%s", s.Paint(table.Plain, "WHAT YOU CAN DO"))
	cause := ""
	for _, step := range steps {
		if step.Cause != cause && step.Cause != "" {
			cause = step.Cause
			s.Line("%s:", cause)
		}
		why := step.Why
		if step.OnNode != "" && !strings.Contains(why, step.OnNode) {
			why += " On node " + step.OnNode + ":"
		}
		s.Text("  ", why)
		if step.Command != "" {
			s.Line("      %s", step.Command)
		}
	}
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// gap writes an empty line between what is there and what follows.
func (s *Screen) gap() {
	if s.text.Len() > 0 {
		s.Line("")
	}
}

// fact writes a line of facts under a name.
func (s *Screen) fact(name, text string) { s.Text(fmt.Sprintf("  %-14s ", name), text) }

// counts are how many of the items there are of each verdict and reason.
func (s *Screen) counts(e *explanation.Explanation) {
	n := map[judge.Verdict]map[judge.Reason]int{}
	for _, it := range e.Items {
		if it.SharesVerdictOf() != nil {
			continue
		}
		if n[it.Verdict] == nil {
			n[it.Verdict] = map[judge.Reason]int{}
		}
		n[it.Verdict][it.Reason]++
	}
	for _, v := range []judge.Verdict{judge.InUse, judge.Held, judge.Stale} {
		total, texts := 0, []string{}
		for _, name := range judge.ReasonNames() {
			for reason, count := range n[v] {
				if reason.String() == name {
					total += count
					texts = append(texts, fmt.Sprintf("%d %s", count, name))
				}
			}
		}
		if total > 0 {
			s.fact(v.String(), fmt.Sprintf("%d: %s", total, strings.Join(texts, ", ")))
		}
	}
	if len(n) == 0 {
		s.fact("recorded", "nothing")
	}
}
