package screen

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/explanation"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/table"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// Explain writes all that is known of a subject, and what can be done.
func (s *Screen) Explain(e *explanation.Explanation) {
	d := e.Document
	for _, text := range d.Missing {
		s.Text("", text)
	}
	for _, text := range e.Notes() {
		if text != e.Restore.Text() { // it is written below
			s.Text("Note: ", text)
		}
	}
	switch {
	case e.Subject.Kind == explanation.Pool && d.Found:
		for _, p := range e.Pools {
			s.explainPool(p)
		}
		s.overview(e)
	case e.Subject.Kind == explanation.Pool:
	case e.Subject.Kind == explanation.Node && d.Found:
		s.gap()
		s.Line("node %s", e.Subject.Name)
		for _, fact := range aboutNode(d.Nodes[0]) {
			s.fact(fact[0], fact[1])
		}
		s.overview(e)
	case e.Subject.Kind == explanation.Node:
	default:
		for _, p := range d.Pods {
			s.explainPod(e, p)
		}
		for i, it := range e.Items() {
			s.explainItem(e, it, d.Items[i])
		}
		s.nodes(d.Nodes)
	}
	s.past(e)
	s.Findings("FINDINGS", e.Findings)
	s.advice(d.Advice)
}

// explainPod writes what is known of the pod that is asked about.
func (s *Screen) explainPod(e *explanation.Explanation, p document.ExplainedPod) {
	s.gap()
	s.Line("pod %s", p.Name)
	if pod := e.Observation.Pods[types.NamespacedName{Namespace: e.Subject.Namespace, Name: e.Subject.Name}]; pod == nil {
		s.fact("API", "it has no such pod")
	} else {
		text := fmt.Sprintf("%s on node %s, UID %s, created %s", p.Phase, table.Dash(p.Node), p.UID, stamp(&pod.Created))
		if !pod.Deleted.IsZero() {
			text += ", deleted: its grace period ends " + stamp(&pod.Deleted)
		}
		s.fact("API", text)
		s.fact("network-status", strings.ToLower(p.NetworkStatus)+", with "+listed(p.Carries, "no address of a pool"))
	}
	if p.Waits != "" {
		s.fact("waits", p.Waits)
	}
	for _, b := range p.Sandboxes {
		text := fmt.Sprintf("%s on %s, id %s, UID %s, since %s, with %s", b.State, b.Node, b.ID, table.Dash(b.UID),
			stamp(b.Created), listed(b.Addresses, "no address that is known"))
		if !b.Fresh {
			text += "; that report is not fresh"
		}
		s.fact("sandbox", text)
	}
	if len(e.Document.Items) == 0 {
		s.fact("recorded", "nothing, in any pool")
	}
}

// explainItem writes an allocation or reservation with its evidence.
func (s *Screen) explainItem(e *explanation.Explanation, it *judge.Item, d document.ExplainedItem) {
	s.gap()
	entry := "podref " + table.Dash(d.PodRef)
	if it.Reservation != nil {
		s.Text("", fmt.Sprintf("%s in reservation %s (network %q)", d.IP, d.Reservation, d.Network))
	} else {
		s.Text("", fmt.Sprintf("%s in pool %s (%s, key %q)", d.IP, d.Pool, it.Pool.RangeText, d.Key))
		entry += ", id " + table.Dash(d.ContainerID)
	}
	s.fact("entry", entry+", ifname "+table.Dash(d.IfName))
	if d.KnownForSeconds > 0 {
		s.fact("known for", (time.Duration(d.KnownForSeconds)*time.Second).String()+", by this process")
	}
	verdict := d.Verdict.String()
	if d.Verdict == judge.Stale {
		verdict += choose(d.Proven, ", proven", ", unconfirmed")
	}
	verdict += ": " + d.Reason.String()
	if d.SharesVerdictOf != "" {
		s.fact("verdict", verdict+", shared with its allocation in "+d.SharesVerdictOf)
	} else {
		s.fact("verdict", verdict)
		s.fact("because", d.Message)
		s.fact("rule", d.RuleText)
		s.evidence(d.Evidence)
	}
	for _, g := range d.Gates {
		s.fact("release", fmt.Sprintf("not now, %s: %s", g.Refusal, g.Detail))
	}
	if d.Verdict == judge.Stale && len(d.Gates) == 0 {
		s.fact("release", "nothing stands against it: the next pass releases it")
	}
	if it.Reservation != nil {
		return
	}
	for _, r := range it.Related() {
		s.fact("reservation", fmt.Sprintf("%s: %s, %s", r.Object(), r.Verdict, r.Reason))
	}
	if len(it.Related()) == 0 {
		s.fact("reservation", "none")
	}
}

