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

// Range is the spec.range of an IPPool: the network and the address that the
// keys of its allocations count from. That base is the address as written, not
// masked: in 10.10.10.5/16 the key "1" is 10.10.10.6
// (whereabouts v0.9.4, pkg/storage/kubernetes/ipam.go, toIPReservationList).
type Range struct {
	base   netip.Addr
	prefix netip.Prefix
}

// ParseRange reads a spec.range. The error says what is wrong with the text:
// it must be an address and a prefix length, as net.ParseCIDR takes it.
func ParseRange(text string) (Range, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return Range{}, fmt.Errorf("range %s is not an address with a prefix length (as in 10.0.0.0/24)", quoted(text))
	}
	addr, bits := p.Addr(), p.Bits()
	if addr.Is4In6() {
		if bits < 96 {
			return Range{}, fmt.Errorf("range %q is neither of IPv4 nor of IPv6", text)
		}
		addr, bits = addr.Unmap(), bits-96
	}
	return Range{base: addr, prefix: netip.PrefixFrom(addr, bits).Masked()}, nil
}

// quoted is a text for messages. Every entry of a pool says what is wrong with the pool's
// range, which may be as long as the pool.
func quoted(text string) string {
	const most = 80
	if len(text) > most {
		return fmt.Sprintf("%.80q…", text)
	}
	return strconv.Quote(text)
}

// Prefix is the range as a network, host bits cleared.
func (r Range) Prefix() netip.Prefix { return r.prefix }

// Contains reports whether an address lies in the range. It compares addresses,
// so a v4-mapped one counts as v4.
func (r Range) Contains(a netip.Addr) bool { return r.prefix.Contains(a.Unmap().WithZone("")) }

// Wide reports whether several addresses of the range share a key: whereabouts
// stores offsets modulo 2^64, and an IPv6 range wider than /64 has more
// addresses than that.
func (r Range) Wide() bool { return r.base.Is6() && r.prefix.Bits() < 64 }

// AmbiguousKeys reports whether an address of the range may be stored under a key
// that reads back as another address: in a Wide range, and in one whose base
// is not its first address (see Keys).
func (r Range) AmbiguousKeys() bool { return r.Wide() || r.base != r.prefix.Addr() }

// ParseKey reads an allocation key as whereabouts does: decimal, leading zeros
// and a sign allowed, as int64 (negative ones in two's complement) or uint64.
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

// Address is the address that whereabouts reads from a key: base plus offset.
// It returns an error where that is no address of the range.
func (r Range) Address(key uint64) (netip.Addr, error) {
	a := addrOf(iphelpers.IPAddOffset(r.base.AsSlice(), key))
	if !r.prefix.Contains(a) {
		return netip.Addr{}, errKeyOutside
	}
	return a, nil
}

// Key is the offset of an address of the range from its base, modulo 2^64: the
// key under which the address is read back, and written where the base is the
// range's first address.
func (r Range) Key(a netip.Addr) (uint64, bool) {
	a = a.Unmap().WithZone("")
	if !r.prefix.Contains(a) {
		return 0, false
	}
	return low64(a) - low64(r.base), true
}

// Keys are all keys under which whereabouts may have stored an address of the
// range; none for an address outside it. Besides Key that is what its own
// arithmetic makes of a base inside the range: it stores the distance without
// its sign, and on a borrow subtracts both bytes from 256. Knowing that keeps
// the address of a running pod from looking like nobody's.
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

// HasKey reports whether whereabouts may have stored address a under key.
func (r Range) HasKey(a netip.Addr, key uint64) bool { return slices.Contains(r.Keys(a), key) }

func low64(a netip.Addr) uint64 {
	if a.Is4() {
		return uint64(binary.BigEndian.Uint32(a.AsSlice()))
	}
	b := a.As16()
	return binary.BigEndian.Uint64(b[8:])
}
