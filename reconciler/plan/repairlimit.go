package plan

import (
	"fmt"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
)

// These limits keep a lying agent from filling every range. Entries that a pod in the API requests on the reporting
// node have no limit.
const (
	// maxUnrequested is the limit of one node: the pods that a node runs by default
	// (Kubernetes v1.36, pkg/kubelet/apis/config/v1beta1/defaults.go, MaxPods).
	maxUnrequested = 110
	// maxUnrequestedInAll is the limit of all nodes together.
	maxUnrequestedInAll = 1000
	// maxUnrequestedAfterRestore replaces both after a restore of etcd, which may lose every pod of a node.
	maxUnrequestedAfterRestore = 1000
)

// NodePool is a node whose report has entries of a pool.
type NodePool struct{ Node, Pool string }

// RepairLimit says why an entry that no pod requests is not written, "" if it may be. The numbers count such entries
// within an hour, including this one: of all nodes, of its node, and of its node in its pool.
func RepairLimit(f *facts.Facts, at NodePool, restored bool, inAll, byNode, inPool int) string {
	const unrequested = "more than %d allocations within an hour by %s, which no pod in the API requests%s"
	const advice = "; check the node and its agent, then use --allow-mass-repair"
	limit := maxUnrequested
	if restored {
		limit = maxUnrequestedAfterRestore
	}
	switch {
	case byNode > limit:
		return fmt.Sprintf(unrequested, limit, "the report of node "+at.Node, advice)
	case inAll > maxUnrequestedInAll && !restored:
		return fmt.Sprintf(unrequested, maxUnrequestedInAll, "all nodes' reports", advice)
	}
	p := f.PoolOrMissing(at.Pool)
	if p == nil || len(f.AgentNodes()) < 2 || len(p.Slice) == 1 && p.Slice[0] == at.Node {
		return "" // no other node uses the pool
	}
	if size := p.Size(); size > 0 && 2*inPool > size {
		return fmt.Sprintf("more than half of the %d addresses of pool %s within an hour by the report of node %s alone%s",
			size, at.Pool, at.Node, advice)
	}
	return ""
}

// unrequestedRepairs are the repairs of entries that no pod on the reporting node requests. A pod requests an address
// of a pool with each interface, less its entries there. phantoms counts the entries of these pools that repairs wrote
// for sandboxes without a pod, by the nodes that still report them.
func unrequestedRepairs(
	f *facts.Facts, repairs []*findings.Repair,
) (unrequested map[*findings.Repair]bool, phantoms map[NodePool]int) {
	type podPool struct {
		podRef string
		pool   *ippool.Pool
	}
	room, isCounted, isRead := map[podPool]int{}, map[podPool]bool{}, map[*ippool.Pool]bool{}
	unrequested, phantoms = map[*findings.Repair]bool{}, map[NodePool]int{}
	for _, w := range repairs {
		if w.Previous != nil {
			room[podPool{w.Previous.PodRef, w.Pool}]++
		}
		if isRead[w.Pool] {
			continue
		}
		isRead[w.Pool] = true
		for i := range w.Pool.Allocations {
			a := &w.Pool.Allocations[i]
			room[podPool{a.PodRef, w.Pool}]--
			if a.Owner.UID == "" {
				continue
			}
			for _, g := range f.Mentions(a.ContainerID) {
				if f.IsReady(&g) {
					phantoms[NodePool{g.Report.Name, w.Pool.Ref()}]++
				}
			}
		}
	}
	for _, w := range repairs {
		ref, _ := ippool.ParsePodRef(w.PodRef)
		pod, at := f.Owner(ref), podPool{w.PodRef, w.Pool}
		isBound := pod != nil && pod.Node == w.Node && pod.Phase != podstate.Finished
		if isBound && !isCounted[at] {
			isCounted[at] = true
			if p := f.PoolOrMissing(w.Pool.Ref()); p != nil {
				room[at] += f.RequestedInterfaces(pod, p)
			}
		}
		switch {
		case w.Key == "":
		case isBound && slices.Contains(pod.IPs, w.Address): // of its default network, which no annotation names
		case isBound && room[at] > 0:
			room[at]--
		default:
			unrequested[w] = true
		}
	}
	return unrequested, phantoms
}
