package view

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"go4.org/netipx"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// NewRange returns what another range would mean for a pool, by a judgement and its report for the pool. The error says
// why whereabouts would refuse the range, or why nothing in it could be judged.
func NewRange(text string, exclude []string) (func(*judge.Judgement, *Picked, *usage.Pool) *PoolNewRange,
	error) {
	to, usable, err := ippool.UsableIn(text, exclude)
	if err != nil {
		return nil, err
	}
	if r, err := ippool.ParseRange(to.String()); err != nil || r.Unsupported() != "" {
		return nil, cmp.Or(err, errors.New(r.Unsupported()))
	}
	return func(j *judge.Judgement, r *Picked, p *usage.Pool) *PoolNewRange {
		row := func(it *judge.Item) AllocationRow { return OfItem(r, it) }
		outside := lists.Filter(j.Allocations, func(it *judge.Item) bool {
			return it.Pool == p.Pool && (p.Unsupported != "" || !usable.Contains(it.Address()))
		})
		reservations := lists.Filter(j.Reservations, func(it *judge.Item) bool {
			return OwnRow(it) && slices.Contains(it.PoolNames(), p.NamespacedName) && !usable.Contains(it.Address())
		})
		return &PoolNewRange{Range: text, Exclude: lists.Clone(exclude), Usable: Count{ippool.Size(usable)},
			OtherPool: p.Range.Prefix() != to, Outside: lists.Map(outside, row),
			OutsideReservations: lists.Map(reservations, func(it *judge.Item) ReservationRow { return row(it).reservation(it) }),
			OutsideUnrecorded:   lists.Map(unrecordedOutside(j, p.Ref(), usable), FindingOf), Unknown: unknownOutside(j),
			Items: lists.Map(slices.Concat(outside, reservations), row)}
	}, nil
}

// unrecordedOutside returns the findings on addresses that are carried and not recorded in a pool, and that a range
// does not assign. A finding that the judgement counts and does not list has its address alone.
func unrecordedOutside(j *judge.Judgement, pool string, usable *netipx.IPSet) []judge.Finding {
	carriers := map[string][]judge.Finding{} // by address
	for _, f := range j.Findings {
		if f.Kind == judge.Unrecorded && f.Pool == pool && !f.IsRest() {
			carriers[f.IP] = append(carriers[f.IP], f)
		}
	}
	found := []judge.Finding{}
	addresses := slices.Clone(j.Unrecorded()[pool])
	slices.SortFunc(addresses, netip.Addr.Compare)
	for _, a := range slices.Compact(addresses) {
		listed := carriers[a.String()]
		if len(listed) == 0 {
			listed = []judge.Finding{{Kind: judge.Unrecorded, IP: a.String(), Pool: pool,
				Message: fmt.Sprintf("%s is carried, but pool %s has no allocation for it", a, pool)}}
		}
		if !usable.Contains(a) {
			found = append(found, listed...)
		}
	}
	return found
}

// unknownOutside returns a sentence for each thing because of which more may be outside than was found.
func unknownOutside(j *judge.Judgement) []string {
	unknown := []string{}
	for _, s := range j.Observation.UnknownSources() {
		if s.Name == judge.SourceReservations {
			unknown = append(unknown, fmt.Sprintf("%s cannot be read (%s), so reservations are not listed", s.Name, s.Unknown))
		}
		if slices.Contains(s.Findings, judge.Unrecorded) {
			unknown = append(unknown, fmt.Sprintf("%s cannot be read (%s), so addresses that are carried without an "+
				"allocation may be missing", s.Name, s.Unknown))
		}
	}
	for _, f := range j.Findings {
		isOfDefinition := f.Kind == judge.MalformedFinding && f.Pool == "" && f.IP == ""
		if isOfDefinition || f.Kind == judge.UnreadSandbox || f.IsRest() && f.Kind == judge.MalformedFinding {
			unknown = append(unknown, f.Message)
		}
	}
	if nodes := OfAgents(j).NoFreshReport; len(nodes) > 0 && !j.WithoutAgents {
		unknown = append(unknown, "these nodes have no fresh SandboxReport, so their sandboxes may carry more: "+
			judge.AtMost(nodes, 5))
	}
	return unknown
}
