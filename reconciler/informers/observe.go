package informers

import (
	"fmt"
	"maps"
	"reflect"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// The caller of each function in this file holds mu.

// observe puts together what is to be judged. What is not watched is taken
// from the last full pass, where there was one.
func (s *Source) observe() *judge.Observation {
	o := &judge.Observation{
		Watched: true, Now: s.Now(),
		NADs: map[types.NamespacedName]*ippool.NAD{}, Pods: map[types.NamespacedName]*podstate.Pod{},
		Warnings: s.last.Warnings, ReportsUnreadable: s.last.ReportsUnreadable,
		Paused: s.last.Paused, Acknowledged: s.last.Acknowledged,
	}
	for _, k := range s.stores {
		if k.refusal != nil {
			continue
		}
		for name, i := range k.objects {
			switch p := i.parsed.(type) {
			case *ippool.Pool:
				o.Pools = append(o.Pools, p)
			case *ippool.Reservation:
				o.Reservations = append(o.Reservations, p)
			case *ippool.NAD:
				o.NADs[name] = p
			case *podstate.Pod:
				o.Pods[name] = p
			case *podstate.Node:
				if o.Nodes == nil {
					o.Nodes = map[string]*podstate.Node{}
				}
				o.Nodes[name.Name] = p
			case *report:
				s.addReport(o, name.Name, p)
			case namespaceSettings:
				o.Paused, o.Acknowledged = p.paused, p.acknowledged
			}
		}
	}
	s.setMissed(o)
	return o
}

// affectsVerdict reports whether a change may change a verdict. One of the two may be nil.
func (s *Source) affectsVerdict(before, after *item) bool {
	if before == nil || after == nil {
		return true
	}
	switch a := before.parsed.(type) {
	case *podstate.Pod:
		b := *after.parsed.(*podstate.Pod)
		b.ResourceVersion, b.RequestedNetworks, b.Workload = a.ResourceVersion, a.RequestedNetworks, a.Workload
		return !reflect.DeepEqual(*a, b)
	case *podstate.Node:
		b := *after.parsed.(*podstate.Node)
		b.ResourceVersion = a.ResourceVersion
		return !reflect.DeepEqual(*a, b)
	case *coordinationv1.Lease: // agents renew theirs all the time
		b, was := after.parsed.(*coordinationv1.Lease), podstate.Report{ConfirmedAt: podstate.LeaseRenewTime(a)}
		hasReport := s.store(reportResource).objects[types.NamespacedName{Name: after.Name}] != nil
		return hasReport && (!maps.Equal(a.Annotations, b.Annotations) || !was.IsFresh(s.Now()))
	}
	return true
}

// leaseDelay is for how long an agent may have written a report and not yet the
// Lease with its hash.
const leaseDelay = 5 * time.Second

// addReport puts a node's report with its Lease into an observation.
func (s *Source) addReport(o *judge.Observation, name string, r *report) {
	if r.err != nil {
		o.ReportsUnreadable = true
		o.Unreadable = append(o.Unreadable, fmt.Sprintf("SandboxReport %s: %v", name, r.err))
		return
	}
	lease := s.leaseOf(name)
	if r.previous != nil && o.Now.Sub(r.previousSince) < leaseDelay && verifies(lease, r.previous) {
		r = r.previous
	}
	o.Reports = append(o.Reports, podstate.ReadReportWithHash(r.SandboxReport, r.hash, lease))
}

// reportChanged notes which report is gone. Beside one that has just come it keeps the one before while the agent's
// Lease still has the hash of that: else each report would leave its node without a fresh one until the Lease is
// written, and confirmation would start over.
func (s *Source) reportChanged(before, after *item, node string) {
	if after == nil {
		s.missed[node] = s.Now()
		return
	}
	delete(s.missed, node)
	if before == nil {
		return
	}
	r, old, lease := after.parsed.(*report), before.parsed.(*report), s.leaseOf(node)
	if old.previous != nil && verifies(lease, old.previous) {
		old = old.previous
	}
	if old.hash != r.hash && verifies(lease, old) {
		kept := *old
		kept.previous = nil
		r.previous, r.previousSince = &kept, s.Now()
	}
}

func (s *Source) leaseOf(node string) *coordinationv1.Lease {
	if i := s.store(leaseResource).objects[types.NamespacedName{Namespace: s.LeaseNamespace, Name: node}]; i != nil {
		return i.parsed.(*coordinationv1.Lease)
	}
	return nil
}

// verifies reports whether an agent's Lease has the hash of a report, which counts as fresh
// only then.
func verifies(l *coordinationv1.Lease, r *report) bool {
	return l != nil && r.hash != "" && l.Annotations[v1alpha1.HashAnnotation] == r.hash
}

// missedFor is for how long it counts that a report was there: longer than agents take to
// report a restore.
const missedFor = 10 * time.Minute

// setMissed puts into an observation which reports it lacks. A replica that does not lead has watched before a restore
// of etcd and has made no pass: so it knows what the restore has lost, even where the leader ended because it could
// not renew its Lease meanwhile.
func (s *Source) setMissed(o *judge.Observation) {
	if o.ReportsUnreadable {
		return
	}
	maps.DeleteFunc(s.missed, func(_ string, since time.Time) bool { return o.Now.Sub(since) > missedFor })
	o.MissingReports = maps.Clone(s.missed)
	for _, r := range o.Reports {
		delete(o.MissingReports, r.Name)
	}
}
