package explanation

import (
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Items are the allocations and then the reservations.
func (e *Explanation) Items() []*judge.Item { return slices.Concat(e.Allocations, e.Reservations) }

// pick is the part of a judgement that is about a subject; pods are what is known of a pod.
func pick(j *judge.Judgement, s Subject, pods []document.ExplainedPod) *judge.Judgement {
	var is func(*judge.Item) bool
	var has func(*judge.Finding) bool
	switch s.Kind {
	case Address:
		return j.About(s.Address)
	case Pod:
		is, has = ofPod(s, pods)
	case Node:
		is, has = ofNode(j, s.Name)
	case Pool:
		is, has = ofPool(j, s)
	}
	picked := *j
	picked.Allocations, picked.Reservations = keep(j.Allocations, is), keep(j.Reservations, is)
	picked.Findings = keep(j.Findings, func(f judge.Finding) bool { return has(&f) })
	return &picked
}

// keep are those of a list that something is true of.
func keep[T any](all []T, is func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(all), func(x T) bool { return !is(x) })
}

// ofPod picks what is recorded for a pod, as itself or as a phantom, what is recorded for
// others of the addresses that it carries, and the findings that name it.
func ofPod(s Subject, pods []document.ExplainedPod) (func(*judge.Item) bool, func(*judge.Finding) bool) {
	carried := map[string]bool{}
	for _, p := range pods {
		addresses := slices.Clone(p.Carries)
		for _, b := range p.Sandboxes {
			addresses = append(addresses, b.Addresses...)
		}
		for _, addr := range addresses {
			carried[addr] = true
		}
	}
	return func(it *judge.Item) bool {
			owner := it.Owner()
			return owner.Namespace == s.Namespace && owner.Name == s.Name || carried[it.Text()]
		}, func(f *judge.Finding) bool {
			return slices.ContainsFunc(f.Pods, func(p string) bool {
				podRef, _, _ := strings.Cut(p, "_")
				return podRef == s.ref()
			})
		}
}

// ofNode picks what a node runs or may run, and the findings about it or its pods.
func ofNode(j *judge.Judgement, name string) (func(*judge.Item) bool, func(*judge.Finding) bool) {
	here := map[string]bool{} // its pods, and the ids of its sandboxes
	for _, s := range sandboxes(j.Observation) {
		if s.Node == name {
			here[s.ID] = true
		}
	}
	for _, p := range j.Observation.Pods {
		if p.Node == name {
			here[p.String()] = true
		}
	}
	return report.Filter{Nodes: []string{name}}.Item, func(f *judge.Finding) bool {
		isHere := func(x string) bool { return here[x] }
		return f.Node == name || f.Node == "" && slices.ContainsFunc(slices.Concat(f.ContainerIDs, f.Pods), isHere)
	}
}

func ofPool(j *judge.Judgement, s Subject) (func(*judge.Item) bool, func(*judge.Finding) bool) {
	f := report.Filter{}
	for _, p := range j.Observation.Pools {
		if s.isPool(p) {
			f.Pools = append(f.Pools, p.Ref())
		}
	}
	if len(f.Pools) == 0 {
		f.Pools = []string{"/"} // no pool's
	}
	return f.Item, func(x *judge.Finding) bool { return f.Finding(x) }
}
