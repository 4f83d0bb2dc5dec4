package ippool_test

import (
	"fmt"
	"math"
	"net/netip"
	"strings"
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

// A14: in 193::/24 whereabouts gives out 193:21:4::2, stores it under "2" and reads that back as 193::2.
func TestUnsupported_KeyOfTwoAddresses(t *testing.T) {
	for rangeText, addresses := range map[string][2]string{
		"193::/24":      {"193:21:4::2", "193::2"},
		"fd00::/63":     {"fd00:0:0:1::2", "fd00::2"},
		"10.0.0.5/24":   {"10.0.0.4", "10.0.0.6"},
		"10.0.1.128/22": {"10.0.1.127", "10.0.1.129"},
		"fd00::5/64":    {"fd00::4", "fd00::6"},
	} {
		base, _ := parseCIDR(t, rangeText)
		first, err := iphelpers.IPGetOffset(netIP(netip.MustParseAddr(addresses[0])), base)
		second, err2 := iphelpers.IPGetOffset(netIP(netip.MustParseAddr(addresses[1])), base)
		if err != nil || err2 != nil || first != second {
			t.Errorf("whereabouts writes the keys %d and %d, %v, %v; the case needs equal ones", first, second, err, err2)
		}
		if parseRange(t, rangeText).Unsupported() == "" {
			t.Errorf("%s counts as supported", rangeText)
		}
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
		if k, ok := r.Key(a); ok || r.Contains(a) {
			t.Errorf("%s in %s: key %d, contained %v", address, rangeText, k, r.Contains(a))
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

func TestUnsupported_SaysWhatToUse(t *testing.T) {
	for text, want := range map[string]string{
		"fd00::/64": "", "fd00::/65": "", "10.0.0.0/8": "", "0.0.0.0/0": "", "10.0.0.5/32": "", "::ffff:10.0.0.0/120": "",
		"::1:0:0:0/80": "", "fd00::5/128": "",
		"fd00::/63":            "for example fd00::/64",
		"193::/24":             "for example 193::/64",
		"193:1::5/24":          "for example 193::/64",
		"10.0.0.5/24":          "use the range 10.0.0.0/24",
		"::ffff:10.0.0.5/120":  "use the range 10.0.0.0/24",
		"::ffff:10.0.0.0/100":  "use the range 0.0.0.0/4",
		"fd00::5/64":           "use the range fd00::/64",
		"fd00:0:0:0:8000::/64": "use the range fd00::/64",
		"::/64":                "use another range",
		"::/80":                "use another range",
	} {
		got := parseRange(t, text).Unsupported()
		if (got == "") != (want == "") || !strings.HasSuffix(got, want) {
			t.Errorf("%s: %q; want %q at its end", text, got, want)
		}
	}
}

// The one property that keeps the address of a running pod from looking unused: in a supported range, the key that
// whereabouts writes for an address means this address and no other one.
func TestUnsupported_OtherRangesHaveOneAddressPerKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.OneOf(rangeGen(), rapid.SampledFrom([]netip.Prefix{netip.MustParsePrefix("::/64"),
			netip.MustParsePrefix("255.255.255.0/24")})).Draw(t, "range")
		r := parseRange(t, p.String())
		if r.Unsupported() != "" {
			isAtMost64Wide := p.Addr().Is4() || p.Bits() >= 64
			if isAtMost64Wide && p == p.Masked() && !p.Addr().IsUnspecified() {
				t.Fatalf("%v: %s", p, r.Unsupported())
			}
			t.Skip("unsupported")
		}
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
		if k, ok := r.Key(a); !ok || k != key {
			t.Fatalf("%v in %v: whereabouts writes %d, known is %d", a, p, key, k)
		}
		if read, err := r.Address(key); err != nil || read != a {
			t.Fatalf("key %d of %v is %v, %v; it was written for %v", key, p, read, err, a)
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
			netip.MustParsePrefix("::/0"), netip.MustParsePrefix("255.255.255.0/24"),
			netip.MustParsePrefix("ffff:ffff:ffff:ffff::5/64"), netip.MustParsePrefix("::ffff:10.0.0.0/120")})).Draw(t, "range")
		key := keyGen().Draw(t, "key")
		base, network := parseCIDR(t, p.String())
		read := iphelpers.IPAddOffset(base, key) // nil for what can be no IPv4 address
		inside := read != nil && network.Contains(read)
		r := parseRange(t, p.String())
		got, err := r.Address(key)
		if (err == nil) != inside {
			t.Fatalf("key %d of %v: whereabouts reads %v (in the range: %v), we read %v, %v", key, p, read, inside, got, err)
		}
		if inside && !r.Contains(got) {
			t.Fatalf("key %d of %v is %v, which is outside", key, p, got)
		}
		if inside && got != addrOf(read) {
			t.Fatalf("key %d of %v: whereabouts reads %v, we read %v", key, p, read, got)
		}
	})
}
