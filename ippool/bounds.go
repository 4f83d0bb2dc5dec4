package ippool

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	netutils "k8s.io/utils/net"
)

// Bounds are the limits of a range in a definition beside its prefix. The zero value has none.
type Bounds struct {
	Start, End netip.Addr     // from range_start and range_end or the range; zero for none
	Exclude    []netip.Prefix // single addresses as /32 or /128
}

// bounds reads the bounds of a range (whereabouts v0.9.4, pkg/config/config.go, LoadIPAMConfig;
// pkg/allocate/allocate.go, parseExcludedRange; pkg/types/types.go, RangeConfiguration). An error is why whereabouts
// refuses every ADD. A start or end that cannot be read is one in ipRanges. Beside the type of the section it counts as
// none.
func (r ipamRange) bounds(isInList bool) (Bounds, error) {
	for _, text := range []string{r.Start, r.End} {
		if isInList && text != "" && net.ParseIP(text) == nil {
			return Bounds{}, fmt.Errorf("range_start or range_end %.80q of ipRanges is not an address", text)
		}
	}
	// The range has precedence over range_start and range_end.
	start, end := r.Start, r.End
	first, cidr, isSpan := strings.Cut(r.Range, "-")
	if isSpan {
		start = first
		end, _, _ = strings.Cut(cidr, "/")
	}
	b := Bounds{Start: addrOf(netutils.ParseIPSloppy(start)), End: addrOf(netutils.ParseIPSloppy(end))}
	if network, _ := ParseConfiguredRange(r.Range); isSpan && !network.Contains(b.Start) {
		return Bounds{}, fmt.Errorf("range %q: %q is not an address of %s", r.Range, first, network)
	}
	for _, text := range r.Exclude {
		p, err := parseExclude(fmt.Sprint(text))
		if err != nil {
			return Bounds{}, err
		}
		b.Exclude = append(b.Exclude, p)
	}
	return b, nil
}

// parseExclude parses an exclude of a definition. As in whereabouts, a v4-mapped address is a range of IPv6.
func parseExclude(text string) (netip.Prefix, error) {
	cidr := text
	if ip := net.ParseIP(text); ip != nil {
		cidr = fmt.Sprintf("%s/%d", text, addrOf(ip).BitLen())
	}
	_, network, err := net.ParseCIDR(cidr)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("exclude %q is neither a range nor an address", text)
	}
	ones, bits := network.Mask.Size()
	a := addrOf(network.IP)
	return netip.PrefixFrom(a, ones-(bits-a.BitLen())), nil
}

// addrOf is the zero Addr for nil.
func addrOf(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}
