package judge

import "fmt"

// A report is what one node's agent says, and nothing else confirms the addresses in
// it. So what is written back on its word is bounded: by what the node can hold, and in
// each pool by a half, or an agent that lies could fill every range. That half is not for the
// first address of a pod that the API has on that node.

const (
	// defaultMaxPods is how many pods a node runs that does not tell (Kubernetes v1.36,
	// pkg/kubelet/apis/config/v1beta1/defaults.go, MaxPods).
	defaultMaxPods = 110
	// repairAllowance allows for sandboxes that come and go within the hour: half as many again.
	repairAllowance = 1.5
)

// NodePool is what one node's report says of one pool.
type NodePool struct{ Node, Pool string }

// RepairLimit says why so many entries by the report of one node are not written, "" if they
// may be. inPool is 0 for what no half bounds.
func (x *Index) RepairLimit(at NodePool, byNode, inPool int) string {
	const advice = "; check the node and its agent and, if they are right, use --allow-mass-repair"
	if limit, pods, addresses := x.nodeCapacity(at.Node); byNode > limit {
		return fmt.Sprintf("more than %d entries within an hour by the report of node %s, which can run %d pods with %d addresses each%s", limit, at.Node, pods, addresses, advice)
	}
	p := x.poolNamed(at.Pool)
	if p == nil {
		p = x.missingPools[at.Pool]
	}
	if p == nil || len(x.agentNodes) < 2 || len(p.slice) == 1 && p.slice[0] == at.Node {
		return "" // no other node has addresses of it
	}
	if size := p.size(); size > 0 && 2*inPool > size {
		return fmt.Sprintf("more than half of the %d addresses of pool %s within an hour by the report of node %s alone%s", size, at.Pool, at.Node, advice)
	}
	return ""
}

// nodeCapacity is how many addresses a node can hold, with some to spare, by how many pods it
// can run and by the most addresses that one of its sandboxes has.
func (x *Index) nodeCapacity(node string) (limit, pods, addresses int) {
	pods, addresses = defaultMaxPods, 1
	if n := x.o.Nodes[node]; n != nil && n.MaxPods > 0 {
		pods = n.MaxPods
	}
	if r := x.byNode[node]; r != nil {
		addresses = max(addresses, r.most)
	}
	return int(repairAllowance * float64(pods*addresses)), pods, addresses
}

// size is how many addresses whereabouts gives away of a pool at most; 0 for too many to
// count.
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

// PhantomsRecorded counts, in these pools, the entries that a repair wrote for
// sandboxes of which no API has the pod, by the nodes that still report them.
func (x *Index) PhantomsRecorded(pools []string) map[NodePool]int {
	count := map[NodePool]int{}
	var entries []reportEntry
	for _, ref := range sortedUnique(pools) {
		p := x.poolNamed(ref)
		if p == nil {
			continue
		}
		for i := range p.Allocations {
			a := &p.Allocations[i]
			if a.Owner.UID == "" {
				continue
			}
			entries = x.reportEntries(entries[:0], a.ContainerID)
			for k := range entries {
				if entries[k].isReady() {
					count[NodePool{entries[k].report.Name, p.ref}]++
				}
			}
		}
	}
	return count
}
