package ippool

import (
	"fmt"
	"net/netip"
	"slices"
)

// MayAssign reports whether an ADD by this definition can assign an address from an unused pool, see Usable. A range
// that is cut into slices assigns all of its addresses but the first and the last one of each slice, where the size of
// the slices can be read.
func (n Network) MayAssign(addr netip.Addr) bool { return n.WhyNot(addr) == "" }

// WhyNot says why no ADD by this definition assigns an address, "" if one may.
func (n Network) WhyNot(addr netip.Addr) string {
	ranges := n.Ranges
	if n.Slices {
		ranges = ranges[:min(len(ranges), 1)]
	}
	for i, r := range ranges {
		if !r.Contains(addr) || slices.Index(ranges, r) != i { // of equal ranges only the first counts
			continue
		}
		if n.Slices && n.SliceBits == 0 {
			return ""
		}
		var b Bounds
		if !n.Slices && i < len(n.Bounds) {
			b = n.Bounds[i]
		} else if n.Slices {
			r, _ = addr.Prefix(max(n.SliceBits, r.Bits()))
		}
		return b.whyNot(r, addr)
	}
	return "none of its ranges has the address"
}

// whyNot says why no ADD assigns an address of a range, "" if one may.
func (b Bounds) whyNot(prefix netip.Prefix, addr netip.Addr) string {
	span, ok := b.span(prefix)
	if !ok {
		return fmt.Sprintf("no address is assigned from %s, which has two or fewer", prefix)
	}
	for _, e := range b.Exclude {
		if e.Contains(addr) {
			return "it excludes " + e.String()
		}
	}
	if !span.Contains(addr) {
		return fmt.Sprintf("it assigns %s to %s of %s", span.From(), span.To(), prefix)
	}
	return ""
}

// ParseConfig returns the whereabouts sections of a CNI configuration, as spec.config of a NetworkAttachmentDefinition.
func ParseConfig(config string) ([]Network, error) { return readConfig(config) }
