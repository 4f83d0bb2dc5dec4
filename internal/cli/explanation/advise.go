package explanation

import (
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/advice"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

func (e *Explanation) steps(section, name string, f advice.Facts) []document.Advice {
	return e.question.Advisor.Steps(section, name, f)
}

// facts are names with those of these nodes.
func (e *Explanation) facts(names map[string]string, nodes []string) advice.Facts {
	return advice.Facts{Names: names, Nodes: nodes, DownNodes: keep(nodes, func(name string) bool {
		n := e.Observation.Nodes[name]
		return n != nil && !n.Ready && !n.OutOfService
	})}
}

// itemFacts are the names of an item. Of a node that is asked about, only that node's own are
// there: others may keep the item, too, and have explanations of their own.
func (e *Explanation) itemFacts(it *judge.Item) advice.Facts {
	nodes := nodesOf(it)
	if e.Subject.Kind == Node && slices.Contains(nodes, e.Subject.Name) {
		nodes = []string{e.Subject.Name}
	}
	names := map[string]string{"ip": it.Text()}
	if owner := it.Owner(); owner.Name != "" {
		names["pod"] = owner.Namespace + "/" + owner.Name
	}
	if pools := it.PoolNames(); len(pools) > 0 {
		names["pool"] = pools[0].String()
	}
	if it.Reservation != nil {
		names["reservation"] = it.Object()
	}
	if ev := it.Evidence(); ev != nil {
		names["container"], names["othernode"] = ev.ContainerID, ev.ClaimantNode
		switch kind, name, _ := strings.Cut(ev.Claimant, " "); kind {
		case "pod":
			names["otherpod"] = name
		case "sandbox":
			names["othercontainer"], _, _ = strings.Cut(name, " ")
		}
	}
	return e.facts(names, nodes)
}

// adviseItem is what can be done about an item: first about what stands against its
// release, then about its verdict. A reservation that shares a verdict has its allocation's.
func (e *Explanation) adviseItem(it *judge.Item, gates []reconciler.Gate) []document.Advice {
	f := e.itemFacts(it)
	switch namespace := it.Owner().Namespace; {
	case it.SharesVerdictOf() != nil:
		return nil
	case e.conflicts[it.Text()]:
		return e.steps("findings", string(judge.Conflict), f)
	case e.exported != nil && namespace != "" && !e.exported[namespace]:
		return e.steps("reasons", "NotExported", f)
	case it.Verdict != judge.Stale:
		return advice.Unique(e.steps("reasons", it.Reason.String(), f))
	}
	steps, release := e.steps("stale", it.Reason.String(), f), "Stale release"
	if len(gates) > 0 {
		release = "Stale release of what is gated"
	}
	for _, g := range gates {
		if g.Why == reconciler.AwaitingConfirmation && len(gates) > 1 {
			continue // it alone releases nothing
		}
		steps = append(steps, e.adviseGate(g, f)...)
		if g.Why == reconciler.AwaitingConfirmation || g.Why == reconciler.Breaker {
			release = "" // what is advised about it is how it is released
		}
	}
	steps = append(steps, e.steps("stale", release, f)...)
	if len(gates) == 0 || gates[0].Why == reconciler.AwaitingConfirmation {
		steps = append(steps, e.steps("stale", "Stale pause", f)...)
	}
	return advice.Unique(steps)
}

func (e *Explanation) adviseGate(g reconciler.Gate, f advice.Facts) []document.Advice {
	switch {
	case g.Why == reconciler.Paused && g.Pool != "":
		return e.steps("gates", "Paused pool", e.facts(map[string]string{"pool": g.Pool}, nil))
	case g.Why == reconciler.EtcdRestored && e.Restore.Complete():
		f = e.facts(f.Names, nil)
	case g.Why == reconciler.EtcdRestored:
		f = e.facts(map[string]string{"restored": e.Restore.Date()}, e.Restore.Awaiting)
	}
	return e.steps("gates", string(g.Why), f)
}

// adviseFinding is what can be done about a finding.
func (e *Explanation) adviseFinding(f judge.Finding) []document.Advice {
	if f.Kind == judge.Conflict {
		return conflictOf(e.question.Judgement, f).advise(e.question.Advisor)
	}
	for _, ip := range strings.Split(f.IP, ",") {
		if e.conflicts[ip] { // what is done about it must be done in an order
			return e.steps("findings", string(judge.Conflict), advice.Facts{Names: map[string]string{"ip": ip}})
		}
	}
	names := map[string]string{}
	names["ip"], _, _ = strings.Cut(f.IP, ",")
	names["pool"], _, _ = strings.Cut(f.Pool, ",")
	name := string(f.Kind)
	if len(f.Pods) > 0 {
		names["pod"], _, _ = strings.Cut(f.Pods[0], "_")
	}
	if len(f.ContainerIDs) > 0 {
		names["container"] = f.ContainerIDs[0]
	}
	switch {
	case f.Kind != judge.Unrecorded || f.CanRepair():
	case names["container"] != "":
		name = "Unrecorded sandbox"
	default:
		name = "Unrecorded pod"
	}
	var nodes []string
	if f.Node != "" {
		nodes = []string{f.Node}
	}
	return advice.Unique(e.steps("findings", name, e.facts(names, nodes)))
}

// advise puts together all that can be done: what is or may become an outage first. Of many
// items with one reason the steps of the first few are shown, of a node or pool of one.
func (e *Explanation) advise() []document.Advice {
	most, many := 50, e.Subject.Kind == Node || e.Subject.Kind == Pool
	if many {
		most = 1
	}
	var all []document.Advice
	seen := map[string]int{}
	take := func(what string, steps []document.Advice, most int) {
		if seen[what]++; seen[what] <= most {
			all = append(all, steps...)
		}
	}
	shown := map[string]bool{} // what else there is to say of an address in conflict is to ask about it
	for _, kind := range judge.Kinds() {
		for i, f := range e.Findings {
			conflict := f.IP + " " + f.Pool
			switch {
			case f.Kind != kind:
			case kind == judge.Conflict && shown[conflict]: // of its pods, and of its sandboxes
			case kind != judge.Conflict && shown[f.IP] && e.conflicts[f.IP]:
			default:
				take(string(kind), e.Document.FindingAdvice[i], 5*most)
				shown[conflict], shown[f.IP] = true, true
			}
		}
	}
	for _, verdict := range []judge.Verdict{judge.Held, judge.Stale, judge.InUse} {
		for _, it := range e.Document.Items {
			why := it.Verdict.String() + it.Reason.String()
			for _, g := range it.Gates {
				why += string(g.Refusal) + g.Pool
			}
			isShown := e.conflicts[it.IP] && shown[it.IP] || many && verdict == judge.InUse
			if it.Verdict == verdict && len(it.Advice) > 0 && !isShown {
				take(why, it.Advice, most)
			}
		}
	}
	return append(advice.Unique(all), e.listing()...)
}

// listing is how the items of a node or pool are listed one by one.
func (e *Explanation) listing() (steps []document.Advice) {
	switch {
	case len(e.Document.Items) == 0:
	case e.Subject.Kind == Node:
		return e.steps("more", "items of a node", advice.Facts{Nodes: []string{e.Subject.Name}})
	case e.Subject.Kind == Pool:
		for _, p := range e.Pools {
			steps = append(steps, e.steps("more", "items of a pool", advice.Facts{Names: map[string]string{"pool": p.Ref()}})...)
		}
	}
	return steps
}
