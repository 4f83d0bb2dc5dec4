package explanation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/advice"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// facts are the names of an item. Of a node that is asked about, only that node's own are
// told: others may keep the item, too, and have explanations of their own.
func (e *Explanation) facts(it Item) advice.Facts {
	nodes := it.nodes()
	if e.Subject.Kind == Node && slices.Contains(nodes, e.Subject.Name) {
		nodes = []string{e.Subject.Name}
	}
	f := e.withNodes(advice.Facts{Address: it.Text()}, nodes)
	if owner := it.Owner(); owner.Name != "" {
		f.Pod = owner.Namespace + "/" + owner.Name
	}
	if pools := it.PoolNames(); len(pools) > 0 {
		f.Pool = pools[0].String()
	}
	if it.Reservation != nil {
		f.Reservation = it.Object()
	}
	if ev := it.Evidence(); ev != nil {
		f.Container, f.OtherNode = ev.ContainerID, ev.ClaimantNode
		f.OtherPod, f.OtherContainer = claimant(ev)
	}
	return f
}

// withNodes are facts with these nodes.
func (e *Explanation) withNodes(f advice.Facts, nodes []string) advice.Facts {
	f.Nodes, f.DownNodes = nodes, slices.DeleteFunc(slices.Clone(nodes), func(name string) bool {
		n := e.Observation.Nodes[name]
		return n == nil || n.Ready || n.OutOfService
	})
	return f
}

// adviseItem is what can be done about an item: first about what stands against its
// release, then about its verdict. A reservation that shares a verdict has its allocation's.
func (e *Explanation) adviseItem(a advice.Advisor, it Item) []advice.Step {
	if it.SharesVerdictOf() != nil {
		return nil
	}
	f := e.facts(it)
	if e.conflicts[it.Text()] {
		return a.OfFinding(judge.Conflict, false, f)
	}
	if namespace := it.Owner().Namespace; e.exported != nil && namespace != "" && !e.exported[namespace] {
		return a.Export(f)
	}
	steps := a.OfReason(it.Verdict, it.Reason, f)
	if it.Verdict != judge.Stale {
		return advice.Unique(steps)
	}
	released := false
	for _, g := range it.Gates {
		if g.Why == reconciler.AwaitingConfirmation && len(it.Gates) > 1 {
			continue // it alone releases nothing
		}
		steps = append(steps, a.OfGate(g, e.gateFacts(g, f))...)
		released = released || advice.ReleasesItself(g.Why)
	}
	if !released {
		steps = append(steps, a.Release(f, len(it.Gates) > 0)...)
	}
	if len(it.Gates) == 0 || it.Gates[0].Why == reconciler.AwaitingConfirmation {
		steps = append(steps, a.Pause(f)...)
	}
	return advice.Unique(steps)
}

// gateFacts are an item's facts with those of what stands against it.
func (e *Explanation) gateFacts(g reconciler.Gate, f advice.Facts) advice.Facts {
	if g.Why == reconciler.EtcdRestored {
		if e.Restore.Complete() {
			return e.withNodes(f, nil)
		}
		f = e.withNodes(f, e.Restore.Awaiting)
		f.Restored = e.Restore.Date()
	}
	return f
}

// adviseFinding is what can be done about a finding.
func (e *Explanation) adviseFinding(q Question, f judge.Finding) []advice.Step {
	if f.Kind == judge.Conflict {
		return q.Advisor.OfConflict(conflictOf(q.Judgement, f))
	}
	known := advice.Facts{}
	known.Address, _, _ = strings.Cut(f.IP, ",")
	known.Pool, _, _ = strings.Cut(f.Pool, ",")
	if len(f.Pods) > 0 {
		known.Pod, _, _ = strings.Cut(f.Pods[0], "_")
	}
	if len(f.ContainerIDs) > 0 {
		known.Container = f.ContainerIDs[0]
	}
	if f.Node != "" {
		known = e.withNodes(known, []string{f.Node})
	}
	for _, ip := range strings.Split(f.IP, ",") {
		if e.conflicts[ip] { // what is done about it must be done in an order
			known.Address = ip
			return q.Advisor.OfFinding(judge.Conflict, false, known)
		}
	}
	return advice.Unique(q.Advisor.OfFinding(f.Kind, f.CanRepair(), known))
}

