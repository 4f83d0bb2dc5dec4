package ippool

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/k8snetworkplumbingwg/whereabouts/pkg/types"
	netutils "k8s.io/utils/net"
)

// Bounds are what a definition says of a range beside its prefix. The zero value says
// nothing.
type Bounds struct {
	Start, End netip.Addr     // range_start and range_end, or what stands before the "-" and the "/" of the range; zero for none
	Exclude    []netip.Prefix // single addresses as /32 or /128
}

func (b Bounds) empty() bool { return !b.Start.IsValid() && !b.End.IsValid() && len(b.Exclude) == 0 }

// readBounds reads the bounds of an ipam section's ranges, in the order of readIPAM (whereabouts
// v0.9.4, pkg/config/config.go, LoadIPAMConfig; pkg/allocate/allocate.go,
// parseExcludedRange). An error is why whereabouts refuses every ADD.
func readBounds(raw json.RawMessage) ([]Bounds, error) {
	var ipam types.IPAMConfig
	if err := json.Unmarshal(raw, &ipam); err != nil {
		return nil, fmt.Errorf("ipam section: %w", err)
	}
	ranges := ipam.IPRanges
	if ipam.Range != "" {
		first := types.RangeConfiguration{Range: ipam.Range, RangeStart: ipam.RangeStart, RangeEnd: ipam.RangeEnd, OmitRanges: ipam.OmitRanges}
		ranges = append([]types.RangeConfiguration{first}, ranges...)
	}
	var all []Bounds
	some := false
	for _, r := range ranges {
		b, err := boundsOf(r)
		if err != nil {
			return nil, err
		}
		all, some = append(all, b), some || !b.empty()
	}
	if !some {
		return nil, nil
	}
	return all, nil
}

func boundsOf(r types.RangeConfiguration) (Bounds, error) {
	if first, cidr, ok := strings.Cut(r.Range, "-"); ok {
		// These take the place of range_start and range_end.
		last, network, err := netutils.ParseCIDRSloppy(cidr)
		if err != nil {
			return Bounds{}, fmt.Errorf("range %q: %w", r.Range, err)
		}
		r.RangeStart, r.RangeEnd = netutils.ParseIPSloppy(first), last
		if r.RangeStart == nil || !network.Contains(r.RangeStart) {
			return Bounds{}, fmt.Errorf("range %q: %q is no address of %s", r.Range, first, network)
		}
	}
	b := Bounds{Start: addrOf(r.RangeStart), End: addrOf(r.RangeEnd)}
	for _, text := range r.OmitRanges {
		p, err := parseExclude(text)
		if err != nil {
			return Bounds{}, err
		}
		b.Exclude = append(b.Exclude, p)
	}
	return b, nil
}

// parseExclude reads an address that is v4-mapped as whereabouts does, which takes it for a range of IPv6.
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
