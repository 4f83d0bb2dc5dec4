package ippool_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

func nadOf(config any) *ippool.NAD {
	spec := map[string]any{}
	if config != nil {
		spec["config"] = config
	}
	return ippool.Read[ippool.NAD](&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "k8s.cni.cncf.io/v1",
		"kind":       "NetworkAttachmentDefinition",
		"metadata":   map[string]any{"namespace": "default", "name": "macvlan"},
		"spec":       spec,
	}})
}

func prefixes(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

func sameNetwork(a, b ippool.Network) bool {
	return a.Name == b.Name && a.Overlapping == b.Overlapping && a.Slices == b.Slices && slices.Equal(a.Ranges, b.Ranges)
}

func TestANADSaysWhichRangesWhereaboutsUses(t *testing.T) {
	for _, c := range []struct {
		name, config string
		want         []ippool.Network
	}{
		{"a plain config", `{"type":"macvlan","ipam":{"type":"whereabouts","range":"10.0.0.0/24"}}`,
			[]ippool.Network{{Ranges: prefixes("10.0.0.0/24"), Overlapping: true}}},
		{"a plugin list", `{"name":"x","plugins":[{"type":"macvlan","ipam":{"type":"whereabouts","range":"10.0.0.0/24",` +
			`"network_name":"blue"}},{"type":"tuning"}]}`,
			[]ippool.Network{{Name: "blue", Ranges: prefixes("10.0.0.0/24"), Overlapping: true}}},
		{"whereabouts in the second plugin (C7)",
			`{"plugins":[{"type":"tuning"},{"type":"macvlan","ipam":{"type":"whereabouts","range":"10.0.0.0/24"}}]}`,
			[]ippool.Network{{Ranges: prefixes("10.0.0.0/24"), Overlapping: true}}},
		{"two plugins with whereabouts", `{"plugins":[{"ipam":{"type":"whereabouts","range":"10.0.0.0/24"}},{"ipam":{` +
			`"type":"whereabouts","range":"10.0.1.0/24","network_name":"blue"}}]}`,
			[]ippool.Network{{Ranges: prefixes("10.0.0.0/24"), Overlapping: true},
				{Name: "blue", Ranges: prefixes("10.0.1.0/24"), Overlapping: true}}},
		{"a range with host bits", `{"ipam":{"type":"whereabouts","range":"10.0.0.77/24"}}`,
			[]ippool.Network{{Ranges: prefixes("10.0.0.0/24"), Overlapping: true}}},
		{"ipRanges", `{"ipam":{"type":"whereabouts","ipRanges":[{"range":"10.0.0.0/24"},{"range":"fd00::/64"}]}}`,
			[]ippool.Network{{Ranges: prefixes("10.0.0.0/24", "fd00::/64"), Overlapping: true}}},
		{"range and ipRanges", `{"ipam":{"type":"whereabouts","range":"10.0.0.0/24","ipRanges":[{"range":"fd00::/64"}]}}`,
			[]ippool.Network{{Ranges: prefixes("10.0.0.0/24", "fd00::/64"), Overlapping: true}}},
		{"a range that begins with its first address", `{"ipam":{"type":"whereabouts","range":"10.0.0.10-10.0.0.200/24"}}`,
			[]ippool.Network{{Ranges: prefixes("10.0.0.0/24"), Overlapping: true}}},
		{"the same in IPv6, among ipRanges", `{"ipam":{"type":"whereabouts","ipRanges":[{"range":"fd00::10-fd00::ff/64"}]}}`,
			[]ippool.Network{{Ranges: prefixes("fd00::/64"), Overlapping: true}}},
		{"overlapping ranges off", `{"ipam":{"type":"whereabouts","range":"10.0.0.0/24","enable_overlapping_ranges":false}}`,
			[]ippool.Network{{Ranges: prefixes("10.0.0.0/24")}}},
		{"overlapping ranges on", `{"ipam":{"type":"whereabouts","range":"10.0.0.0/24","enable_overlapping_ranges":true}}`,
			[]ippool.Network{{Ranges: prefixes("10.0.0.0/24"), Overlapping: true}}},
		{"node slices", `{"ipam":{"type":"whereabouts","range":"10.0.0.0/16","node_slice_size":"/24"}}`,
			[]ippool.Network{{Ranges: prefixes("10.0.0.0/16"), Overlapping: true, Slices: true}}},
		{"fields that whereabouts does not know",
			`{"x":1,"ipam":{"type":"whereabouts","range":"10.0.0.0/24","later":{"a":[1]}}}`,
			[]ippool.Network{{Ranges: prefixes("10.0.0.0/24"), Overlapping: true}}},
		{"another IPAM", `{"type":"bridge","ipam":{"type":"host-local","subnet":"10.0.0.0/24"}}`, nil},
		{"an IPAM without a type", `{"type":"bridge","ipam":{}}`, nil},
		{"null for an IPAM", `{"type":"bridge","ipam":null}`, nil},
		{"no IPAM", `{"type":"bridge"}`, nil},
		{"an empty object (C7)", `{}`, nil},
		{"an empty plugin list (C7)", `{"plugins":[]}`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := nadOf(c.config)
			if n.Problem != "" || !slices.EqualFunc(n.Networks, c.want, sameNetwork) {
				t.Errorf("networks %+v, problem %q; want %+v", n.Networks, n.Problem, c.want)
			}
			equal(t, "namespace", n.Namespace, "default")
			equal(t, "name", n.Name, "macvlan")
		})
	}
}

