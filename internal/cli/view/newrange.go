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
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// NewRange is a range that a pool might get instead of its own.
type NewRange struct {
	text    string
	exclude []string
	prefix  netip.Prefix
	usable  *netipx.IPSet
}

// ParseNewRange parses a range as in a definition. The error says why whereabouts would refuse it, or why nothing in it
// could be judged.
func ParseNewRange(text string, exclude []string) (*NewRange, error) {
	to, usable, err := ippool.UsableIn(text, exclude)
	if err != nil {
		return nil, err
	}
	if r, err := ippool.ParseRange(to.String()); err != nil || r.Unsupported() != "" {
		return nil, cmp.Or(err, errors.New(r.Unsupported()))
	}
	return &NewRange{text, exclude, to, usable}, nil
}

// of returns what the range means for a pool of a judgement, of which p is picked.
func (n *NewRange) of(p *Picked, j *findings.Assessment, pool *usage.Pool) *PoolNewRange {
	isOutside := func(it *judge.Item) bool { return !n.usable.Contains(it.Address()) }
	outside := lists.Filter(j.Allocations, func(it *judge.Item) bool {
		return it.Pool == pool.Pool && (pool.Unsupported != "" || isOutside(it))
	})
	reservations := lists.Filter(j.Reservations, func(it *judge.Item) bool {
		return len(it.Related()) == 0 && slices.Contains(it.PoolNames(), pool.NamespacedName) && isOutside(it)
	})
	return &PoolNewRange{Range: n.text, Exclude: lists.Clone(n.exclude), Usable: Count{ippool.Size(n.usable)},
		OtherPool: pool.Range.Prefix() != n.prefix, Outside: lists.Map(outside, p.Row),
		OutsideReservations: lists.Map(reservations, p.reservation),
		OutsideUnrecorded:   lists.Map(unrecordedOutside(j, pool.Ref(), n.usable), NewFinding), Unknown: unknownOutside(j),
		Items: lists.Map(slices.Concat(outside, reservations), p.Row)}
}

// unrecordedOutside returns the findings on addresses that are carried and not recorded in a pool, and that a range
// does not assign. A finding that the judgement counts and does not list has its address alone.
func unrecordedOutside(j *findings.Assessment, pool string, usable *netipx.IPSet) []findings.Finding {
	carriers := map[string][]findings.Finding{} // by address
	for _, f := range j.Findings {
		if f.Kind == findings.Unrecorded && f.Pool == pool && !f.IsRest() {
			carriers[f.IP] = append(carriers[f.IP], f)
		}
	}
	found := []findings.Finding{}
	addresses := slices.Clone(j.Unrecorded()[pool])
	slices.SortFunc(addresses, netip.Addr.Compare)
	for _, a := range slices.Compact(addresses) {
		listed := carriers[a.String()]
		if len(listed) == 0 {
			listed = []findings.Finding{{Kind: findings.Unrecorded, IP: a.String(), Pool: pool,
				Message: fmt.Sprintf("%s is carried, but pool %s has no allocation for it", a, pool)}}
		}
		if !usable.Contains(a) {
			found = append(found, listed...)
		}
	}
	return found
}

// unknownOutside returns a sentence for each thing because of which more may be outside than was found.
func unknownOutside(j *findings.Assessment) []string {
	unknown := []string{}
	for _, s := range j.Observation.UnknownSources() {
		if s.Name == facts.SourceReservations {
			unknown = append(unknown, fmt.Sprintf("%s cannot be read (%s), so reservations are not listed", s.Name, s.Unknown))
		}
		if slices.Contains(findings.KindsOf(s.Name), findings.Unrecorded) {
			unknown = append(unknown, fmt.Sprintf("%s cannot be read (%s), so addresses that are carried without an "+
				"allocation may be missing", s.Name, s.Unknown))
		}
	}
	for _, f := range j.Findings {
		isOfDefinition := f.Kind == findings.MalformedFinding && f.Pool == "" && f.IP == ""
		if isOfDefinition || f.Kind == findings.UnreadSandbox || f.IsRest() && f.Kind == findings.MalformedFinding {
			unknown = append(unknown, f.Message)
		}
	}
	if nodes := NewAgents(j).NoFreshReport; len(nodes) > 0 && !j.WithoutAgents {
		unknown = append(unknown, "these nodes have no fresh SandboxReport, so their sandboxes may carry more: "+
			facts.AtMost(nodes, 5))
	}
	return unknown
}
