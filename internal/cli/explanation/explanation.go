// Package explanation explains an address, a pod, a node or a pool by a judgement and a plan. It does no I/O. Package
// document has the types, and package screen makes text of them.
package explanation

import (
	"fmt"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/advice"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// Question has the inputs of an explanation.
type Question struct {
	Subject   Subject
	Judgement *judge.Judgement
	Plan      *reconciler.Plan
	Recent    reconciler.BreakerState
	Advisor   advice.Advisor
	// Picks is what is explained of the subject; nil for all of it.
	Picks report.Picks
	// Snapshot is true for a snapshot, which may lack namespaces.
	Snapshot bool
}

type answer struct {
	*report.Report // about the subject
	q              Question
	d              *document.Explanation
	conflicts      map[string]bool // addresses with a conflict
	exported       map[string]bool // namespaces of which a snapshot has pods; nil for a cluster
}

// Answer explains a subject. The document has no Header.
func Answer(q Question) (*report.Report, *document.Explanation) {
	pools := usage.Of(q.Judgement)
	q.Advisor.Nodes = q.Judgement.Observation.Nodes
	d := &document.Explanation{
		Subject: document.Subject{Kind: string(q.Subject.Kind), Name: q.Subject.String()},
		Missing: []string{}, Pods: podsOf(q.Judgement, q.Subject, pools),
		RecentReleases: q.Recent,
	}
	about := q.Picks
	if about == nil {
		about = pick(q.Judgement, q.Subject, d.Pods)
	}
	a := &answer{q: q, d: d, Report: report.Of(q.Judgement, q.Plan.Refused, q.Plan.CommonGates, about),
		conflicts: map[string]bool{}}
	for _, f := range q.Judgement.Findings {
		a.conflicts[f.IP] = a.conflicts[f.IP] || f.Kind == judge.Conflict
	}
	if q.Snapshot {
		a.exported = map[string]bool{}
		for name := range a.Observation.Pods {
			a.exported[name.Namespace] = true
		}
	}
	d.Check = *document.OfCheck(document.Header{}, a.Report)
	asked := report.Only(pools.All, func(p *usage.Pool) bool { return about.Pool(p.Ref()) })
	d.PoolUsage = document.Rows(asked, document.OfPool)
	d.Items = document.Rows(a.Items(), a.item)
	d.Nodes = document.Rows(a.nodeNames(), a.node)
	if r := a.Restore; r != nil {
		d.Restore = &judge.RestoreRow{Restored: r.Date(), Why: r.Why, Awaiting: document.List(r.Awaiting)}
	}
	d.Found = a.found()
	d.Advice = document.List(append(a.missing(), a.advise()...))
	return a.Report, d
}

func (a *answer) found() bool {
	switch d := a.d; d.Subject.Kind {
	case string(Pool):
		return len(d.PoolUsage) > 0
	case string(Node):
		if n := d.Nodes[0]; n.InAPI || n.Report != nil || n.Agent != "" {
			return true
		}
	}
	return len(a.d.Items)+len(a.Findings)+len(a.d.Pods) > 0
}

// missing adds sentences about what does not exist, and returns steps about what may be meant instead.
func (a *answer) missing() (steps []document.Advice) {
	s, d := a.q.Subject, a.d
	add := func(format string, args ...any) { d.Missing = append(d.Missing, fmt.Sprintf(format, args...)) }
	switch {
	case s.Kind == Address && len(d.Items) == 0:
		add("%s is recorded in no pool and has no reservation.", s.Address)
		if len(d.PoolUsage) > 0 {
			return a.steps("more", "free addresses", advice.Facts{Names: map[string]string{"ip": s.Address.String()}})
		}
	case d.Found:
	case s.Kind == Pod:
		add("Pod %s does not exist, no report has a sandbox of it, and nothing is recorded for it.", s.ref())
		if slices.ContainsFunc(a.Observation.Pools, func(p *ippool.Pool) bool { return p.Ref() == s.ref() }) {
			add("A pool has that name.")
			return a.steps("more", "pool", advice.Facts{Names: map[string]string{"pool": s.ref()}})
		}
	case s.Kind == Node:
		add("Node %s is unknown: it has no Node object and no report, and no recorded sandbox may run there.", s.Name)
	case s.Kind == Pool:
		add("%s does not exist. whereabouts creates a pool at the first ADD of its network.", s)
		for _, f := range a.q.Judgement.Findings {
			if f.Repair != nil && f.Repair.NewPool && s.isPool(f.Repair.Pool) {
				add("%s.", f.Message)
			}
		}
	}
	return nil
}