// advise puts together all that can be done: what is or may become an outage first. Of many
// items with one reason the steps of the first few are shown.
func (e *Explanation) advise(q Question) {
	kinds := judge.Kinds()
	order := make([]int, len(e.Findings))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return slices.Index(kinds, e.Findings[a].Kind) - slices.Index(kinds, e.Findings[b].Kind)
	})
	all := []advice.Step(nil)
	seen, most := map[string]int{}, e.most()
	take := func(what string, steps []advice.Step, most int) {
		if seen[what]++; seen[what] <= most {
			all = append(all, steps...)
		}
	}
	told := map[string]bool{} // conflicts: what else is to be said of such an address is to ask about it
	for _, i := range order {
		f := e.Findings[i]
		switch conflict := f.IP + " " + f.Pool; {
		case f.Kind == judge.Conflict && told[conflict]: // of its pods, and of its sandboxes
		case f.Kind != judge.Conflict && told[f.IP] && e.conflicts[f.IP]:
		default:
			take(string(f.Kind), e.FindingAdvice[i], 5*most)
			told[conflict], told[f.IP] = true, true
		}
	}
	for _, verdict := range []judge.Verdict{judge.Held, judge.Stale, judge.InUse} {
		for _, it := range e.Items {
			why := it.Verdict.String() + it.Reason.String()
			for _, g := range it.Gates {
				why += string(g.Why) + g.Pool
			}
			if it.Verdict == verdict && len(it.Advice) > 0 && (verdict != judge.InUse || most > 1) && !(e.conflicts[it.Text()] && told[it.Text()]) {
				take(why, it.Advice, most)
			}
		}
	}
	if e.Subject.Kind == Node || e.Subject.Kind == Pool {
		e.Advice = append(advice.Unique(all), e.listing(q)...)
		return
	}
	e.Advice = append(e.Advice, advice.Unique(all)...)
}

// listing is how the items of a node or pool are listed one by one.
func (e *Explanation) listing(q Question) (steps []advice.Step) {
	if len(e.Items) == 0 {
		return nil
	}
	if e.Subject.Kind == Node {
		return q.Advisor.List("--on-node", e.Subject.Name)
	}
	for _, p := range e.Pools {
		steps = append(steps, q.Advisor.List("--pool", p.Ref())...)
	}
	return steps
}

// most is for how many items of one reason there is advice: for all that is about one
// address or pod, and for one of what a node or a pool may have thousands of.
func (e *Explanation) most() int {
	if e.Subject.Kind == Node || e.Subject.Kind == Pool {
		return 1
	}
	return 50
}

// missing says what there is not.
func (e *Explanation) missing(q Question) {
	s := e.Subject
	e.Found = len(e.Items)+len(e.Findings) > 0
	switch {
	case s.Kind == Address && len(e.Items) == 0:
		e.Missing = append(e.Missing, s.Address.String()+" is recorded in no pool and has no reservation.")
		e.Missing = append(e.Missing, usage.Unrecorded(q.Judgement, s.Address)...)
	case s.Kind == Pod:
		e.Found = e.Found || len(e.Pods) > 0
		e.missingPod(q)
	case s.Kind == Node:
		e.Found = e.Found || e.Nodes[0].known() || podsOn(q.Judgement, s.Name)
		if !e.Found {
			e.Missing = append(e.Missing, fmt.Sprintf("Nothing is known of a node %s: it has no Node object, no report and no pod, and nothing that is recorded may run there.", s.Name))
		}
	case s.Kind == Pool:
		if e.Found = len(e.Pools) > 0; !e.Found {
			e.Missing = append(e.Missing, fmt.Sprintf("There is no such pool (%s). whereabouts makes one at the first ADD of a network.", s))
			for _, f := range q.Judgement.Findings {
				if f.Repair != nil && f.Repair.NewPool && s.isPool(f.Repair.Pool) {
					e.Missing = append(e.Missing, f.Message+".")
				}
			}
		}
	}
}

func (e *Explanation) missingPod(q Question) {
	if e.Found {
		return
	}
	s := e.Subject
	ref := s.Namespace + "/" + s.Name
	e.Missing = append(e.Missing, fmt.Sprintf("There is no pod %s, no report has a sandbox of it, and nothing is recorded for it.", ref))
	for _, p := range q.Judgement.Observation.Pools {
		if p.Ref() == ref {
			e.Missing = append(e.Missing, "There is a pool by that name.")
			e.Advice = append(e.Advice, q.Advisor.ExplainPool(ref)...)
		}
	}
}
