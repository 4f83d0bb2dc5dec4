package ippool_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/k8snetworkplumbingwg/whereabouts/pkg/iphelpers"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/storage/kubernetes"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// FuzzAKeyIsReadAsWhereaboutsReadsIt: ranges and keys as they are stored. Two keys that are
// read as different numbers are never one address.
func FuzzAKeyIsReadAsWhereaboutsReadsIt(f *testing.F) {
	for _, r := range []string{"10.0.0.0/24", "10.0.0.5/24", "fd00::/64", "fd00::5/64", "fd00::/32", "::/0", "0.0.0.0/0", "255.255.255.255/32", "::ffff:10.0.0.0/120", "::ffff:0:0/90", "fe80::%eth0/64", "10.0.0.00/24", "x"} {
		f.Add(r, "5", "6")
		f.Add(r, "-1", "18446744073709551615")
		f.Add(r, "009", "+9")
	}
	f.Add("193::/24", "9223372036854775808", "-9223372036854775808")
	f.Fuzz(func(t *testing.T, text, one, two string) {
		r, err := ippool.ParseRange(text)
		base, network, cidrErr := net.ParseCIDR(text)
		if err != nil {
			return
		}
		if cidrErr != nil || r.Prefix() != netip.PrefixFrom(addrOf(network.IP), r.Prefix().Bits()) {
			t.Fatalf("%q: %s; net has %v, %v", text, r.Prefix(), network, cidrErr)
		}
		var keys [2]uint64
		var addresses [2]netip.Addr
		for i, key := range []string{one, two} {
			if keys[i], err = ippool.ParseKey(key); err != nil {
				return
			}
			read := iphelpers.IPAddOffset(base, keys[i])
			inside := read != nil && network.Contains(read)
			if addresses[i], err = r.Address(keys[i]); (err == nil) != inside || inside && addresses[i] != addrOf(read) {
				t.Fatalf("key %q of %s: %v, %v; whereabouts reads %v", key, text, addresses[i], err, read)
			}
			if inside && !r.HasKey(addresses[i], keys[i]) {
				t.Fatalf("%s of %s has the keys %v, and was read from %d", addresses[i], text, r.Keys(addresses[i]), keys[i])
			}
		}
		if keys[0] != keys[1] && addresses[0].IsValid() && addresses[0] == addresses[1] {
			t.Fatalf("keys %d and %d of %s are both %s", keys[0], keys[1], text, addresses[0])
		}
	})
}

// FuzzAReservationsNameIsOfOneAddressAlone: a name is accepted only where whereabouts gives it
// to the address, and two addresses of a network never have one name.
func FuzzAReservationsNameIsOfOneAddressAlone(f *testing.F) {
	for _, network := range []string{"", "red", "10.0.0.0", "fd00-", "a.b", "--"} {
		f.Add(network, []byte{10, 0, 0, 5}, []byte{10, 0, 0, 6}, "red-10.0.0.5")
		f.Add(network, netip.MustParseAddr("fd00::").AsSlice(), netip.MustParseAddr("::ffff:10.0.0.5").AsSlice(), network+"-fd00--0")
		f.Add(network, netip.MustParseAddr("::").AsSlice(), netip.MustParseAddr("1::").AsSlice(), "fd00--0005")
	}
	f.Add("", []byte{1, 2, 3, 4}, []byte{1}, "fe80--1%eth0")
	f.Fuzz(func(t *testing.T, network string, one, two []byte, name string) {
		if a, ok := ippool.ReservedAddress(name, network); ok && kubernetes.NormalizeIP(netIP(a), network) != name {
			t.Fatalf("%q in %q is accepted as %s, which whereabouts names %q", name, network, a, kubernetes.NormalizeIP(netIP(a), network))
		}
		a, aOK := netip.AddrFromSlice(one)
		b, bOK := netip.AddrFromSlice(two)
		if !aOK || !bOK {
			return
		}
		named := ippool.ReservationName(network, a)
		if want := kubernetes.NormalizeIP(netIP(a), network); named != want {
			t.Fatalf("%s in %q: %q; whereabouts says %q", a, network, named, want)
		}
		if back, ok := ippool.ReservedAddress(named, network); !ok || back != a.Unmap() {
			t.Fatalf("%q in %q reads back as %s, %v; want %s", named, network, back, ok, a)
		}
		if a.Unmap() != b.Unmap() && named == ippool.ReservationName(network, b) {
			t.Fatalf("%s and %s in %q are both named %q", a, b, network, named)
		}
	})
}

// FuzzAPodRefIsReadAndWrittenBack: no two owners have one podref.
func FuzzAPodRefIsReadAndWrittenBack(f *testing.F) {
	for _, text := range []string{"default/web-0", "default/web-0_1b4e28ba-2fa1-11d2-883f-0016d3cca427", "a/b.c", "a/b/c", "/", "a/_", "A/b", "a/b_", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ref, err := ippool.ParsePodRef(text)
		if err == nil && ref.String() != text {
			t.Fatalf("%q is read as %+v", text, ref)
		}
		if err != nil && len(err.Error()) > 4*len(text)+200 {
			t.Fatalf("%d bytes of %d say what is wrong", len(err.Error()), len(text))
		}
	})
}
