package judgetest

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Describe is all that a judgement says of allocations and reservations, a line each.
func Describe(j *judge.Judgement) []string {
	var lines []string
	for _, it := range slices.Concat(j.Allocations, j.Reservations) {
		lines = append(lines, DescribeItem(it))
	}
	return lines
}

// DescribeItem is all that is judged of one, with its evidence.
func DescribeItem(it *judge.Item) string {
	var with []judge.ID
	for _, x := range it.Related() {
		with = append(with, x.ID())
	}
	e := it.Evidence()
	if e == nil {
		e = &judge.Evidence{}
	}
	return fmt.Sprint(it.ID(), it.Address(), it.Network(), RulingOf(it), it.Message(), it.Rule(), with, e.OnPod,
		e.Ownership, e.Nodes, e.WithoutReport, e.Rival, e.RivalNode())
}

// DescribeFindings is all that the findings say, a line each.
func DescribeFindings(found []findings.Finding) []string {
	var all []string
	for _, f := range found {
		text := fmt.Sprint(f.Kind, f.IP, f.Pool, f.Pods, f.ContainerIDs, f.Node, f.Message)
		if r := f.Repair; r != nil {
			text += fmt.Sprint(r.Pool.Ref(), r.Key, r.Address, r.Network, r.ContainerID, r.PodRef, r.IfName)
		}
		all = append(all, text)
	}
	return all
}

// Missing are the lines of want that got does not have.
func Missing(want, got []string) []string {
	return slices.DeleteFunc(slices.Clone(want), func(line string) bool { return slices.Contains(got, line) })
}

// ChangedIndex is an index with a few changes, beside the observation that it must be equal to.
func ChangedIndex(c Random) (*facts.Facts, *Observed, facts.Policy) {
	o, policy := ObserveDistinct(c.Cluster()), c.Policy()
	for _, r := range o.Reports.Or(nil) { // most confirm what they say by now
		if !c.OneIn(4) {
			r.ConfirmedAt, r.LeaseRenewedAt = o.Now, o.Now
		}
	}
	f := facts.New(o.Observation, o.Past, policy)
	for range 1 + c.IntN(4) {
		// What it remembers must not outlive the changes.
		judge.JudgeAt(f, o.Past, nil, []netip.Addr{netip.MustParseAddr(c.IP())})
		var to *facts.Live
		to, o = c.Changes(o)
		f = f.With(to)
	}
	return f, o, policy
}

// Changes are a few changes, beside the observation after them.
func (c Random) Changes(before *Observed) (*facts.Live, *Observed) {
	o := before.Copy()
	o.Pools, o.Pods = slices.Clone(o.Pools), maps.Clone(o.Pods)
	reservations := slices.Clone(o.Reservations.Or(nil))
	to := &facts.Live{Pods: map[types.NamespacedName]*podstate.Pod{}, Pools: map[types.NamespacedName]*ippool.Pool{},
		Reservations: map[types.NamespacedName]*ippool.Reservation{}}
	if c.OneIn(3) {
		to.Now = o.Now.Add(time.Duration(c.IntN(120)) * time.Second)
		o.Now = to.Now
	}
	for range c.IntN(4) {
		made := Observe(At(o.Now))
		switch c.IntN(4) {
		case 0, 1:
			name := PodName(c.PodName())
			if !c.OneIn(3) {
				c.Pod(name.Name)(made)
			}
			to.Pods[name] = made.Pods[name]
			delete(o.Pods, name)
			maps.Copy(o.Pods, made.Pods)
		case 2:
			name := types.NamespacedName{Namespace: "kube-system", Name: c.Pick(slices.Sorted(maps.Keys(poolRanges))...)}
			o.Pools = slices.DeleteFunc(o.Pools, func(p *ippool.Pool) bool { return p.Name == name.Name })
			to.Pools[name] = nil
			if !c.OneIn(4) {
				c.Pool(name.Name)(made)
				to.Pools[name] = made.Pools[0]
				o.Pools = append(o.Pools, made.Pools[0])
			}
		default:
			c.Reservation()(made)
			r := made.Reservations.Or(nil)[0]
			name := r.NamespacedName
			reservations = slices.DeleteFunc(reservations, func(p *ippool.Reservation) bool { return p.Name == name.Name })
			to.Reservations[name] = nil
			if !c.OneIn(3) {
				to.Reservations[name] = r
				reservations = append(reservations, r)
			}
		}
	}
	o.Reservations = o.Reservations.With(reservations)
	return to, o
}
