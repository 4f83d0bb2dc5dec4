package ippool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"

	"github.com/k8snetworkplumbingwg/whereabouts/pkg/iphelpers"
)

// Range is the spec.range of an IPPool. Keys count from its base, the address as written: in 10.10.10.5/16 the key "1"
// is 10.10.10.6 (whereabouts v0.9.4, pkg/storage/kubernetes/ipam.go, toIPReservationList).
type Range struct {
	base   netip.Addr
	prefix netip.Prefix
}

// ParseRange parses a spec.range: an address and a prefix length, as net.ParseCIDR takes it. Every entry names the
// error, and a range may be as long as the object.
func ParseRange(text string) (Range, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return Range{}, fmt.Errorf("range %.80q is not an address with a prefix length (as in 10.0.0.0/24)", text)
	}
	addr, bits := p.Addr(), p.Bits()
	if addr.Is4In6() {
		if bits < 96 {
			return Range{}, fmt.Errorf("range %q is neither IPv4 nor IPv6", text)
		}
		addr, bits = addr.Unmap(), bits-96
	}
	return Range{base: addr, prefix: netip.PrefixFrom(addr, bits).Masked()}, nil
}

// Prefix is the range with host bits cleared.
func (r Range) Prefix() netip.Prefix { return r.prefix }

// Contains reports whether an address is in the range. A v4-mapped address counts as v4.
func (r Range) Contains(a netip.Addr) bool { return r.prefix.Contains(a.Unmap().WithZone("")) }

// mapped are the IPv4-mapped addresses of IPv6.
var mapped = netip.MustParsePrefix("::ffff:0:0/96")

// Unsupported is why a key of the range may mean several addresses, and which range to use instead. It is "" if each
// key means one address: then the range begins with its first address, and no offset needs more than 64 bits.
func (r Range) Unsupported() string {
	own, first := netip.PrefixFrom(r.base, r.prefix.Bits()), r.prefix.Addr()
	switch {
	case r.base.Is6() && r.prefix.Bits() < 64:
		return fmt.Sprintf("range %s is wider than /64, and whereabouts stores the addresses of all its /64 networks under "+
			"the same keys; use a range of /64 or narrower, for example %s", own, netip.PrefixFrom(first, 64))
	case r.base != first:
		return fmt.Sprintf("range %s begins with %s and not with its first address, and whereabouts may store two addresses "+
			"under one key; use the range %s", own, r.base, r.prefix)
	case r.base.Is6() && r.prefix.Overlaps(mapped):
		return fmt.Sprintf("range %s has IPv4-mapped addresses, which whereabouts may store under the key of its first "+
			"address; use another range", own)
	}
	return ""
}

// ParseKey parses a key as whereabouts does: decimal, with leading zeros and a sign, as int64 or uint64.
func ParseKey(key string) (uint64, error) {
	if n, err := strconv.ParseInt(key, 10, 64); err == nil {
		return uint64(n), nil
	}
	n, err := strconv.ParseUint(key, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("key %q is not a decimal offset", key)
	}
	return n, nil
}

var errKeyOutside = errors.New("no address of the range has this key")

// Address is the address of a key: base plus offset. It is an error outside of the range.
func (r Range) Address(key uint64) (netip.Addr, error) {
	a := addrOf(iphelpers.IPAddOffset(r.base.AsSlice(), key))
	if !r.prefix.Contains(a) {
		return netip.Addr{}, errKeyOutside
	}
	return a, nil
}

// Key is the key of an address of the range: its offset from the base, modulo 2^64. No other address of the range has
// it unless the range is Unsupported.
func (r Range) Key(a netip.Addr) (uint64, bool) {
	a = a.Unmap().WithZone("")
	if !r.prefix.Contains(a) {
		return 0, false
	}
	return low64(a) - low64(r.base), true
}

func low64(a netip.Addr) uint64 {
	if a.Is4() {
		return uint64(binary.BigEndian.Uint32(a.AsSlice()))
	}
	b := a.As16()
	return binary.BigEndian.Uint64(b[8:])
}
