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

func TestAKeyIsReadAsWhereaboutsReadsIt(t *testing.T) {
	for _, c := range []struct {
		key  string
		want uint64
	}{
		{"0", 0},
		{"5", 5},
		{"007", 7},
		{"+5", 5},
		{"9223372036854775807", math.MaxInt64},
		{"9223372036854775808", 1 << 63}, // the first that whereabouts writes and cannot read
		{"18446463705355360228", 18446463705355360228},
		{"18446744073709551615", math.MaxUint64},
		{"-1", math.MaxUint64}, // two's complement, as uint64(int64) makes it
		{"-9223372036854775808", 1 << 63},
	} {
		got, err := ippool.ParseKey(c.key)
		if err != nil || got != c.want {
			t.Errorf("ParseKey(%q) = %d, %v; want %d", c.key, got, err, c.want)
		}
	}
}

func TestAKeyThatIsNoNumberIsAnError(t *testing.T) {
	for _, key := range []string{"", "-", "abc", "1.5", "0x10", " 1", "1 ", "1_0", "1e3", "18446744073709551616",
		"-9223372036854775809", "10.0.0.5", "١"} {
		if n, err := ippool.ParseKey(key); err == nil {
			t.Errorf("ParseKey(%q) = %d; want an error", key, n)
		}
	}
}

// A14: in 193::/24 whereabouts gives out 193:21:4::2, stores it under "2" and
// reads that back as 193::2. The pod that carries the one must be found when
// the allocation says the other.
func TestA14ARangeWiderThan64KnowsAllAddressesOfAKey(t *testing.T) {
	r := parseRange(t, "193::/24")
	given, readBack := netip.MustParseAddr("193:21:4::2"), netip.MustParseAddr("193::2")
	base, _ := parseCIDR(t, "193::/24")
	written, err := iphelpers.IPGetOffset(netIP(given), base)
	if err != nil || written != 2 {
		t.Fatalf("whereabouts writes key %d, %v; the case needs 2", written, err)
	}
	if got, err := r.Address(written); err != nil || got != readBack {
		t.Errorf("key 2 reads back as %v, %v; want %v", got, err, readBack)
	}
	if !r.HasKey(given, 2) || !r.HasKey(readBack, 2) {
		t.Errorf("key 2 must stand for %v and for %v", given, readBack)
	}
	if r.HasKey(netip.MustParseAddr("193:21:4::3"), 2) || r.HasKey(netip.MustParseAddr("194::2"), 2) {
		t.Error("key 2 stands for an address with another key, or of another range")
	}
	if !r.Wide() || !r.AmbiguousKeys() {
		t.Error("a /24 of IPv6 is wide, and its keys are ambiguous")
	}
}

func TestAnAddressOutsideTheRangeHasNoKey(t *testing.T) {
	for rangeText, address := range map[string]string{
		"10.0.0.0/24": "10.0.1.0",
		"10.0.0.5/24": "10.0.1.1",
		"fd00::/64":   "fd00:0:0:1::1",
		"10.0.0.0/8":  "fd00::1",
		"fd00::/8":    "10.0.0.1",
	} {
		r, a := parseRange(t, rangeText), netip.MustParseAddr(address)
		if k, ok := r.Key(a); ok || len(r.Keys(a)) > 0 || r.Contains(a) || r.HasKey(a, 1) {
			t.Errorf("%s in %s: key %d, keys %v, contained %v", address, rangeText, k, r.Keys(a), r.Contains(a))
		}
	}
}

// net.ParseCIDR, with which whereabouts reads a pool, takes ::ffff:10.0.0.0/64 and counts from 10.0.0.0.
func TestARangeThatIsNoAddressWithAPrefixLengthIsAnError(t *testing.T) {
	for _, text := range []string{"", "::ffff:10.0.0.0/64", "10.0.0.0", "10.0.0.0/33", "fd00::/129", "10.0.0/24",
		"fd00::%eth0/64", "10.0.0.0/-1", " 10.0.0.0/24", "nonsense", "/24", "10.0.0.0/24/24"} {
		if r, err := ippool.ParseRange(text); err == nil {
			t.Errorf("ParseRange(%q) = %v; want an error", text, r.Prefix())
		}
	}
}

func TestARangeIsWideBeyond64BitsAndAmbiguousFromAnInnerBase(t *testing.T) {
	for text, want := range map[string][2]bool{ // wide, ambiguous
		"fd00::/63": {true, true}, "193::/24": {true, true}, "fd00::/64": {}, "fd00::/65": {}, "10.0.0.0/8": {},
		"0.0.0.0/0":   {},
		"10.0.0.5/24": {false, true}, "fd00::5/64": {false, true}, "10.0.0.5/32": {},
	} {
		r := parseRange(t, text)
		equal(t, text, [2]bool{r.Wide(), r.AmbiguousKeys()}, want)
	}
}

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
