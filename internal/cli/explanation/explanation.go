// Package explanation gathers what is known of an address, a pod, a node or a pool, and
// what can be done about it. It picks that out of a judgement and a plan, and does no I/O.
// Package document makes JSON of it, package screen text for a person.
//
// subject.go reads what is asked about, pick.go finds what is about it, item.go has one
// allocation or reservation with what stands against its release, advise.go and conflict.go
// what can be done, and pod.go, node.go and pool.go the rest.
package explanation

import (
	"slices"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/advice"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// Explanation is all that is known of a subject.
type Explanation struct {
	// Report has the items and findings that are about it, and the gates that stand
	// against those items.
	*report.Report
	Subject Subject
	// Found: something is known of it.
	Found bool
	// Missing are sentences on what there is not, and what may be meant instead.
	Missing []string
	Items   []Item
	// FindingAdvice is what can be done about each finding.
	FindingAdvice [][]advice.Step
	Pods          []PodState  // of a pod
	Nodes         []NodeState // that the items and findings are about
	Pools         []*usage.Pool
	// Advice is all that can be done, what is most urgent first, each once.
	Advice []advice.Step
	// Recent is what the breaker counts.
	Recent reconciler.Recent

	conflicts map[string]bool // addresses that several carry
	exported  map[string]bool // namespaces of which a snapshot has pods; nil for a cluster
}

// Question is what an explanation is made of.
type Question struct {
	Subject   Subject
	Judgement *judge.Judgement
	Plan      *reconciler.Plan
	Recent    reconciler.Recent
	Advisor   advice.Advisor
	// Snapshot: exported objects were judged, and namespaces may not have been exported.
	Snapshot bool
}

// Answer explains a subject.
func Answer(q Question) *Explanation {
	found := pick(q.Judgement, q.Subject)
	e := &Explanation{Report: report.OfCheck(found, planFor(q.Plan, found), report.Filter{}), Subject: q.Subject, Recent: q.Recent}
	all := usage.Of(q.Judgement)
	all.AddWaiting()
	e.Pods = podsOf(q.Judgement, q.Subject)
	e.Pools = poolsOf(all, q.Subject, found)
	for i := range e.Pods {
		e.Pods[i].Waits = e.Pods[i].waits(q.Judgement, all)
	}
	e.conflicts = map[string]bool{}
	for _, f := range q.Judgement.Findings {
		if f.Kind == judge.Conflict {
			e.conflicts[f.IP] = true
		}
	}
	if q.Snapshot {
		e.exported = map[string]bool{}
		for name := range q.Judgement.Observation.Pods {
			e.exported[name.Namespace] = true
		}
	}
	for _, it := range slices.Concat(found.Allocations, found.Reservations) {
		e.Items = append(e.Items, e.item(q.Advisor, it))
	}
	for _, f := range found.Findings {
		e.FindingAdvice = append(e.FindingAdvice, e.adviseFinding(q, f))
	}
	e.Nodes = e.nodesOf(q.Judgement)
	e.missing(q)
	e.advise(q)
	return e
}

// planFor is the part of a plan that is about these items: the gates that stand against
// them, and all that stand against everything or their pools.
func planFor(plan *reconciler.Plan, j *judge.Judgement) *reconciler.Plan {
	ours, pools := map[judge.ID]bool{}, map[string]bool{}
	for _, it := range slices.Concat(j.Allocations, j.Reservations) {
		if shared := it.SharesVerdictOf(); shared != nil {
			it = shared
		}
		ours[it.ID()] = true
		for _, p := range it.PoolNames() {
			pools[p.String()] = true
		}
	}
	picked := *plan
	picked.Refused = slices.DeleteFunc(slices.Clone(plan.Refused), func(x reconciler.Refused) bool { return !ours[x.ID()] })
	picked.Standing = slices.DeleteFunc(slices.Clone(plan.Standing), func(g reconciler.Gate) bool { return g.Pool != "" && !pools[g.Pool] })
	return &picked
}
