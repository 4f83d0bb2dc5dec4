// Package explanation gathers what is known of an address, a pod, a node or a pool, and
// what can be done about it. It picks that out of a judgement and a plan, and does no I/O.
// Package document has the types that are printed as JSON, package screen makes text of them.
//
// subject.go reads what is asked about, pick.go finds what is about it, item.go, pod.go and node.go
// make the document, and advise.go and conflict.go say what can be done.
package explanation

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/advice"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
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
	// Document is what is printed as JSON, but for its Header.
	Document *document.Explanation
	// Pools are those that are asked about, or that have the items.
	Pools []*usage.Pool

	question  Question
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
	all := usage.Of(q.Judgement)
	all.AddWaiting()
	pods := podsOf(q.Judgement, q.Subject, all)
	found := pick(q.Judgement, q.Subject, pods)
	e := &Explanation{Subject: q.Subject, question: q, conflicts: map[string]bool{},
		Report: report.OfCheck(found, planFor(q.Plan, found), report.Filter{})}
	for _, f := range q.Judgement.Findings {
		e.conflicts[f.IP] = e.conflicts[f.IP] || f.Kind == judge.Conflict
	}
	if q.Snapshot {
		e.exported = map[string]bool{}
		for name := range q.Judgement.Observation.Pods {
			e.exported[name.Namespace] = true
		}
	}
	d := &document.Explanation{Check: *document.OfCheck(document.Header{}, e.Report), Pods: pods,
		Subject: document.Subject{Kind: string(q.Subject.Kind), Name: q.Subject.String()},
		Missing: []string{}, Items: []document.ExplainedItem{}, PoolUsage: []document.PoolUsage{},
		FindingAdvice: [][]document.Advice{}, RecentReleases: document.RecentReleases(q.Recent)}
	e.Document = d
	e.addPools(all)
	for _, row := range d.Allocations {
		e.addItem(e.Allocations[len(d.Items)], row.Judged)
	}
	for _, row := range d.Reservations {
		e.addItem(e.Reservations[len(d.Items)-len(e.Allocations)], row.Judged)
	}
	for _, f := range e.Findings {
		d.FindingAdvice = append(d.FindingAdvice, list(e.adviseFinding(f)))
	}
	if r := e.Restore; r != nil {
		d.Restore = &document.ExplainedRestore{Restored: r.Date(), Why: r.Why, Awaiting: list(r.Awaiting)}
	}
	d.Nodes = e.nodes()
	d.Found = e.found()
	d.Advice = list(append(e.missing(), e.advise()...))
	return e
}

// list is a list that is never null.
func list[T any](all []T) []T { return append([]T{}, all...) }

// planFor is the part of a plan that is about these items: the gates that stand against
// them, and all that stand against everything or their pools.
func planFor(plan *reconciler.Plan, j *judge.Judgement) *reconciler.Plan {
	ours, pools := map[judge.ID]bool{}, poolNames(j)
	for _, it := range slices.Concat(j.Allocations, j.Reservations) {
		if shared := it.SharesVerdictOf(); shared != nil {
			it = shared
		}
		ours[it.ID()] = true
	}
	picked := *plan
	picked.Refused = keep(plan.Refused, func(x reconciler.Refused) bool { return ours[x.ID()] })
	picked.Standing = keep(plan.Standing, func(g reconciler.Gate) bool { return g.Pool == "" || pools.Has(g.Pool) })
	return &picked
}

// poolNames are the pools of items, as "<namespace>/<name>".
func poolNames(j *judge.Judgement) sets.Set[string] {
	names := sets.New[string]()
	for _, it := range slices.Concat(j.Allocations, j.Reservations) {
		for _, p := range it.PoolNames() {
			names.Insert(p.String())
		}
	}
	return names
}

// addPools adds the pools that are asked about, or that have the items.
func (e *Explanation) addPools(all *usage.Pools) {
	s, having, ours := e.Subject, poolNames(e.Judgement), sets.New[string]()
	for _, p := range all.All {
		asked := s.Kind == Pool && s.isPool(p.Pool) || s.Kind == Address && p.Problem == "" && p.Range.Contains(s.Address)
		if asked || s.Kind != Pool && having.Has(p.Ref()) {
			e.Pools = append(e.Pools, p)
			ours.Insert(p.Ref())
		}
	}
	slices.SortFunc(e.Pools, func(a, b *usage.Pool) int { return cmp.Compare(a.Ref(), b.Ref()) })
	for _, p := range e.Pools {
		e.Document.PoolUsage = append(e.Document.PoolUsage, document.OfPool(p))
	}
	check := &e.Document.Check
	check.Pools = keep(check.Pools, func(p document.PoolRow) bool { return ours.Has(p.Pool) })
}

// found reports whether anything is known of the subject.
func (e *Explanation) found() bool {
	switch e.Subject.Kind {
	case Pool:
		return len(e.Pools) > 0
	case Node:
		n := e.Document.Nodes[0]
		if n.InAPI || n.Report != nil || n.Agent != "" {
			return true
		}
		for _, p := range e.Observation.Pods {
			if p.Node == e.Subject.Name {
				return true
			}
		}
	}
	return len(e.Items())+len(e.Findings)+len(e.Document.Pods) > 0
}

// missing says what there is not, and returns what may be meant instead.
func (e *Explanation) missing() (steps []document.Advice) {
	s, d := e.Subject, e.Document
	add := func(format string, args ...any) { d.Missing = append(d.Missing, fmt.Sprintf(format, args...)) }
	switch {
	case s.Kind == Address && len(d.Items) == 0:
		add("%s is recorded in no pool and has no reservation.", s.Address)
		d.Missing = append(d.Missing, usage.Unrecorded(e.question.Judgement, s.Address)...)
	case d.Found:
	case s.Kind == Pod:
		add("There is no pod %s, no report has a sandbox of it, and nothing is recorded for it.", s.ref())
		for _, p := range e.Observation.Pools {
			if p.Ref() == s.ref() {
				add("There is a pool by that name.")
				steps = append(steps, e.steps("more", "pool", advice.Facts{Names: map[string]string{"pool": s.ref()}})...)
			}
		}
	case s.Kind == Node:
		add("Nothing is known of a node %s: it has no Node object, no report and no pod, "+
			"and nothing that is recorded may run there.", s.Name)
	case s.Kind == Pool:
		add("There is no such pool (%s). whereabouts makes one at the first ADD of a network.", s)
		for _, f := range e.question.Judgement.Findings {
			if f.Repair != nil && f.Repair.NewPool && s.isPool(f.Repair.Pool) {
				add("%s.", f.Message)
			}
		}
	}
	return steps
}
