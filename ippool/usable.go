package ippool

import (
	"math/big"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"
)

// Assigns reports whether an ADD by this definition uses the pool: the pool has the name that whereabouts gives it
// (v0.9.4, pkg/storage/kubernetes/ipam.go, IPPoolName). node is whose slice the pool is, "" without node_slice_size.
// Two definitions with slices and one name assign alike.
func (n Network) Assigns(p *Pool) (node string, ok bool) {
	if p.Problem != "" || len(n.Ranges) == 0 {
		return "", false
	}
	prefix := p.Range.Prefix()
	if n.Slices {
		// The slices are cut from the first range (pkg/node-controller/controller.go).
		whole := n.Ranges[0]
		if !whole.Contains(prefix.Addr()) || whole.Bits() > prefix.Bits() ||
			n.SliceBits != 0 && n.SliceBits != prefix.Bits() {
			return "", false
		}
		return n.SliceOf(p)
	}
	if !slices.Contains(n.Ranges, prefix) {
		return "", false
	}
	head, ok := p.namePrefix()
	return "", ok && head == n.Name && strings.HasSuffix(p.Name, normalizeRange(prefix.String()))
}

// Usable are the addresses that whereabouts assigns from an unused pool by this definition, for which Assigns is true
// (v0.9.4, pkg/allocate/allocate.go, IterateForAssignment; pkg/iphelpers/iphelpers.go, GetIPRange):
//   - never the first and the last address, and none of a range with two or fewer
//   - from range_start to range_end, if these are among the others, and without what is excluded
//   - of equal ranges only the first counts: an ADD finds its own entry for the others
//   - in a slice no bounds count (pkg/storage/kubernetes/ipam.go, IPManagementKubernetesUpdate)
func (n Network) Usable(p *Pool) *netipx.IPSet {
	return n.boundsOf(p).usable(p.Range.Prefix())
}

func (n Network) boundsOf(p *Pool) Bounds {
	if i := slices.Index(n.Ranges, p.Range.Prefix()); !n.Slices && i >= 0 && i < len(n.Bounds) {
		return n.Bounds[i]
	}
	return Bounds{}
}

func (b Bounds) usable(prefix netip.Prefix) *netipx.IPSet {
	var set netipx.IPSetBuilder
	if r, ok := b.span(prefix); ok {
		set.AddRange(r)
	}
	for _, e := range b.Exclude {
		set.RemovePrefix(e)
	}
	s, _ := set.IPSet() // valid ranges give no error
	return s
}

// span are the first and the last usable address of a range.
func (b Bounds) span(prefix netip.Prefix) (netipx.IPRange, bool) {
	if prefix.Addr().BitLen()-prefix.Bits() <= 1 {
		return netipx.IPRange{}, false
	}
	all := netipx.RangeOfPrefix(prefix)
	first, last := all.From().Next(), all.To().Prev()
	if netipx.IPRangeFrom(first, last).Contains(b.Start) {
		first = b.Start
	}
	if netipx.IPRangeFrom(first, last).Contains(b.End) {
		last = b.End
	}
	return netipx.IPRangeFrom(first, last), true
}

// Size is the number of addresses in a set.
func Size(set *netipx.IPSet) *big.Int {
	n := new(big.Int)
	for _, r := range set.Ranges() {
		n.Add(n, big.NewInt(1))
		n.Add(n, number(r.To()))
		n.Sub(n, number(r.From()))
	}
	return n
}

func number(a netip.Addr) *big.Int { return new(big.Int).SetBytes(a.AsSlice()) }

// UsableIn are the addresses that whereabouts assigns from an unused range. The range and what it excludes are as in a
// definition, for example "10.0.0.0/24" or "10.0.0.5-10.0.0.20/24".
func UsableIn(text string, exclude []string) (prefix netip.Prefix, usable *netipx.IPSet, err error) {
	if prefix, err = ParseConfiguredRange(text); err != nil {
		return prefix, nil, err
	}
	r := ipamRange{Range: text}
	for _, e := range exclude {
		r.Exclude = append(r.Exclude, e)
	}
	bounds, err := r.bounds(false)
	return prefix, bounds.usable(prefix), err
}
