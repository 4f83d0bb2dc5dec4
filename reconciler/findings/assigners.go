package findings

import (
	"fmt"
	"slices"

	"go4.org/netipx"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

// assigners are the whereabouts sections of the readable definitions, by the ranges from which they assign. The cost of
// a lookup does not grow with the number of definitions that assign alike, which tenants write.
type assigners struct {
	at      map[facts.DefinedRange]map[string]*assigner // by what they assign, as text
	lengths []int                                       // of those ranges
	pools   map[*facts.Pool]assignment                  // cache of from
	// hasUnread: the network of a definition is unknown, so the definition may assign from any pool.
	hasUnread bool
}

// assigner is a section that assigns from a range, with the names of all definitions that assign alike.
type assigner struct {
	ippool.Network
	definitions []string
}

// assignment is what the definitions of today together assign from a pool.
type assignment struct {
	usable      *netipx.IPSet
	definitions []string // sorted
	isRefused   bool     // whereabouts refuses one of them: what it is meant to assign is unknown
}

func (x *finder) assigners() *assigners {
	a := &assigners{at: map[facts.DefinedRange]map[string]*assigner{}, pools: map[*facts.Pool]assignment{}}
	for name, nad := range x.Base().NADs.Or(nil) {
		if nad == nil || nad.Problem != "" {
			a.hasUnread = true
			continue
		}
		for _, n := range nad.Networks {
			a.add(name.String(), n)
		}
	}
	a.lengths = facts.SortedUnique(a.lengths)
	return a
}

func (a *assigners) add(definition string, n ippool.Network) {
	ranges, alike := n.Ranges, fmt.Sprint(n.Refused != "", n.Ranges, n.Bounds)
	if n.Slices { // they are cut from the first range, and no bounds count in them
		ranges = ranges[:min(len(ranges), 1)]
		alike = fmt.Sprint(n.Refused != "", n.SliceBits)
	}
	for _, r := range ranges {
		at := facts.DefinedRange{Network: n.Name, Prefix: r}
		if a.at[at] == nil {
			a.at[at], a.lengths = map[string]*assigner{}, append(a.lengths, r.Bits())
		}
		if a.at[at][alike] == nil {
			a.at[at][alike] = &assigner{Network: n}
		}
		a.at[at][alike].definitions = append(a.at[at][alike].definitions, definition)
	}
}

// from is what the definitions of today assign from a pool.
func (a *assigners) from(p *facts.Pool) assignment {
	if known, isKnown := a.pools[p]; isKnown {
		return known
	}
	var found assignment
	var usable netipx.IPSetBuilder
	own := p.Range.Prefix()
	for _, bits := range a.lengths {
		around, err := own.Addr().Prefix(bits)
		if err != nil || bits > own.Bits() {
			continue
		}
		for i := range p.Name { // a pool's name begins with its network
			if i > 0 && p.Name[i] != '-' {
				continue
			}
			for _, n := range a.at[facts.DefinedRange{Network: p.Name[:i], Prefix: around}] {
				if _, ok := n.Assigns(p.Pool); ok {
					usable.AddSet(n.Usable(p.Pool))
					found.isRefused = found.isRefused || n.Refused != ""
					found.definitions = append(found.definitions, n.definitions...)
				}
			}
		}
	}
	found.usable, _ = usable.IPSet() // of valid sets, which give no error
	slices.Sort(found.definitions)
	found.definitions = slices.Compact(found.definitions)
	a.pools[p] = found
	return found
}