func (s *Screen) evidence(d *document.Evidence) {
	if d == nil || d.Problem != "" {
		return
	}
	if p := d.Pod; p == nil {
		s.fact("pod", "none by that name")
	} else {
		own := map[string]string{"Unknown": "not known whether the sandbox is its own",
			"ItsPod": "the sandbox is its own", "NotItsPod": "the sandbox is another pod's"}[p.Ownership]
		s.fact("pod", fmt.Sprintf("%s on node %s, UID %s; %s; network-status %s; the address is %son it", p.Phase,
			table.Dash(p.Node), p.UID, own, strings.ToLower(p.NetworkStatus), choose(p.OnPod, "", "not ")))
	}
	text := d.Sandbox.State
	if d.Sandbox.UID != "" {
		text += ", run for pod UID " + d.Sandbox.UID
	}
	if len(d.Sandbox.Nodes) > 0 {
		text += "; could run on " + list(d.Sandbox.Nodes, 10)
	}
	if d.Sandbox.State == judge.NoFreshReport.String() {
		text += "; no fresh report from " + list(d.Sandbox.WithoutReport, 10)
	}
	s.fact("sandbox", text)
	s.fact("other claims", table.Dash(d.Claimant))
}

// explainPool writes how full a pool is.
func (s *Screen) explainPool(p *usage.Pool) {
	s.gap()
	s.Line("pool %s", p.Ref())
	if p.Problem != "" {
		s.fact("problem", p.Problem)
	} else {
		s.fact("range", p.RangeText)
	}
	s.fact("definitions", table.Dash(strings.Join(p.Networks(), ", ")))
	s.fact("paused", choose(p.Paused, "yes, by its annotation", "no"))
	full := document.OfPool(p)
	text := fmt.Sprintf("%d used; how many are usable is not known: %s", p.Used, p.Unknown)
	if p.Unknown == "" {
		text = fmt.Sprintf("%s usable, %d used, %s free (%s full)", amount(p.Usable), p.Used, amount(p.Free), percent(full))
	}
	if len(p.Waiting) > 0 {
		text += "; these pods wait for one: " + list(full.Waiting, manyRows)
	}
	s.fact("addresses", text)
}

// nodes writes a line for each node that decides about what is explained.
func (s *Screen) nodes(nodes []document.ExplainedNode) {
	if len(nodes) == 0 {
		return
	}
	s.gap()
	s.Line("nodes")
	for _, n := range nodes[:min(len(nodes), manyRows)] {
		var texts []string
		for _, fact := range aboutNode(n) {
			texts = append(texts, fact[0]+": "+fact[1])
		}
		s.fact(n.Name, strings.Join(texts, "; "))
	}
	if more := len(nodes) - manyRows; more > 0 {
		s.fact("", Count(more, "more node"))
	}
}

// aboutNode are the facts about a node, each with its name.
func aboutNode(n document.ExplainedNode) [][2]string {
	node := "Ready"
	switch {
	case !n.InAPI:
		node = "no object by that name, or Nodes may not be listed"
	case !n.Ready:
		node = "not Ready since " + stamp(n.NotReadySince)
	}
	if n.OutOfService {
		node += ", tainted out-of-service"
		if n.Ready {
			node += " (which does not count while it is Ready)"
		}
	}
	report := "none"
	switch r := n.Report; {
	case r != nil:
		runtime, version, _ := strings.Cut(r.Runtime, " ")
		report = fmt.Sprintf("%s, Lease renewed %s, content of %s, %s %s, bootID %s, %s", choose(r.Fresh, "fresh", "not fresh"),
			stamp(r.LeaseRenewed), stamp(r.ObservedAt), table.Dash(runtime), version,
			choose(r.BootIDKnown, "known", "not known"), Count(r.Sandboxes, "sandbox record"))
	case n.Agent != "":
		report = "none, although its agent should write one"
	}
	facts := [][2]string{{"Node", node}, {"report", report}}
	if n.Awaited {
		facts = append(facts, [2]string{"restore",
			"it is waited for since etcd was restored, and nothing is released until it has reported"})
	}
	return facts
}

