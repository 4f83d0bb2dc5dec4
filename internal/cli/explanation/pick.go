package explanation

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// pick is the part of a judgement that is about a subject.
func pick(j *judge.Judgement, s Subject) *judge.Judgement {
	if s.Kind == Address {
		return j.About(s.Address)
	}
	picked, is, has := *j, func(*judge.Item) bool { return false }, func(*judge.Finding) bool { return false }
	switch s.Kind {
	case Pod:
		is, has = ofPod(j, s)
	case Node:
		is, has = ofNode(j, s.Name)
	case Pool:
		is, has = ofPool(j, s)
	}
	picked.Allocations = slices.DeleteFunc(slices.Clone(j.Allocations), func(it *judge.Item) bool { return !is(it) })
	picked.Reservations = slices.DeleteFunc(slices.Clone(j.Reservations), func(it *judge.Item) bool { return !is(it) })
	picked.Findings = slices.DeleteFunc(slices.Clone(j.Findings), func(f judge.Finding) bool { return !has(&f) })
	return &picked
}

// ofPod picks what is recorded for a pod, as itself or as a phantom, what is recorded for
// others of the addresses that it carries, and the findings that name it.
func ofPod(j *judge.Judgement, s Subject) (func(*judge.Item) bool, func(*judge.Finding) bool) {
	carried := map[netip.Addr]bool{}
	for _, p := range podsOf(j, s) {
		for _, addr := range p.addresses() {
			carried[addr] = true
		}
	}
	ref := s.Namespace + "/" + s.Name
	return func(it *judge.Item) bool {
			owner := it.Owner()
			return owner.Namespace == s.Namespace && owner.Name == s.Name || carried[it.Address()]
		}, func(f *judge.Finding) bool {
			return slices.ContainsFunc(f.Pods, func(p string) bool {
				podRef, _, _ := strings.Cut(p, "_")
				return podRef == ref
			})
		}
}

// ofNode picks what a node runs or may run, and the findings about it or its pods.
func ofNode(j *judge.Judgement, name string) (func(*judge.Item) bool, func(*judge.Finding) bool) {
	ids, pods := map[string]bool{}, map[string]bool{}
	for _, r := range j.Observation.Reports {
		for i := range r.Sandboxes {
			if r.Name == name {
				ids[r.Sandboxes[i].ID] = true
			}
		}
	}
	for _, p := range j.Observation.Pods {
		if p.Node == name {
			pods[p.String()] = true
		}
	}
	return report.Filter{Nodes: []string{name}}.Item, func(f *judge.Finding) bool {
		return f.Node == name || f.Node == "" && (slices.ContainsFunc(f.ContainerIDs, func(id string) bool { return ids[id] }) ||
			slices.ContainsFunc(f.Pods, func(p string) bool { return pods[p] }))
	}
}

func ofPool(j *judge.Judgement, s Subject) (func(*judge.Item) bool, func(*judge.Finding) bool) {
	var f report.Filter
	for _, p := range j.Observation.Pools {
		if s.isPool(p) {
			f.Pools = append(f.Pools, p.Ref())
		}
	}
	if len(f.Pools) == 0 {
		return func(*judge.Item) bool { return false }, func(*judge.Finding) bool { return false }
	}
	return f.Item, func(x *judge.Finding) bool { return f.Finding(x) }
}

// inPools are those of the addresses that a pool may have.
func inPools(j *judge.Judgement, all []netip.Addr) []netip.Addr {
	all = slices.DeleteFunc(all, func(addr netip.Addr) bool {
		for _, p := range j.Observation.Pools {
			if p.Problem == "" && p.Range.Contains(addr) {
				return false
			}
		}
		return true
	})
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}

// interfaceAddresses are those of a pod's network-status.
func interfaceAddresses(p *podstate.Pod) (all []netip.Addr) {
	for _, i := range p.Interfaces {
		all = append(all, i.Addresses...)
	}
	return all
}
