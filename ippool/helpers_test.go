package ippool_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/k8snetworkplumbingwg/whereabouts/pkg/logging"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// whereabouts logs every step on stderr; a failing test should stand alone there.
func TestMain(m *testing.M) {
	logging.SetLogStderr(false)
	m.Run()
}

// tester is what *testing.T and *rapid.T have in common.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// object reads YAML the way that the API's JSON is read: whole numbers as
// int64, nothing typed, nothing dropped.
func object(t tester, text string) *unstructured.Unstructured {
	t.Helper()
	doc, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("test data: %v", err)
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(doc); err != nil {
		t.Fatalf("test data: %v", err)
	}
	return o
}

// stored is a pool with the object that it was read from.
type stored struct {
	*ippool.Pool
	Object *unstructured.Unstructured
}

func read(o *unstructured.Unstructured) stored { return stored{ippool.Read[ippool.Pool](o), o} }

// poolOf is a pool with this spec.range and these allocations.
func poolOf(rangeText string, entries map[string]any) stored {
	if entries == nil {
		entries = map[string]any{}
	}
	return read(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
		"kind":       "IPPool",
		"metadata":   map[string]any{"namespace": "kube-system", "name": "pool", "resourceVersion": "41", "uid": "pool-uid"},
		"spec":       map[string]any{"range": rangeText, "allocations": entries},
	}})
}

// entryMap is the allocation that a patch tests, as an object has it.
func entryMap(a ippool.Allocation) any {
	var m map[string]any
	if err := json.Unmarshal([]byte(jsonOf(a.Entry())), &m); err != nil {
		return err
	}
	return m
}

func entryOf(id, podRef string) map[string]any {
	return map[string]any{"id": id, "podref": podRef, "ifname": "net1"}
}

func parseRange(t tester, text string) ippool.Range {
	t.Helper()
	r, err := ippool.ParseRange(text)
	if err != nil {
		t.Fatalf("ParseRange(%q): %v", text, err)
	}
	return r
}

// parseCIDR is how whereabouts reads a spec.range: the base is the address as written.
func parseCIDR(t tester, text string) (net.IP, *net.IPNet) {
	t.Helper()
	base, n, err := net.ParseCIDR(text)
	if err != nil {
		t.Fatalf("net.ParseCIDR(%q): %v", text, err)
	}
	return base, n
}

func netIP(a netip.Addr) net.IP { return net.IP(a.AsSlice()) }

func addrOf(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}

// rangeGen draws a range of either family as a NAD or an operator may write it:
// of any width, with or without host bits.
func rangeGen() *rapid.Generator[netip.Prefix] {
	return rapid.Custom(func(t *rapid.T) netip.Prefix {
		base, width := addressGen(rapid.Bool().Draw(t, "v4")).Draw(t, "base"), 128
		if base.Is4() {
			width = 32
		}
		p := netip.PrefixFrom(base, rapid.IntRange(1, width).Draw(t, "bits"))
		if rapid.Bool().Draw(t, "masked") {
			p = p.Masked()
		}
		return p
	})
}

// addressGen draws any address of a family, with long runs of 00 and ff as
// often as not: carries and borrows happen there.
func addressGen(v4 bool) *rapid.Generator[netip.Addr] {
	n := 16
	if v4 {
		n = 4
	}
	octet := rapid.OneOf(rapid.Byte(), rapid.SampledFrom([]byte{0, 1, 0x7f, 0x80, 0xfe, 0xff}))
	return rapid.Map(rapid.SliceOfN(octet, n, n), func(b []byte) netip.Addr {
		if !v4 && b[0] == 0 { // 0000::/8 holds the v4-mapped addresses, which whereabouts takes for v4
			b[0] = 0xfd
		}
		a, _ := netip.AddrFromSlice(b)
		return a
	})
}

// insideGen draws an address of the range.
func insideGen(p netip.Prefix) *rapid.Generator[netip.Addr] {
	return rapid.Map(addressGen(p.Addr().Is4()), func(a netip.Addr) netip.Addr {
		host, network := a.AsSlice(), p.Masked().Addr().AsSlice()
		for i := range host {
			keep := byte(0xff) // network bits of this byte
			if left := p.Bits() - 8*i; left <= 0 {
				keep = 0
			} else if left < 8 {
				keep <<= 8 - left
			}
			host[i] = network[i]&keep | host[i]&^keep
		}
		out, _ := netip.AddrFromSlice(host)
		return out
	})
}

// jsonOf is the value as JSON, for comparing and for messages.
func jsonOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(err)
	}
	return string(text)
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// check ends the test with an error.
func check(t tester, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}
