package ranges

import (
	"fmt"
	"math/big"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// Check is what follows from a proposal.
type Check struct {
	*Proposal
	Ranges []*Range
	// Outside are the allocations of the pools of today that no range would assign, and OutsideReservations the
	// reservations without an allocation.
	Outside, OutsideReservations []*judge.Item
	// OutsideUnrecorded are the findings Unrecorded on addresses of those pools that no range would assign.
	OutsideUnrecorded []findings.Finding
	// Twice are the addresses that somebody has, and that the next ADDs would assign a second time.
	Twice []Twice
	// Overlaps are definitions that assign the same addresses from other pools, without looking there.
	Overlaps []Overlap
	// Unknown has a sentence for each thing because of which more addresses may be outside, or assigned twice.
	Unknown []string
	// Uncut has a sentence for each thing because of which nodes get no slice of a range, and ADDs fail there.
	Uncut []string
}

// Range is a range of the proposal.
type Range struct {
	Network ippool.Network
	Prefix  netip.Prefix
	Bounds  ippool.Bounds
	// Pool is that of the range, "<namespace>/<name>"; "" for a range that is cut into slices.
	Pool    string
	Exists  bool // the pool does
	IsToday bool // the pool is one of the proposal's pools: the ADDs go on in it
	// Usable are the addresses that ADDs may assign from an empty pool. Free are those that ADDs would assign now and that
	// nobody has.
	Usable, Free *netipx.IPSet
	// Skipped is how many reserved addresses an ADD tries before the first free one. SkippedByADD is how many it tries in
	// all ranges of the network, which it must do in one time, see usage.MostSkipped.
	Skipped, SkippedByADD *big.Int

	open      *netipx.IPSet   // what ADDs assign, whether somebody has it or not
	pools     map[string]bool // those of the range that ADDs read
	recorded  *netipx.IPSet   // in them
	leaving   *netipx.IPSet   // recorded there by stale allocations alone
	reserved  *netipx.IPSet   // what ADDs skip now, for stale reservations, too
	protected map[netip.Addr]*ippool.Reservation
}

// Twice is an address that somebody has and that an ADD would assign.
type Twice struct {
	Address netip.Addr
	Range   *Range
	// Next is which one of the next ADDs would assign it, counted from 1 while no address is released; nil for slices, for
	// what only the ADD of one pod would assign, and for what any would once a stale allocation is released.
	Next *big.Int
	By   []string // who has it
	Why  string
	// IsLacking: an allocation or a reservation is missing that --repair may write.
	IsLacking bool
}

// Of judges a proposal by an assessment of everything that was observed.
//
// The rule is that of whereabouts v0.9.4. An ADD takes the lowest address from range_start to range_end, never the
// first and the last one of the range, that is not excluded and that has no entry in the pool of the range
// (pkg/allocate/allocate.go, IterateForAssignment; pkg/iphelpers/iphelpers.go, GetIPRange). The pool is found by its
// name, which has the network_name and the range, so another range has another pool, and that is empty
// (pkg/storage/kubernetes/ipam.go, IPPoolName, GetIPPool). Only with enable_overlapping_ranges the ADD then skips what
// has another pod's reservation in the network, and tries the next address (IPManagementKubernetesUpdate). Nothing else
// keeps an address from being assigned: neither pods nor sandboxes nor allocations of other pools are looked at. A pod
// with an entry for its interface in the pool keeps this address (AssignIP), whatever the bounds are.
func Of(j *findings.Assessment, pools *usage.Pools, p *Proposal) *Check {
	x := newAsked(j, p)
	c := &Check{Proposal: p, Unknown: append(slices.Clone(p.Unknown), x.unknown(x.mayLeadIntoAsked, x.isAskedRange)...)}
	if x.namespace == "" && len(j.Observation.Pools) > 0 {
		c.Unknown = append(c.Unknown, "the pools are in several namespaces, and it is unknown which one whereabouts uses: "+
			"name a pool of it, too")
	}
	for _, n := range p.Networks {
		ranges := n.Ranges
		if n.Slices {
			ranges = ranges[:min(len(ranges), 1)] // the slices are cut from the first range
		}
		first, skipped := len(c.Ranges), new(big.Int)
		for i, prefix := range ranges {
			if slices.Index(ranges, prefix) == i { // of equal ranges only the first counts
				c.add(x, n, i)
			}
		}
		for _, r := range c.Ranges[first:] {
			skipped.Add(skipped, r.Skipped)
			r.SkippedByADD = skipped
		}
	}
	for _, r := range c.Ranges {
		c.findTwice(x, r)
	}
	c.findOutside(j)
	c.findUncut(j)
	c.Overlaps = append(c.ownOverlaps(), overlaps(j, p, c.Ranges)...)
	return c
}

// IsTwice reports whether something would be assigned twice.
func (c *Check) IsTwice() bool { return len(c.Twice)+len(c.Overlaps) > 0 }

// add adds the i-th range of a network.
func (c *Check) add(x *asked, n ippool.Network, i int) {
	prefix := n.Ranges[i]
	fresh := ippool.NewPool(x.namespace, n.Name, prefix)
	r := &Range{Network: n, Prefix: prefix, Pool: strings.TrimPrefix(fresh.Ref(), "/")}
	r.protected, r.reserved = x.reserved(n)
	its := map[string]bool{} // the pools of the range
	isCutAnew := n.Slices && !x.keepsSlices(n)
	for _, p := range x.f.Pools() {
		_, isItsPool := n.Assigns(p.Pool)
		isOther := !n.Slices && p.Range.Prefix() != prefix
		if !isItsPool || isCutAnew || isOther || p.Namespace != x.namespace {
			continue
		}
		r.Exists = true
		r.IsToday = r.IsToday || slices.ContainsFunc(c.Pools, func(today *usage.Pool) bool { return today.Ref() == p.Ref() })
		// The slice of a node that is gone becomes another node's, and that has another pool.
		its[p.Ref()] = !n.Slices || !x.j.Observation.Nodes.IsKnown() || x.f.HasNode(p.Slice)
	}
	// One whose range cannot be read has a finding, which unknown says.
	if p := x.f.PoolNamed(r.Pool); p != nil && p.Range.Prefix().IsValid() && !its[r.Pool] && !n.Slices {
		c.Unknown = append(c.Unknown, fmt.Sprintf("pool %s, which ADDs in %s read, exists and has the range %s",
			r.Pool, prefix, p.Range.Prefix()))
	}
	r.pools = its
	r.recorded, r.leaving = x.recordedIn(its)
	if n.Slices { // which slice is which node's, and so the order of ADDs, is not known
		r.Pool = ""
		r.Usable = after(prefix, prefix.Addr())
	} else {
		if i < len(n.Bounds) {
			r.Bounds = n.Bounds[i]
		}
		r.Usable = n.Usable(fresh)
	}
	r.open = without(r.Usable, r.recorded, setOf(r.protected))
	r.countSkipped()
	c.Ranges = append(c.Ranges, r)
}

// countSkipped counts the addresses before the first one that an ADD assigns, which it tries in vain.
func (r *Range) countSkipped() {
	r.Skipped = new(big.Int)
	if free := without(r.open, r.reserved).Ranges(); len(free) > 0 && !r.Network.Slices {
		tried := without(r.Usable, r.recorded, after(r.Prefix, free[0].From()))
		r.Skipped = ippool.Size(tried)
	}
}

// after are the addresses of a range from one on.
func after(prefix netip.Prefix, first netip.Addr) *netipx.IPSet {
	var set netipx.IPSetBuilder
	set.AddRange(netipx.IPRangeFrom(first, netipx.RangeOfPrefix(prefix).To()))
	s, _ := set.IPSet()
	return s
}

func without(set *netipx.IPSet, others ...*netipx.IPSet) *netipx.IPSet {
	var rest netipx.IPSetBuilder
	rest.AddSet(set)
	for _, other := range others {
		rest.RemoveSet(other)
	}
	s, _ := rest.IPSet() // of valid sets, which give no error
	return s
}

func setOf[V any](addresses map[netip.Addr]V) *netipx.IPSet {
	var set netipx.IPSetBuilder
	for a := range addresses {
		set.Add(a)
	}
	s, _ := set.IPSet()
	return s
}

// findTwice finds what ADDs in a range would assign although somebody has it.
func (c *Check) findTwice(x *asked, r *Range) {
	held := map[netip.Addr]bool{}
	position := newPositions(r.open)
	var adding []string
	for _, addr := range x.addresses(r.Usable.Contains) {
		by, why, isLacking := x.at(addr, r)
		switch {
		case len(by) == 0:
			continue
		case !r.open.Contains(addr):
			if by, why = x.atClosed(addr, r, by); len(by) > 0 {
				c.Twice = append(c.Twice, Twice{Address: addr, Range: r, By: by, Why: why})
			}
			continue
		}
		held[addr] = true
		if r.Network.Overlapping && x.isBeingAdded(addr) {
			adding = append(adding, by...)
			continue
		}
		t := Twice{Address: addr, Range: r, By: by, Why: why, IsLacking: isLacking}
		if !r.Network.Slices {
			t.Next = position.of(addr)
		}
		c.Twice = append(c.Twice, t)
	}
	for addr := range x.stale { // until it is released
		held[addr] = true
	}
	r.Free = without(r.open, r.reserved, setOf(held))
	if len(adding) > 0 {
		c.Unknown = append(c.Unknown, "these pods have an allocation and no reservation yet, since their ADD may be in "+
			"progress: "+facts.AtMost(facts.SortedUnique(adding), 5))
	}
}

// positions counts the addresses of a set before an address. It is asked in ascending order.
type positions struct {
	ranges []netipx.IPRange
	before *big.Int // addresses in the ranges that are behind
}

func newPositions(set *netipx.IPSet) *positions { return &positions{set.Ranges(), new(big.Int)} }

// of is the position of an address of the set, counted from 1.
func (p *positions) of(addr netip.Addr) *big.Int {
	for !p.ranges[0].Contains(addr) {
		p.before.Add(p.before, size(p.ranges[0]))
		p.ranges = p.ranges[1:]
	}
	return new(big.Int).Add(p.before, size(netipx.IPRangeFrom(p.ranges[0].From(), addr)))
}

func size(r netipx.IPRange) *big.Int {
	var set netipx.IPSetBuilder
	set.AddRange(r)
	s, _ := set.IPSet()
	return ippool.Size(s)
}

// findOutside finds what the pools of today have and no range of the proposal assigns.
func (c *Check) findOutside(j *findings.Assessment) {
	isToday := func(ref string) bool {
		return slices.ContainsFunc(c.Pools, func(p *usage.Pool) bool { return p.Ref() == ref })
	}
	for _, it := range j.Allocations {
		isUnsupported := it.Pool.Unsupported != ""
		if isToday(it.Pool.Ref()) && (isUnsupported || !c.assigns(it.Address())) {
			c.Outside = append(c.Outside, it)
		}
	}
	for _, it := range j.Reservations {
		isOfToday := slices.ContainsFunc(it.PoolNames(), func(p types.NamespacedName) bool { return isToday(p.String()) })
		if len(it.Related()) == 0 && isOfToday && !c.assigns(it.Address()) {
			c.OutsideReservations = append(c.OutsideReservations, it)
		}
	}
	for _, p := range c.Pools {
		c.OutsideUnrecorded = append(c.OutsideUnrecorded, unrecordedOutside(j, p.Ref(), c.assigns)...)
	}
}

// assigns reports whether any range of the proposal assigns an address.
func (c *Check) assigns(addr netip.Addr) bool {
	return slices.ContainsFunc(c.Networks, func(n ippool.Network) bool { return n.MayAssign(addr) })
}