// overview writes of a node or of pools how many items there are of each reason, what stands against their release,
// and which are stuck.
func (s *Screen) overview(e *explanation.Explanation) {
	for _, verdict := range []judge.Verdict{judge.InUse, judge.Held, judge.Stale} {
		n, total := map[string]int{}, 0
		for _, it := range e.Document.Items {
			if it.Verdict == verdict && it.SharesVerdictOf == "" {
				n[it.Reason.String()]++
				total++
			}
		}
		var texts []string
		for _, reason := range judge.ReasonNames() {
			if n[reason] > 0 {
				texts = append(texts, fmt.Sprintf("%d %s", n[reason], reason))
			}
		}
		if total > 0 {
			s.fact(verdict.String(), fmt.Sprintf("%d: %s", total, strings.Join(texts, ", ")))
		}
	}
	if len(e.Document.Items) == 0 {
		s.fact("recorded", "nothing")
	}
	if len(e.Gates) > 0 {
		s.gap()
	}
	s.gates(e.Gates)
	s.stuck(e, section{title: "STALE", level: table.Warn, release: true}, judge.Stale)
	s.stuck(e, section{title: "HELD", level: table.Plain}, judge.Held)
}

// stuck writes a row for each item of a verdict. Nothing in it is cut: a name is what somebody searches for.
func (s *Screen) stuck(e *explanation.Explanation, sec section, verdict judge.Verdict) {
	items := e.Pick(verdict)
	if len(items) == 0 {
		return
	}
	s.Title(sec.level, sec.title, len(items))
	shown := items
	if len(items) > manyRows && !s.Wide {
		shown = items[:manyRows]
	}
	var rows []document.AllocationRow
	var cells [][]string
	for _, it := range shown {
		d := document.OfItem(e.Report, it)
		rows, cells = append(rows, d), append(cells, rowCells(d, e.Observation.Now))
	}
	columns := rowColumns(sec)
	for i := range columns {
		columns[i].Cut = 0
	}
	s.Table(columns, cells)
	if more := len(items) - len(shown); more > 0 {
		s.Line("and %s; -o wide has them all.", Count(more, "more row"))
	}
	s.legend(sec, rows)
}

// past writes what is known of restores of etcd and of releases.
func (s *Screen) past(e *explanation.Explanation) {
	waiting := slices.ContainsFunc(e.Gates, func(g report.Gate) bool {
		return g.Refusal == reconciler.EtcdRestored && g.Count > 0
	})
	switch r := e.Restore; {
	case r != nil && r.Complete():
		s.gap()
		s.Text("Restore: ", fmt.Sprintf("etcd was restored at %s (%s), and no node is waited for any more.", r.Date(), r.Why))
	case r != nil && !waiting:
		s.gap()
		s.Text("Restore: ", r.Text())
	}
	if recent := e.Document.RecentReleases; recent.Releases > 0 {
		whose := choose(recent.Shared, "by all processes that share the Lease of the breaker", "by this process, and no more is known")
		s.gap()
		s.Text("Breaker: ", fmt.Sprintf("%s within the last hour, of %s there were before (%s).",
			Count(recent.Releases, "unconfirmed release"), Count(recent.Of, "allocation"), whose))
	}
}

// advice writes what can be done: each command on a line of its own, which is never broken,
// so that it can be copied.
func (s *Screen) advice(steps []document.Advice) {
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

// stamp is a time, "-" where it is not known.
func stamp(t *time.Time) string {
	if t == nil || t.IsZero() {
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

func choose(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

func listed(all []string, none string) string {
	if len(all) == 0 {
		return none
	}
	return strings.Join(all, ", ")
}
