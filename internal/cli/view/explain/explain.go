// Package explain explains an address, a pod, a node or a pool by a judgement and a plan. It does no I/O. Package view
// has the types, and package screen makes text of them.
package explain

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/advice"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// Question has the inputs of an explanation.
type Question struct {
	Subject Subject
	Result  *reconciler.Result
	Recent  plan.BreakerState
	Advisor advice.Advisor
	// Filter picks what is explained of the subject; nil picks all of it.
	Filter *view.Filter
	// Snapshot is true for a snapshot, which may lack namespaces.
	Snapshot bool
}

type answer struct {
	*view.Picked // about the subject
	q            Question
	whole        *findings.Assessment    // before the filter
	pools        *usage.Pools            // of the judgement
	sandboxes    []view.ExplainedSandbox // of all reports
	d            *view.ExplainReport
	conflicts    map[string]bool          // addresses with a conflict
	endsConflict map[string][]view.Advice // the steps, by address; of a subject that is an address or pod
	exported     map[string]bool          // namespaces of which a snapshot has pods; nil for a cluster
}

// NewReport returns the document that explains a subject.
func NewReport(q Question) *view.ExplainReport {
	j := q.Result.Assessment
	pools, boxes := usage.Of(j), sandboxes(j.Observation)
	q.Advisor = advisorOf(q.Advisor, j)
	d := &view.ExplainReport{
		Subject: view.Subject{Kind: string(q.Subject.Kind), Name: q.Subject.String()},
		Missing: []string{}, Carriers: []view.Carrier{}, Pods: podsOf(q.Result, q.Subject, pools, boxes),
		RecentReleases: view.NewRecentReleases(q.Recent),
	}
	if q.Filter == nil {
		q.Filter = pick(j, q.Subject, d.Pods, boxes)
	}
	a := &answer{q: q, whole: j, pools: pools, sandboxes: boxes, d: d, Picked: view.Pick(q.Result, *q.Filter),
		conflicts: map[string]bool{}}
	for _, f := range j.Findings {
		a.conflicts[f.IP] = a.conflicts[f.IP] || f.Kind == findings.Conflict
	}
	if q.Snapshot {
		a.exported = map[string]bool{}
		for name := range a.Observation.Pods {
			a.exported[name.Namespace] = true
		}
	}
	d.Conflicts = []view.Conflict{}
	if q.Subject.Kind == Address || q.Subject.Kind == Pod {
		all := a.conflictsOf()
		d.Conflicts = lists.Map(all, func(c *conflict) view.Conflict { return c.Conflict })
		a.endsConflict = a.endings(all)
	}
	d.CheckReport = *a.CheckReport()
	d.Kind, d.Filter = view.KindExplanation, nil // the subject says what is picked
	asked := lists.Filter(pools.All, func(p *usage.Pool) bool { return q.Filter.Pool(p.Ref()) })
	d.PoolUsage = lists.Map(asked, view.NewPoolUsage)
	d.Items = lists.Map(a.Items(), a.item)
	d.Nodes = lists.Map(a.nodeNames(), a.node)
	if r := a.Restore; r != nil {
		d.Restore = view.NewRestoreRow(r)
	}
	if s := q.Subject; s.Kind == Address {
		isAsked := func(addr netip.Addr) bool { return addr == s.Address }
		for _, c := range usage.CarriersOf(a.Observation, isAsked, a.whole.Facts().HasStopped)[s.Address] {
			if len(d.Carriers) < maxCarriers {
				d.Carriers = append(d.Carriers, view.Carrier{Kind: c.Kind, Name: c.Name, Node: c.Node, Network: c.Network,
					Interface: c.Interface, Doubt: a.doubt(c, s.Address)})
			}
		}
	}
	d.Found = a.found()
	d.Advice = lists.Clone(append(a.missing(), a.advise()...))
	return d
}

// doubt says why a carrier may not have an address that its network-status names. A pod that started when its
// definition had another IPAM has it all the same.
func (a *answer) doubt(c usage.Carrier, addr netip.Addr) string {
	pod := a.Observation.Pods[nameOf(c.Name)]
	if c.Kind != usage.PodCarrier || c.Definition == nil || pod == nil || !a.whole.Facts().Denies(pod, addr) {
		return ""
	}
	return "its node's SandboxReport, which lists what whereabouts has assigned, does not show this address"
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
	return len(a.d.Items)+len(a.Findings)+len(a.d.Pods)+len(a.d.Carriers) > 0
}

// missing adds sentences about what does not exist, and returns steps about what may be meant instead.
func (a *answer) missing() (steps []view.Advice) {
	s, d := a.q.Subject, a.d
	add := func(format string, args ...any) { d.Missing = append(d.Missing, fmt.Sprintf(format, args...)) }
	switch {
	case s.Kind == Address && len(d.Items) == 0:
		for _, row := range addresses(a.whole, a.pools, []netip.Addr{s.Address}) {
			if row.Pool == "" {
				add("%s is in the range of no pool (%s), and has no reservation.", s.Address, row.State)
				continue
			}
			if a.isUnsupported(row.Pool) {
				add("Whether pool %s has an allocation for %s is unknown.", row.Pool, s.Address)
				continue
			}
			add("%s is recorded in no pool and has no reservation. In pool %s it is %s.", s.Address, row.Pool, row.State)
		}
		if len(d.Carriers) > 0 {
			return nil
		}
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
		for _, f := range a.whole.Findings {
			if f.Repair != nil && f.Repair.NewPool && s.isPool(f.Repair.Pool) {
				add("%s.", f.Message)
			}
		}
	}
	return nil
}

func (a *answer) isUnsupported(pool string) bool {
	return slices.ContainsFunc(a.Observation.Pools, func(p *ippool.Pool) bool {
		return p.Unsupported != "" && p.Ref() == pool
	})
}
