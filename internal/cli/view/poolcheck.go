package view

import (
	"net/netip"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/ranges"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// PoolCheck is the document of pools check: what a definition that does not exist yet would mean.
type PoolCheck struct {
	Header
	Circumstances
	// Answer is Safe, Twice (something would be assigned twice) or Unknown (something may be, or ADDs fail on nodes
	// without a slice).
	Answer string `json:"answer"`
	// Definitions are the NetworkAttachmentDefinitions that are replaced or added.
	Definitions []string `json:"definitions"`
	// Pools are those from which they assign today.
	Pools  []string   `json:"pools"`
	Ranges []NewRange `json:"ranges"`
	// Twice are the addresses that somebody has and that the next ADDs would assign a second time.
	Twice []TwiceAddress `json:"twice"`
	// Overlaps are ranges that assign the same addresses from other pools: of today's definitions, or of the new one.
	Overlaps []RangeOverlap `json:"overlaps"`
	// Outside are the allocations of the pools whose address no range assigns, or is uncertain.
	Outside []AllocationRow `json:"outside"`
	// OutsideReservations are the reservations without an allocation whose address no range assigns.
	OutsideReservations []ReservationRow `json:"outsideReservations"`
	// OutsideUnrecorded are the findings Unrecorded on addresses of the pools that no range assigns.
	OutsideUnrecorded []Finding `json:"outsideUnrecorded"`
	// Fits says for each range whether pods fit.
	Fits []RangeFit `json:"fits"`
	// MoreUnknown has a sentence for each thing because of which more may be outside, or assigned twice, than is listed,
	// and for each one because of which nodes get no slice of a range, so that ADDs fail there.
	MoreUnknown []string `json:"moreUnknown"`
	// Steps are what to do, in this order.
	Steps []Advice `json:"steps"`
	// Items are the rows of Outside and OutsideReservations.
	Items []AllocationRow `json:"-"`
}

// NewRange is a range of the definition.
type NewRange struct {
	// Network is the network_name; "" for none.
	Network string `json:"network"`
	// Range is as in an IPPool. RangeStart and RangeEnd are absent where the definition has none.
	Range      string   `json:"range"`
	RangeStart string   `json:"rangeStart,omitempty"`
	RangeEnd   string   `json:"rangeEnd,omitempty"`
	Exclude    []string `json:"exclude"`
	// Pool is that from which its ADDs assign; absent for a range that is cut into node slices.
	Pool string `json:"pool,omitempty"`
	// PoolExists is false for a pool that the first ADD creates, empty.
	PoolExists bool `json:"poolExists"`
	// OtherPool is true where none of the pools of today is used: their allocations are not in it.
	OtherPool bool `json:"otherPool"`
	// OverlappingRanges is enable_overlapping_ranges: ADDs look at the reservations of other pools, too.
	OverlappingRanges bool `json:"overlappingRanges"`
	// Usable is the number of addresses that can be assigned from an empty pool. Free is the number of those that can be
	// assigned now and that nobody has. Both are in the form of usable in PoolUsage.
	Usable Count `json:"usable"`
	Free   Count `json:"free"`
	// Skipped is the number of reserved addresses that each ADD tries before the first free one. With more than 24 it
	// fails, with two ranges with more than 22 in both together.
	Skipped Count `json:"skipped"`
}

// TwiceAddress is an address that somebody has and that an ADD would assign.
type TwiceAddress struct {
	IP string `json:"ip"`
	// By are the pods, guests (vmi/NAMESPACE/NAME), Nodes (node/NAME) and gateways (gateway/NAMESPACE/NAME, by their
	// definition) that have it.
	By []string `json:"by"`
	// Next is which one of the next ADDs assigns it, counted from 1, if no address is released. It is null for node
	// slices, for what only ADDs of one pod assign, and for what ADDs assign once a stale allocation is released.
	Next *Count `json:"next"`
	Why  string `json:"why"`
}

// RangeOverlap is a range with the same addresses, and its definitions.
type RangeOverlap struct {
	Definitions []string `json:"definitions"`
	Pool        string   `json:"pool"`
	// Shared are the addresses in both, at most 20 ranges.
	Shared     []string `json:"shared"`
	MoreShared int      `json:"moreShared"`
	Why        string   `json:"why"`
}

// RangeFit says whether pods fit into a range.
type RangeFit struct {
	What  string `json:"what"`
	Range string `json:"range"`
	Needs Count  `json:"needs"`
	Free  Count  `json:"free"`
	// Fits is null where that is unknown, and unknown says why.
	Fits    *bool  `json:"fits"`
	Unknown string `json:"unknown,omitempty"`
	// Why says why the pods do not fit although enough addresses are free.
	Why string `json:"why,omitempty"`
}

// NewPoolCheck returns the document of a check of a proposal.
func NewPoolCheck(
	out *reconciler.Result, u *usage.Pools, c *ranges.Check, fits []ranges.Fit, steps []Advice,
) *PoolCheck {
	p := Pick(out, Filter{Pools: lists.Map(c.Pools, (*usage.Pool).Ref)})
	if len(c.Pools) == 0 {
		p = Pick(out, Filter{})
	}
	items := append(c.Outside[:len(c.Outside):len(c.Outside)], c.OutsideReservations...)
	return &PoolCheck{Header: headerOf(KindPoolCheck, p.Observation.Now), Circumstances: p.poolCircumstances(u),
		Answer: answerOf(c), Definitions: lists.Clone(c.Definitions), Pools: lists.Map(c.Pools, (*usage.Pool).Ref),
		Ranges: lists.Map(c.Ranges, newRange), Twice: lists.Map(c.Twice, newTwice),
		Overlaps: lists.Map(c.Overlaps, newOverlap), Outside: lists.Map(c.Outside, p.Row),
		OutsideReservations: lists.Map(c.OutsideReservations, p.reservation),
		OutsideUnrecorded:   lists.Map(c.OutsideUnrecorded, NewFinding), Fits: lists.Map(fits, newFit),
		MoreUnknown: lists.Clone(slices.Concat(c.Unknown, c.Uncut)), Steps: lists.Clone(steps),
		Items: lists.Map(items, func(it *judge.Item) AllocationRow { return p.Row(it) })}
}

// IsSafe reports whether nothing would be assigned twice, for certain.
func (d *PoolCheck) IsSafe() bool { return d.Answer == "Safe" }

func answerOf(c *ranges.Check) string {
	switch {
	case c.IsTwice():
		return "Twice"
	case len(c.Unknown)+len(c.Uncut) > 0:
		return "Unknown"
	}
	return "Safe"
}

func newRange(r *ranges.Range) NewRange {
	bound := func(addr netip.Addr) string {
		if !addr.IsValid() {
			return ""
		}
		return addr.String()
	}
	return NewRange{Network: r.Network.Name, Range: r.Prefix.String(), RangeStart: bound(r.Bounds.Start),
		RangeEnd: bound(r.Bounds.End),
		Exclude:  lists.Map(r.Bounds.Exclude, netip.Prefix.String), Pool: r.Pool, PoolExists: r.Exists, OtherPool: !r.IsToday,
		OverlappingRanges: r.Network.Overlapping, Usable: Count{ippool.Size(r.Usable)}, Free: Count{ippool.Size(r.Free)},
		Skipped: Count{r.Skipped}}
}

func newTwice(t ranges.Twice) TwiceAddress {
	d := TwiceAddress{IP: t.Address.String(), By: t.By, Why: t.Why}
	if t.Next != nil {
		d.Next = &Count{t.Next}
	}
	return d
}

func newOverlap(o ranges.Overlap) RangeOverlap {
	d := RangeOverlap{Definitions: o.Definitions, Pool: o.Pool, Why: o.Why}
	d.Shared, d.MoreShared = rangesOf(o.Shared)
	return d
}

func newFit(f ranges.Fit) RangeFit {
	d := RangeFit{What: f.What, Range: f.Range.Prefix.String(), Needs: Count{f.Needs}, Free: Count{f.Free},
		Unknown: f.Unknown, Why: f.Why}
	if f.Unknown == "" {
		d.Fits = &f.IsFitting
	}
	return d
}
