package reconciler

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A report is what one node's agent says, and nothing else vouches for the addresses in
// it. So what is written back on its word is bounded: by what the node can hold, and in
// each pool by a half, or an agent that lies could fill every range.

const (
	// defaultMaxPods is how many pods a node runs that does not tell (Kubernetes v1.36,
	// pkg/kubelet/apis/config/v1beta1/defaults.go, MaxPods).
	defaultMaxPods = 110
	// churn allows for sandboxes that come and go within the hour: half as many again.
	churn = 1.5
)

// word is a node's word about a pool.
type word struct{ node, pool string }

// noteRepair counts an entry that was written.
func (h *History) noteRepair(now time.Time, w *repair) {
	if h.repaired == nil {
		h.repaired = map[word]window{}
	}
	at := word{w.node, w.pool.Ref()}
	h.repaired[at] = h.repaired[at].since(now).and(now, 1, 0)
}

// repairedWithin is how many entries were written within the last hour.
func (h *History) repairedWithin(now time.Time) map[word]int {
	count := map[word]int{}
	for at, w := range h.repaired {
		if w = w.since(now); len(w) == 0 {
			delete(h.repaired, at)
			continue
		}
		for _, r := range w {
			count[at] += r.Count
		}
	}
	return count
}

// boundRepairs withholds what would be too much on the word of one node. Those of pods
// that the API has come first.
func (r *Reconciler) boundRepairs(j *Judgement, due []*mend, out *Result) (allowed []*mend) {
	if r.Options.AllowMassRepair || len(due) == 0 {
		return due
	}
	x, inPool := j.x, r.History.repairedWithin(j.Observation.Now)
	for at, n := range x.phantomsRecorded(due) { // an earlier process may have written them
		inPool[at] = max(inPool[at], n)
	}
	byNode := map[string]int{}
	for at, n := range inPool {
		byNode[at.node] += n
	}
	due = slices.Clone(due)
	slices.SortStableFunc(due, func(a, b *mend) int { return cmp.Compare(rank(a.repair), rank(b.repair)) })
	for _, f := range due {
		at, text := word{f.repair.node, f.repair.pool.Ref()}, ""
		if f.repair.key != "" {
			text = x.tooMuch(at, byNode[at.node]+1, inPool[at]+1)
		}
		if text != "" {
			out.Unrepaired = append(out.Unrepaired, Unrepaired{*f.Finding, Breaker, text})
			if f.waited {
				r.History.repairs[f.key()] = f.first // it need not stand for a minute again
			}
			continue
		}
		if f.repair.key != "" {
			byNode[at.node]++
			inPool[at]++
		}
		allowed = append(allowed, f)
	}
	return allowed
}

func rank(w *repair) int {
	if w.phantom {
		return 1
	}
	return 0
}

// tooMuch says why so many entries on the word of one node are not written, "" if they
// may be.
func (x *index) tooMuch(at word, byNode, inPool int) string {
	const advice = "; look at the node and its agent and, if they are right, use --allow-mass-repair"
	if limit, pods, addresses := x.mostOn(at.node); byNode > limit {
		return fmt.Sprintf("more than %d entries within an hour on the word of node %s, which can run %d pods with %d addresses each%s", limit, at.node, pods, addresses, advice)
	}
	p := x.poolNamed(at.pool)
	if p == nil || len(x.agentNodes) < 2 || len(p.slice) == 1 && p.slice[0] == at.node {
		return "" // no other node has addresses of it
	}
	if size := p.size(); size > 0 && 2*inPool > size {
		return fmt.Sprintf("more than half of the %d addresses of pool %s within an hour on the word of node %s alone%s", size, at.pool, at.node, advice)
	}
	return ""
}

// mostOn is how many addresses a node can hold, with some to spare, by how many pods it
// can run and by the most addresses that one of its sandboxes has.
func (x *index) mostOn(node string) (limit, pods, addresses int) {
	pods, addresses = defaultMaxPods, 1
	if n := x.o.Nodes[node]; n != nil && n.MaxPods > 0 {
		pods = n.MaxPods
	}
	if r := x.byNode[node]; r != nil {
		for i := range r.sandboxes {
			addresses = max(addresses, len(r.sandboxes[i].Addresses))
		}
	}
	return int(churn * float64(pods*addresses)), pods, addresses
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

// phantomsRecorded counts, in the pools of repairs, the entries that a repair wrote for
// sandboxes of which no API has the pod, by the nodes that still report them.
func (x *index) phantomsRecorded(due []*mend) map[word]int {
	count, seen := map[word]int{}, map[string]bool{}
	var sighted []reportEntry
	for _, f := range due {
		p := x.poolNamed(f.repair.pool.Ref())
		if p == nil || seen[p.ref] {
			continue
		}
		seen[p.ref] = true
		for i := range p.Allocations {
			a := &p.Allocations[i]
			if a.Owner.UID == "" {
				continue
			}
			sighted = x.reportEntries(sighted[:0], a.ContainerID)
			for k := range sighted {
				if sighted[k].runs() {
					count[word{sighted[k].report.Name, p.ref}]++
				}
			}
		}
	}
	return count
}
