package judge

import (
	"fmt"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// A report is what one node's agent says. The API confirms the entries that its pods on that node ask for. All other
// entries are bounded by numbers that no node sets, and in each pool by a half: otherwise an agent that lies could fill
// every range.

const (
	// maxUnasked is how many entries that no pod asks for are written by the report of one node: one for each pod that
	// a node runs by default (Kubernetes v1.36, pkg/kubelet/apis/config/v1beta1/defaults.go, MaxPods).
	maxUnasked = 110
	// maxUnaskedInAll is the same for the reports of all nodes together.
	maxUnaskedInAll = 1000
	// maxUnaskedRestored replaces both after a restore of etcd, which may lose every pod of a node.
	maxUnaskedRestored = 1000
)

// NodePool is what one node's report says of one pool.
type NodePool struct{ Node, Pool string }

// RepairLimit says why an entry that no pod asks for is not written, "" if it may be. The numbers are of such entries
// within an hour, with this one: of all nodes, of its node, and of its node in its pool.
func (x *Index) RepairLimit(at NodePool, restored bool, inAll, byNode, inPool int) string {
	const unasked = "more than %d entries within an hour by %s, for which no pod in the API asks%s"
	const advice = "; check the node and its agent and, if they are right, use --allow-mass-repair"
	limit := maxUnasked
	if restored {
		limit = maxUnaskedRestored
	}
	switch {
	case byNode > limit:
		return fmt.Sprintf(unasked, limit, "the report of node "+at.Node, advice)
	case inAll > maxUnaskedInAll && !restored:
		return fmt.Sprintf(unasked, maxUnaskedInAll, "all nodes' reports", advice)
	}
	p := x.poolOrMissing(at.Pool)
	if p == nil || len(x.agentNodes) < 2 || len(p.slice) == 1 && p.slice[0] == at.Node {
		return "" // no other node has addresses of it
	}
	if size := p.size(); size > 0 && 2*inPool > size {
		return fmt.Sprintf("more than half of the %d addresses of pool %s within an hour by the report of node %s alone%s", size, at.Pool, at.Node, advice)
	}
	return ""
}

// poolOrMissing is a pool by its "<namespace>/<name>", also one that does not exist and should; nil if there is none.
func (x *Index) poolOrMissing(ref string) *pool {
	if p := x.poolNamed(ref); p != nil {
		return p
	}
	for _, p := range x.missingPools {
		if p.ref == ref {
			return p
		}
	}
	return nil
}

// size is how many addresses whereabouts gives away of a pool at most; 0 for too many to count.
func (p *pool) size() int {
	prefix := p.Range.Prefix()
	host := prefix.Addr().BitLen() - prefix.Bits()
	switch {
	case host >= 31:
		return 0
	case host < 2:
		return 1 << host
	}
	return 1<<host - 2
}

// UnrequestedRepairs are the entries among the repairs for which no pod asks that the API has bound to the reporting node. A pod
// asks for an address of a pool with each interface, less the entries that it has there. The numbers are of entries in
// these pools that a repair wrote for sandboxes of which the API has no pod, by the nodes that still report them.
func (x *Index) UnrequestedRepairs(repairs []*Repair) (unasked map[*Repair]bool, phantoms map[NodePool]int) {
	type podPool struct {
		podRef string
		pool   *ippool.Pool
	}
	room, asked, read := map[podPool]int{}, map[podPool]bool{}, map[*ippool.Pool]bool{}
	unasked, phantoms = map[*Repair]bool{}, map[NodePool]int{}
	for _, w := range repairs {
		if w.Previous != nil {
			room[podPool{w.Previous.PodRef, w.Pool}]++
		}
		if read[w.Pool] {
			continue
		}
		read[w.Pool] = true
		for i := range w.Pool.Allocations {
			a := &w.Pool.Allocations[i]
			room[podPool{a.PodRef, w.Pool}]--
			if a.Owner.UID == "" {
				continue
			}
			for _, g := range x.byContainerID[a.ContainerID] {
				if x.isReady(&g) {
					phantoms[NodePool{g.report.Name, w.Pool.Ref()}]++
				}
			}
		}
	}
	for _, w := range repairs {
		ref, _ := ippool.ParsePodRef(w.PodRef)
		pod, at := x.owner(ref), podPool{w.PodRef, w.Pool}
		bound := pod != nil && pod.Node == w.Node && pod.Phase != podstate.Finished
		if bound && !asked[at] {
			asked[at] = true
			if p := x.poolOrMissing(w.Pool.Ref()); p != nil {
				room[at] += x.asks(pod, p)
			}
		}
		switch {
		case w.Key == "":
		case bound && slices.Contains(pod.IPs, w.Address): // of its default network, which no annotation names
		case bound && room[at] > 0:
			room[at]--
		default:
			unasked[w] = true
		}
	}
	return unasked, phantoms
}

// asks is with how many interfaces a pod asks for a network of a pool.
func (x *Index) asks(pod *podstate.Pod, p *pool) (n int) {
	count := func(name string) {
		if nad := x.nads[name]; nad != nil && p.isMapped(nad) {
			n++
		}
	}
	for i := range pod.Interfaces {
		count(pod.Interfaces[i].Network)
	}
	n = min(n, pod.RequestedCount)
	for _, name := range pod.RequestedNetworks { // kept where there is no readable status
		count(name.String())
	}
	return n
}
