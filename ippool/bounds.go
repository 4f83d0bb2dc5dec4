package ippool

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"strings"

	netutils "k8s.io/utils/net"
)

// Bounds are what a definition says of a range beside its prefix. The zero value says
// nothing.
type Bounds struct {
	Start, End netip.Addr     // range_start and range_end, or what stands before the "-" and the "/" of the range; zero for none
	Exclude    []netip.Prefix // single addresses as /32 or /128
}

func (b Bounds) empty() bool { return !b.Start.IsValid() && !b.End.IsValid() && len(b.Exclude) == 0 }

// configuredRange is a range of an ipam section with its bounds, as it is written.
type configuredRange struct {
	Range   string   `json:"range"`
	Start   net.IP   `json:"range_start"`
	End     net.IP   `json:"range_end"`
	Exclude []string `json:"exclude"`
}

// readBounds reads the bounds of an ipam section's ranges, in the order of readIPAM (whereabouts
// v0.9.4, pkg/config/config.go, LoadIPAMConfig; pkg/types/types.go, UnmarshalJSON; pkg/allocate/allocate.go,
// parseExcludedRange). An error is why whereabouts refuses every ADD.
func readBounds(raw json.RawMessage) ([]Bounds, error) {
	var ipam struct {
		Range   string            `json:"range"`
		Start   string            `json:"range_start"`
		End     string            `json:"range_end"`
		Exclude []string          `json:"exclude"`
		Ranges  []configuredRange `json:"ipRanges"`
	}
	if err := json.Unmarshal(raw, &ipam); err != nil {
		return nil, fmt.Errorf("ipam section: %w", err)
	}
	ranges := ipam.Ranges
	if ipam.Range != "" {
		// Beside range, and only there, what is no address counts as not there.
		ranges = append([]configuredRange{{Range: ipam.Range, Start: netutils.ParseIPSloppy(ipam.Start), End: netutils.ParseIPSloppy(ipam.End), Exclude: ipam.Exclude}}, ranges...)
	}
	var all []Bounds
	some := false
	for _, r := range ranges {
		b, err := r.bounds()
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

func (r configuredRange) bounds() (Bounds, error) {
	if first, cidr, ok := strings.Cut(r.Range, "-"); ok {
		// These take the place of range_start and range_end.
		last, network, err := netutils.ParseCIDRSloppy(cidr)
		if err != nil {
			return Bounds{}, fmt.Errorf("range %q: %w", r.Range, err)
		}
		r.Start, r.End = netutils.ParseIPSloppy(first), last
		if r.Start == nil || !network.Contains(r.Start) {
			return Bounds{}, fmt.Errorf("range %q: %q is no address of %s", r.Range, first, network)
		}
	}
	b := Bounds{Start: addrOf(r.Start), End: addrOf(r.End)}
	for _, text := range r.Exclude {
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
