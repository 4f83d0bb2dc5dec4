package ippool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
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

// Wide reports whether addresses of the range share keys: whereabouts stores offsets modulo 2^64, and the range is
// wider than /64.
func (r Range) Wide() bool { return r.base.Is6() && r.prefix.Bits() < 64 }

// AmbiguousKeys reports whether whereabouts may store an address under the key of another: in a Wide range, and in one
// whose base is not its first address (see Keys).
func (r Range) AmbiguousKeys() bool { return r.Wide() || r.base != r.prefix.Addr() }

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

// Key is the key of an address of the range: its offset from the base, modulo 2^64.
func (r Range) Key(a netip.Addr) (uint64, bool) {
	a = a.Unmap().WithZone("")
	if !r.prefix.Contains(a) {
		return 0, false
	}
	return low64(a) - low64(r.base), true
}

// Keys are all keys under which whereabouts may have stored an address of the range, none for an address outside of it.
// For a base inside the range, whereabouts stores the distance without its sign, and mistakes a borrow. Without that
// key the address of a running pod would seem to be unused.
func (r Range) Keys(a netip.Addr) []uint64 {
	k, ok := r.Key(a)
	if !ok {
		return nil
	}
	if r.base != r.prefix.Addr() {
		if odd, err := iphelpers.IPGetOffset(a.Unmap().WithZone("").AsSlice(), r.base.AsSlice()); err == nil && odd != k {
			return []uint64{k, odd}
		}
	}
	return []uint64{k}
}

// HasKey reports whether whereabouts may have stored an address under a key.
func (r Range) HasKey(a netip.Addr, key uint64) bool { return slices.Contains(r.Keys(a), key) }

func low64(a netip.Addr) uint64 {
	if a.Is4() {
		return uint64(binary.BigEndian.Uint32(a.AsSlice()))
	}
	b := a.As16()
	return binary.BigEndian.Uint64(b[8:])
}
