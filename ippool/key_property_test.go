package ippool_test

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"testing"

	"github.com/k8snetworkplumbingwg/whereabouts/pkg/iphelpers"
	"pgregory.net/rapid"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// The one property that keeps the address of a running pod from looking like
// unused: whatever key whereabouts writes for it, ours knows.
func TestTheKeyThatWhereaboutsWritesIsAlwaysAmongTheKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rangeGen().Draw(t, "range")
		a := insideGen(p).Draw(t, "address")
		base, _ := parseCIDR(t, p.String())
		written, err := iphelpers.IPGetOffset(netIP(a), base)
		if err != nil {
			t.Fatalf("whereabouts: %v", err)
		}
		key, err := ippool.ParseKey(fmt.Sprintf("%d", written))
		if err != nil {
			t.Fatalf("the key that whereabouts writes cannot be read: %v", err)
		}
		r := parseRange(t, p.String())
		if !r.HasKey(a, key) || !slices.Contains(r.Keys(a), key) {
			t.Fatalf("%v in %v: whereabouts writes %d, known are %v", a, p, key, r.Keys(a))
		}
	})
}

func TestInAMaskedRangeUpTo64WideKeyAndAddressUndoEachOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rangeGen().Draw(t, "range").Masked()
		if p.Addr().Is6() && p.Bits() < 64 {
			t.Skip("wider than /64")
		}
		a := insideGen(p).Draw(t, "address")
		r := parseRange(t, p.String())
		key, ok := r.Key(a)
		if !ok {
			t.Fatalf("%v is in %v and has no key", a, p)
		}
		if got, err := r.Address(key); err != nil || got != a {
			t.Fatalf("key %d of %v is %v, %v; want %v", key, p, got, err, a)
		}
		if keys := r.Keys(a); len(keys) != 1 || r.AmbiguousKeys() {
			t.Fatalf("%v has the keys %v; here there is one", a, keys)
		}
		base, _ := parseCIDR(t, p.String())
		if read := iphelpers.IPAddOffset(base, key); addrOf(read) != a {
			t.Fatalf("whereabouts reads key %d of %v as %v; want %v", key, p, read, a)
		}
	})
}

// keyGen draws keys near and far: inside small ranges, at the signs' borders, anywhere.
func keyGen() *rapid.Generator[uint64] {
	return rapid.OneOf(
		rapid.Uint64Range(0, 300),
		rapid.Uint64(),
		rapid.Uint64Range(math.MaxUint64-300, math.MaxUint64),
		rapid.Uint64Range(math.MaxUint32-300, math.MaxUint32+300),
		rapid.SampledFrom([]uint64{math.MaxInt64, math.MaxInt64 + 1, math.MaxUint32, 1 << 32}),
	)
}

func TestAnyKeyReadsAsWhereaboutsReadsItOrIsOutsideTheRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.OneOf(rangeGen(), rapid.SampledFrom([]netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"),
			netip.MustParsePrefix("::/0"),
			netip.MustParsePrefix("255.255.255.0/24"), netip.MustParsePrefix("ffff:ffff:ffff:ffff::5/64"),
			netip.MustParsePrefix("::ffff:10.0.0.0/120")})).Draw(t, "range")
		key := keyGen().Draw(t, "key")
		base, network := parseCIDR(t, p.String())
		read := iphelpers.IPAddOffset(base, key) // nil for what can be no IPv4 address
		inside := read != nil && network.Contains(read)
		r := parseRange(t, p.String())
		got, err := r.Address(key)
		if (err == nil) != inside {
			t.Fatalf("key %d of %v: whereabouts reads %v (in the range: %v), we read %v, %v", key, p, read, inside, got, err)
		}
		if inside && (!r.HasKey(got, key) || !r.Contains(got)) {
			t.Fatalf("key %d of %v is %v, which has the keys %v", key, p, got, r.Keys(got))
		}
		if inside && got != addrOf(read) {
			t.Fatalf("key %d of %v: whereabouts reads %v, we read %v", key, p, read, got)
		}
	})
}
