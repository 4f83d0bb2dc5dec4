package findings

import (
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// unknownDefinitions are the findings on definitions that pods name and whose network is unknown. One that cannot
// be parsed is found if any pod names it that is bound to a node and not finished. One that does not exist, or is
// configured on the nodes, is found only if such a pod has an address in the range of a pool or definition, no pool
// records it for the pod, and the pod is older than its ADD may take. If all definitions are unknown, a note says so.
func (x *finder) unknownDefinitions() (found []Finding) {
	if !x.Base().NADs.IsKnown() {
		return nil
	}
	pods := map[types.NamespacedName][]string{}
	note := func(definition types.NamespacedName, p *podstate.Pod) {
		if known := pods[definition]; len(known) == 0 || known[len(known)-1] != p.String() { // once for each pod
			pods[definition] = append(known, p.String())
		}
	}
	for _, p := range x.Base().Pods {
		if p.Node == "" || p.Phase == podstate.Finished {
			continue
		}
		for i := range p.Interfaces {
			c := facts.PodAddress{Pod: p, NAD: x.NAD(p.Interfaces[i].Network), Interface: &p.Interfaces[i]}
			if name, is := x.unknownDefinition(c); is && (x.isBroken(name) || x.hasUnrecorded(c)) {
				note(name, p)
			}
		}
		for _, name := range slices.Concat(p.RequestedNetworks, p.Unattached) {
			if x.isBroken(name) {
				note(name, p)
			}
		}
	}
	for name, named := range pods {
		named = facts.SortedUnique(named)
		found = append(found, Finding{Kind: MalformedFinding, Pods: named,
			Message: fmt.Sprintf("NetworkAttachmentDefinition %s %s, but pods name it: %s. Their network is unknown, so "+
				"missing allocations of these pods are not found", name, x.whyUnknown(name),
				facts.AtMost(named, facts.NamesShown))})
	}
	return found
}

// unknownDefinition is the definition that a pod's interface names, if its network is unknown.
func (x *finder) unknownDefinition(c facts.PodAddress) (types.NamespacedName, bool) {
	namespace, name, isNamed := c.Interface.NAD()
	return types.NamespacedName{Namespace: namespace, Name: name}, isNamed && c.NAD == nil
}

// isBroken reports whether a definition exists and cannot be parsed.
func (x *finder) isBroken(name types.NamespacedName) bool {
	nad := x.Base().NADs.Or(nil)[name]
	return nad != nil && nad.Problem != "" && !nad.IsOnNodes()
}

func (x *finder) whyUnknown(name types.NamespacedName) string {
	definitions, known := x.Base().NADs.Get()
	switch nad := definitions[name]; {
	case !known:
		return "is unknown (" + x.Base().NADs.Why() + ")"
	case nad != nil:
		return "cannot be read (" + nad.Problem + ")"
	}
	return "was not found"
}

// hasUnrecorded reports whether an interface has an address in the range of a pool or definition that no pool records
// for its pod.
func (x *finder) hasUnrecorded(c facts.PodAddress) bool {
	isNew := x.Now().Sub(c.Pod.CreatedAt) < judge.AddTimeLimit
	return !isNew && !x.IsReported(c.Pod) && slices.ContainsFunc(c.Interface.Addresses, func(addr netip.Addr) bool {
		return (len(x.PoolsAt(addr)) > 0 || x.IsDefined(addr)) && !x.isRecordedForPod(addr, c)
	})
}

func (x *finder) isRecordedForPod(addr netip.Addr, c facts.PodAddress) bool {
	return len(x.UnsupportedWith(c.Pod.String(), addr)) > 0 ||
		slices.ContainsFunc(x.EntriesFor(addr), func(e facts.Entry) bool { return e.PodRef == c.Pod.String() })
}

// unknownConflict is the finding on an address that several pods carry, if the network of one of them is unknown. It is
// nil if nothing shows that the address of that pod is of whereabouts. This is shown by a definition that exists and
// cannot be parsed, or by a pool that records the address for a pod with the same definition. Other networks may use
// the addresses of a pool's range. others are the carriers on networks that are known.
func (x *finder) unknownConflict(addr netip.Addr, unknown []facts.PodAddress, others map[string][]string) []Finding {
	isRecorded := map[string]bool{} // definitions
	for _, c := range unknown {
		isRecorded[c.Interface.Network] = isRecorded[c.Interface.Network] || x.isRecordedForPod(addr, c)
	}
	var names, why []string
	for _, c := range unknown {
		if name, _ := x.unknownDefinition(c); isRecorded[c.Interface.Network] || x.isBroken(name) {
			names = append(names, c.Pod.String())
			why = append(why, fmt.Sprintf("NetworkAttachmentDefinition %s %s", name, x.whyUnknown(name)))
		}
	}
	if len(names) == 0 {
		return nil
	}
	f := Finding{Kind: Conflict, IP: addr.String(), NetworkUnknown: true}
	unknownPods := andOthers(facts.SortedUnique(slices.Clone(names)))
	for network, pods := range others {
		names = append(names, pods...)
		if len(others) == 1 {
			f.Pool = x.poolNameOf(addr, network)
		}
	}
	if names = facts.SortedUnique(names); len(names) < 2 || podstate.AreOneMigration(x.PodsByRef(names)) {
		return nil
	}
	f.nodes = x.nodesOf(names)
	f.Pods, f.Message = names, fmt.Sprintf("%s is carried by %s; the network of %s is unknown: %s", addr,
		andOthers(names), unknownPods, facts.AtMost(facts.SortedUnique(why), facts.NamesShown))
	return []Finding{f}
}