func TestANADThatCannotBeReadSaysWhyAndNamesNoNetwork(t *testing.T) {
	for _, c := range []struct {
		name   string
		config any
		says   string
	}{
		{"no config", nil, "empty"},
		{"an empty config", "", "empty"},
		{"white space", " \n", "empty"},
		{"broken JSON", `{"ipam":`, "not JSON"},
		{"a list", `[]`, "not JSON"},
		{"a config that is no string", map[string]any{"ipam": "x"}, "config"},
		{"no range", `{"ipam":{"type":"whereabouts"}}`, "without a range"},
		{"an empty range", `{"ipam":{"type":"whereabouts","range":"","ipRanges":[]}}`, "without a range"},
		{"a range without a mask", `{"ipam":{"type":"whereabouts","range":"10.0.0.0"}}`, "10.0.0.0"},
		{"a good range and a bad one", `{"ipam":{"type":"whereabouts","range":"10.0.0.0/24","ipRanges":[{"range":"x"}]}}`,
			"x"},
		{"an IPAM that is no object", `{"ipam":"whereabouts"}`, "ipam"},
		{"a range that is no string", `{"ipam":{"type":"whereabouts","range":5}}`, "ipam"},
		{"a good plugin and a bad one", `{"plugins":[{"ipam":{"type":"whereabouts","range":"10.0.0.0/24"}},{"ipam":{` +
			`"type":"whereabouts","range":"x"}}]}`, "x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := nadOf(c.config)
			if !strings.Contains(n.Problem, c.says) || len(n.Networks) > 0 {
				t.Errorf("networks %+v, problem %q; want %q in it", n.Networks, n.Problem, c.says)
			}
		})
	}
}

func TestANetworkMapsToThePoolsThatWhereaboutsWouldUse(t *testing.T) {
	plain := ippool.Network{Name: "blue", Ranges: prefixes("10.0.0.0/16", "fd00::/64")}
	sliced := ippool.Network{Name: "blue", Ranges: prefixes("10.0.0.0/16"), Slices: true}
	for _, c := range []struct {
		name      string
		network   ippool.Network
		rangeText string
		names     []string
		want      bool
	}{
		{"the same range and name", plain, "10.0.0.0/16", []string{"blue"}, true},
		{"its second range", plain, "fd00::/64", []string{"blue"}, true},
		{"one of several names that fit", plain, "10.0.0.0/16", []string{"blue-node", "blue"}, true},
		{"a pool whose network is not known", plain, "10.0.0.0/16", nil, true},
		{"a pool with host bits in its range", plain, "10.0.7.7/16", []string{"blue"}, true},
		{"another name", plain, "10.0.0.0/16", []string{"red"}, false},
		{"no name", plain, "10.0.0.0/16", []string{""}, false},
		{"another range", plain, "10.1.0.0/16", []string{"blue"}, false},
		{"the same address, another width", plain, "10.0.0.0/24", []string{"blue"}, false},
		{"another range of an unknown network", plain, "10.1.0.0/16", nil, false},
		{"a slice of its range", sliced, "10.0.3.0/24", []string{"blue"}, true},
		{"the first slice, at the same address", sliced, "10.0.0.0/24", []string{"blue"}, true},
		{"the whole range of a network with slices", sliced, "10.0.0.0/16", []string{"blue"}, true},
		{"a slice of another range", sliced, "10.1.3.0/24", []string{"blue"}, false},
		{"a range around its own is no slice", sliced, "10.0.0.0/8", []string{"blue"}, false},
		{"a slice of another family", sliced, "fd00::/64", []string{"blue"}, false},
		{"a pool that cannot be read", sliced, "nonsense", []string{"blue"}, false},
		{"a network without ranges", ippool.Network{Name: "blue"}, "10.0.0.0/16", []string{"blue"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			equal(t, "maps", c.network.Maps(poolOf(c.rangeText, nil).Pool, c.names), c.want)
		})
	}
}
