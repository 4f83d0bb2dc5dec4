package ranges

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// Fit says whether pods fit into a range.
type Fit struct {
	What        string
	Range       *Range
	Needs, Free *big.Int
	IsFitting   bool
	// Unknown is why it is unknown whether they fit; "" if that is known.
	Unknown string
	// Why says why they do not fit although enough addresses are free; "" for no reason.
	Why string
}

// Fits says for each range whether more pods fit, the pods that wait, and a rolling update of all pods of the pools of
// today, with its surge: a number or a part of the replicas, rounded up, as in a Deployment. Only the pods of
// ReplicaSets surge. An address that a pod gives up in the update counts as free for the next one if the range has it.
// What is stale, and what nobody knows to be free, counts as used.
func (c *Check) Fits(j *findings.Assessment, add int, surge intstr.IntOrString) (fits []Fit, err error) {
	for _, r := range c.Ranges {
		if add > 0 {
			fits = append(fits, c.fit(r, fmt.Sprintf("%d more pods", add), int64(add)))
		}
		if waiting := c.waiting(); waiting > 0 {
			fits = append(fits, c.fit(r, "the pods that wait now", waiting))
		}
		moving, surging, err := c.moving(j, r, surge)
		if err != nil {
			return nil, err
		}
		if moving+surging > 0 || len(c.Pools) > 0 {
			what := fmt.Sprintf("a rolling update of all pods (%d outside, surge %d)", moving, surging)
			fits = append(fits, c.fit(r, what, moving+surging))
		}
	}
	return fits, nil
}

func (c *Check) waiting() int64 {
	pods := map[types.NamespacedName]bool{}
	for _, p := range c.Pools {
		for _, name := range p.Waiting {
			pods[name] = true
		}
	}
	return int64(len(pods))
}

func (c *Check) fit(r *Range, what string, needs int64) Fit {
	f := Fit{What: what, Range: r, Needs: big.NewInt(needs), Free: ippool.Size(r.Free)}
	switch {
	case r.Network.Slices:
		f.Unknown = "each node has a slice of its own, and which nodes the pods will run on is unknown"
	case needs > 0 && r.isSkippedInVain():
		f.Why = fmt.Sprintf("ADDs fail: %s addresses before the first free ones of all ranges are reserved, and an ADD can "+
			"skip only %s in time", r.SkippedByADD, usage.MostSkipped(r.Network))
	case f.Needs.Cmp(f.Free) > 0:
	case len(c.Unknown) > 0 && needs > 0:
		f.Unknown = "more addresses may be in use than are seen"
	default:
		f.IsFitting = true
	}
	return f
}

// moving counts the addresses of a range that pods need and do not have there, and those of the pods that a rolling
// update starts before it stops others. A pod needs one for each of its interfaces.
func (c *Check) moving(j *findings.Assessment, r *Range, surge intstr.IntOrString) (moving, surging int64, err error) {
	type attachment struct{ podref, ifname string }
	isInside := map[attachment]bool{}
	replicas := map[string]map[string]int64{} // the interfaces of each pod, by ReplicaSet
	update := c.updatedIn(r)
	for _, it := range j.Allocations {
		if it.Verdict == judge.Stale || !update[it.Pool.Ref()] {
			continue
		}
		at := attachment{it.PodRef(), it.Allocation.IfName}
		if it.Owner().Name == "" {
			at.podref = it.Pool.Ref() + " " + it.Allocation.Key // it cannot be read, so each one counts
		}
		_, isKnown := isInside[at]
		isInside[at] = isInside[at] || r.Usable.Contains(it.Address())
		pod := j.Facts().Owner(it.Owner())
		if !isKnown && pod != nil && strings.HasPrefix(pod.Workload, "ReplicaSet/") {
			name := pod.Namespace + "/" + pod.Workload
			if replicas[name] == nil {
				replicas[name] = map[string]int64{}
			}
			replicas[name][at.podref]++
		}
	}
	for _, has := range isInside {
		if !has {
			moving++
		}
	}
	for _, pods := range replicas {
		more, err := intstr.GetScaledValueFromIntOrPercent(&surge, len(pods), true)
		if err != nil {
			return 0, 0, err
		}
		surging += int64(more) * slices.Max(slices.Collect(maps.Values(pods)))
	}
	return moving, surging, nil
}

// updatedIn are the pools of today whose pods need an address of a range when they are started again. A range that
// goes on in its pool has pods of other ranges already: those of pools that the proposal leaves come in addition. To a
// new range all of them come.
func (c *Check) updatedIn(r *Range) map[string]bool {
	left, update := c.Left(), map[string]bool{}
	for _, p := range c.Pools {
		update[p.Ref()] = !r.IsToday || r.pools[p.Ref()] || r.Network.Slices || slices.Contains(left, p.Ref())
	}
	return update
}

// Workloads are the controllers of the pods that must move, as "<namespace>/<kind>/<name>", sorted. A pod without a
// controller stands for itself.
func (c *Check) Workloads(j *findings.Assessment) []string {
	var found []string
	for _, it := range c.mustMove(j) {
		owner := it.Owner()
		if owner.Name == "" {
			continue // its podref cannot be read
		}
		name := owner.Namespace + "/Pod/" + owner.Name
		if pod := j.Facts().Owner(owner); pod != nil && pod.Workload != "" {
			name = owner.Namespace + "/" + pod.Workload
		}
		found = append(found, name)
	}
	return facts.SortedUnique(found)
}

// mustMove are the allocations of the pools of today, in use or held, that are outside or in a pool that the proposal
// leaves.
func (c *Check) mustMove(j *findings.Assessment) (found []*judge.Item) {
	outside, isLeft := judge.IDs(c.Outside), map[string]bool{}
	for _, ref := range c.Left() {
		isLeft[ref] = true
	}
	for _, it := range j.Allocations {
		if it.Verdict != judge.Stale && (outside[it.ID()] || isLeft[it.Pool.Ref()]) {
			found = append(found, it)
		}
	}
	return found
}

// Left are the pools of today that no range of the proposal uses.
func (c *Check) Left() (refs []string) {
	for _, p := range c.Pools {
		isUsed := false
		for _, n := range c.Networks {
			_, ok := n.Assigns(p.Pool)
			isUsed = isUsed || ok
		}
		if !isUsed {
			refs = append(refs, p.Ref())
		}
	}
	return refs
}
