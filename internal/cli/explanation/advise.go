package explanation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/advice"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// facts are the names of an item.
func facts(it Item) advice.Facts {
	f := advice.Facts{Address: it.Text(), Nodes: it.nodes()}
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

// adviseItem is what can be done about an item: first about what stands against its
// release, then about its verdict. A reservation that shares a verdict has its allocation's.
func (e *Explanation) adviseItem(a advice.Advisor, it Item) []advice.Step {
	if it.SharesVerdictOf() != nil {
		return nil
	}
	f := facts(it)
	steps := a.OfReason(it.Verdict, it.Reason, f)
	if it.Verdict != judge.Stale {
		return advice.Unique(steps)
	}
	released := false
	for _, g := range it.Gates {
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
		f.Nodes = nil
		if !e.Restore.Complete() {
			f.Nodes, f.Restored = e.Restore.Awaiting, e.Restore.Date()
		}
	}
	return f
}

// adviseFinding is what can be done about a finding.
func (e *Explanation) adviseFinding(q Question, f judge.Finding) []advice.Step {
	if f.Kind == judge.Conflict {
		return advice.Unique(q.Advisor.OfConflict(conflictOf(q.Judgement, f)))
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
		known.Nodes = []string{f.Node}
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
	limit := newLimit(e.Subject)
	for _, i := range order {
		if limit.take(string(e.Findings[i].Kind)) {
			e.Advice = append(e.Advice, e.FindingAdvice[i]...)
		}
	}
	for _, verdict := range []judge.Verdict{judge.Held, judge.Stale, judge.InUse} {
		for _, it := range e.Items {
			why := it.Verdict.String() + it.Reason.String()
			for _, g := range it.Gates {
				why += string(g.Why) + g.Pool
			}
			if it.Verdict == verdict && len(it.Advice) > 0 && (verdict != judge.InUse || e.Subject.Kind == Address || e.Subject.Kind == Pod) && limit.take(why) {
				e.Advice = append(e.Advice, it.Advice...)
			}
		}
	}
	if e.Subject.Kind == Node || e.Subject.Kind == Pool {
		e.Advice = append(e.Advice, e.listing(q)...)
	}
	e.Advice = advice.Unique(e.Advice)
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

// limit counts for how many of a kind there is advice.
type limit struct {
	most  int
	taken map[string]int
}

// newLimit shows all that is about one address or pod, and two examples of what a node or
// a pool may have thousands of.
func newLimit(s Subject) limit {
	most := 50
	if s.Kind == Node || s.Kind == Pool {
		most = 2
	}
	return limit{most, map[string]int{}}
}

func (l limit) take(what string) bool {
	l.taken[what]++
	return l.taken[what] <= l.most
}

// missing says what there is not.
func (e *Explanation) missing(q Question) {
	s := e.Subject
	e.Found = len(e.Items)+len(e.Findings) > 0
	switch {
	case s.Kind == Address && len(e.Items) == 0:
		e.Missing = append(e.Missing, s.Address.String()+" is recorded in no pool and has no reservation.")
		for _, p := range e.Pools {
			e.Missing = append(e.Missing, fmt.Sprintf("It is an address of pool %s (%s).", p.Ref(), p.RangeText))
		}
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
