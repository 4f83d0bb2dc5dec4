package informers

import (
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

// The callers of all functions in this file hold mu.

// observe makes an observation of the caches. The last full pass supplies what is not watched.
func (s *Source) observe() *facts.Observation {
	o := ptr.To(*s.lastFull)
	o.Watched, o.Now = true, s.Now()
	o.Pods = map[types.NamespacedName]*podstate.Pod{}
	o.Unreadable = nil
	nads, nodes := map[types.NamespacedName]*ippool.NAD{}, map[string]*podstate.Node{}
	var reservations []*ippool.Reservation
	var reports []*podstate.Report
	hasAgents := false
	for _, k := range s.stores {
		if k.isRefused() { // as the last full pass found it
			continue
		}
		for name, i := range k.objects {
			switch p := i.parsed.(type) {
			case *ippool.Pool:
				o.Pools = append(o.Pools, p)
			case *ippool.Reservation:
				reservations = append(reservations, p)
			case *ippool.NAD:
				nads[name] = p
			case *podstate.Pod:
				o.Pods[name] = p
			case *podstate.Node:
				nodes[name.Name] = p
			case *report:
				reports = append(reports, s.readReport(o, name.Name, p))
			case *coordinationv1.Lease:
				hasAgents = hasAgents || p.Annotations[v1alpha1.HashAnnotation] != ""
			case namespaceSettings:
				o.Paused, o.Acknowledged = p.isPaused, p.acknowledged
			}
		}
	}
	o.Reservations = observed(s, ippool.ReservationResource.Resource, reservations, o.Reservations)
	o.NADs = observed(s, ippool.NADResource.Resource, nads, o.NADs)
	o.Nodes = observed(s, "nodes", nodes, o.Nodes)
	o.Reports = observed(s, reportResource, reports, o.Reports)
	o.AgentLeases = observed(s, leaseResource, hasAgents, o.AgentLeases)
	s.setMissing(o)
	return o
}

// observed returns the objects of a kind that is watched, or what the last full pass found of it.
func observed[T any](s *Source, resource string, content T, full facts.Source[T]) facts.Source[T] {
	k := s.store(resource)
	if k.isRefused() {
		return full
	}
	return facts.Complete(content, strconv.FormatUint(k.newest, 10))
}

// noteMachines keeps what a quorum read found of machines, which is not watched.
func (s *Source) noteMachines(o *facts.Observation) {
	s.lastFull.IPAMClaims, s.lastFull.Guests = o.IPAMClaims, o.Guests
}

// affectsVerdict reports whether a change may change a verdict; before is nil for a new object, after for a gone one.
func (s *Source) affectsVerdict(before, after *item) bool {
	if before == nil || after == nil {
		return true
	}
	switch a := before.parsed.(type) {
	case *podstate.Pod:
		b := *after.parsed.(*podstate.Pod)
		b.ResourceVersion, b.RequestedNetworks, b.Workload = a.ResourceVersion, a.RequestedNetworks, a.Workload
		b.Unattached = a.Unattached
		return !reflect.DeepEqual(*a, b)
	case *podstate.Node:
		b := *after.parsed.(*podstate.Node)
		b.ResourceVersion = a.ResourceVersion
		return !reflect.DeepEqual(*a, b)
	case *coordinationv1.Lease: // agents renew their Leases all the time
		b, was := after.parsed.(*coordinationv1.Lease), podstate.Report{ConfirmedAt: podstate.LeaseRenewTime(a)}
		hasReport := s.store(reportResource).objects[types.NamespacedName{Name: after.Name}] != nil
		return hasReport && (!maps.Equal(a.Annotations, b.Annotations) || !was.IsFresh(s.Now()))
	}
	return true
}

const leaseDelay = 5 * time.Second // between an agent's writes of a report and of the Lease with its hash, at most

func (s *Source) readReport(o *facts.Observation, name string, r *report) *podstate.Report {
	if r.err != nil {
		o.Unreadable = append(o.Unreadable, fmt.Sprintf("SandboxReport %s: %v", name, r.err))
		return podstate.UnreadReport(name, r.UID, r.ResourceVersion)
	}
	lease := s.leaseOf(name)
	if r.previous != nil && o.Now.Sub(r.previousSince) < leaseDelay && hasHash(lease, r.previous) {
		r = r.previous
	}
	return podstate.ReadReportWithHash(r.SandboxReport, r.hash, lease)
}

// trackReport records a deleted report as missing. With a new report it keeps the previous one, while the agent's Lease
// still has its hash: the node must have a fresh report until the agent writes the Lease.
func (s *Source) trackReport(before, after *item, node string) {
	if after == nil {
		s.missing[node] = s.Now()
		return
	}
	delete(s.missing, node)
	if before == nil {
		return
	}
	r, old, lease := after.parsed.(*report), before.parsed.(*report), s.leaseOf(node)
	if old.previous != nil && hasHash(lease, old.previous) {
		old = old.previous
	}
	if old.hash != r.hash && hasHash(lease, old) {
		previous := *old
		previous.previous = nil
		r.previous, r.previousSince = &previous, s.Now()
	}
}

func (s *Source) leaseOf(node string) *coordinationv1.Lease {
	if i := s.store(leaseResource).objects[types.NamespacedName{Namespace: s.LeaseNamespace, Name: node}]; i != nil {
		return i.parsed.(*coordinationv1.Lease)
	}
	return nil
}

// hasHash reports whether an agent's Lease has the hash of a report. Only then is the report fresh.
func hasHash(l *coordinationv1.Lease, r *report) bool {
	return l != nil && r.hash != "" && l.Annotations[v1alpha1.HashAnnotation] == r.hash
}

const missingPeriod = 10 * time.Minute // for which a deleted report counts as missing; agents report a restore sooner

// setMissing sets MissingReports. A replica that does not lead has watched before a restore of etcd.
// So it knows what the restore has lost, even if the leader has ended because it could not renew its Lease. After a
// restore a watch may deliver nothing, so a report that a full pass does not find may still be in the cache.
func (s *Source) setMissing(o *facts.Observation) {
	if !o.Reports.IsKnown() {
		return
	}
	o.MissingReports = s.missingReports()
	if !o.Watched {
		for name := range s.store(reportResource).objects {
			o.MissingReports[name.Name] = o.Now
		}
	}
	for _, r := range o.Reports.Or(nil) {
		delete(o.MissingReports, r.Name)
	}
}

func (s *Source) missingReports() map[string]time.Time {
	for node, since := range s.missing {
		if since.IsZero() { // nobody knew the API server's time then
			s.missing[node] = s.Now()
		}
	}
	maps.DeleteFunc(s.missing, func(_ string, since time.Time) bool { return s.Now().Sub(since) > missingPeriod })
	return maps.Clone(s.missing)
}
