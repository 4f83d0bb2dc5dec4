package ippool_test

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/k8snetworkplumbingwg/whereabouts/pkg/config"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

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
		{"the name of whereabouts as the network's",
			`{"name":"whereabouts","ipam":{"type":"whereabouts","range":"10.0.0.0/24"}}`,
			[]ippool.Network{{Ranges: prefixes("10.0.0.0/24"), Overlapping: true}}},
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
		{"a slice that no prefix has", `{"ipam":{"type":"whereabouts","range":"10.0.0.0/16","node_slice_size":"/999"}}`,
			[]ippool.Network{{Ranges: prefixes("10.0.0.0/16"), Overlapping: true, Slices: true}}},
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
		{"Multus with delegates", `{"type":"multus","delegates":[{"ipam":{"type":"whereabouts","range":"10.0.0.0/24"}}]}`,
			"outside of an ipam section"},
		{"Multus with a network's name", `{"plugins":[{"type":"multus-cni","clusterNetwork":"a/b"}]}`, "runs Multus"},
		{"a plugin that runs another", `{"type":"x","ipam":{"type":"whereabouts","range":"10.0.0.0/24"},` +
			`"delegate":{"ipam":{"type":"whereabouts","range":"10.0.1.0/24"}}}`, "outside of an ipam section"},
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

// ipamGen draws a whereabouts section as its documentation has them: range,
// ipRanges or both, with host bits, with the first address in front.
func ipamGen() *rapid.Generator[map[string]any] {
	text := rapid.Custom(func(t *rapid.T) string {
		p := rangeGen().Draw(t, "range")
		if !rapid.Bool().Draw(t, "with a first address") {
			return p.String()
		}
		return insideGen(p).Draw(t, "first").String() + "-" + p.String()
	})
	return rapid.Custom(func(t *rapid.T) map[string]any {
		// Without a kubeconfig whereabouts refuses the whole section.
		ipam := map[string]any{"type": "whereabouts", "kubernetes": map[string]any{"kubeconfig": "/etc/x"}}
		single := rapid.Bool().Draw(t, "single")
		if single {
			ipam["range"] = text.Draw(t, "range")
		}
		if several := rapid.SliceOfN(text, 0, 3).Draw(t, "ipRanges"); len(several) > 0 || !single {
			if len(several) == 0 {
				several = []string{text.Draw(t, "the only range")}
			}
			var list []any
			for _, r := range several {
				list = append(list, map[string]any{"range": r})
			}
			ipam["ipRanges"] = list
		}
		if network := networkGen().Draw(t, "network"); network != "" {
			ipam["network_name"] = network
		}
		if rapid.Bool().Draw(t, "says overlapping") {
			ipam["enable_overlapping_ranges"] = rapid.Bool().Draw(t, "overlapping")
		}
		if rapid.Bool().Draw(t, "sliced") {
			ipam["node_slice_size"] = "/26"
		}
		return ipam
	})
}

func TestANADIsReadAsWhereaboutsReadsIt(t *testing.T) {
	// whereabouts insists on its file of defaults; an empty one adds nothing.
	flat := filepath.Join(t.TempDir(), "whereabouts.conf")
	check(t, os.WriteFile(flat, []byte("{}"), 0o600))
	rapid.Check(t, func(t *rapid.T) {
		text, err := json.Marshal(map[string]any{"cniVersion": "0.3.1", "name": "net", "type": "macvlan",
			"ipam": ipamGen().Draw(t, "ipam")})
		check(t, err)
		theirs, _, err := config.LoadIPAMConfig(text, "", flat)
		if err != nil {
			t.Fatalf("whereabouts refuses %s: %v", text, err)
		}
		n := nadOf(string(text))
		if n.Problem != "" || len(n.Networks) != 1 {
			t.Fatalf("%s: problem %q, %d networks", text, n.Problem, len(n.Networks))
		}
		ours := n.Networks[0]
		var mine, wants []string
		for _, r := range ours.Ranges {
			mine = append(mine, r.String())
		}
		for _, r := range theirs.IPRanges {
			wants = append(wants, r.Range) // the masked form, which names the pool
		}
		if jsonOf(mine) != jsonOf(wants) {
			t.Fatalf("%s: ranges %v; whereabouts has %v", text, mine, wants)
		}
		if ours.Name != theirs.NetworkName || ours.Overlapping != theirs.OverlappingRanges ||
			ours.Slices != (theirs.NodeSliceSize != "") {
			t.Fatalf("%s: %+v; whereabouts has %q, %v, %q", text, ours, theirs.NetworkName, theirs.OverlappingRanges,
				theirs.NodeSliceSize)
		}
	})
}

// FuzzADefinitionNamesOnlyNetworksThatItConfigures holds a definition's networks against what
// a reader of the whole JSON finds of whereabouts in it.
func FuzzADefinitionNamesOnlyNetworksThatItConfigures(f *testing.F) {
	for _, config := range []string{
		`{"cniVersion":"0.3.1","type":"macvlan","ipam":{"type":"whereabouts","range":"10.0.0.0/24","network_name":"red",` +
			`"exclude":["10.0.0.1/32"],"range_start":"10.0.0.5"}}`,
		`{"plugins":[{"type":"bridge","ipam":{"type":"whereabouts","ipRanges":[{"range":"10.0.0.0/24"},{` +
			`"range":"10.0.0.10-10.0.0.20/24"},{"range":"fd00::/64"}],"node_slice_size":"/28",` +
			`"enable_overlapping_ranges":false}},{"type":"tuning"}]}`,
		`{"ipam":{"type":"host-local"}}`, `{"ipam":{"type":"whereabouts"}}`, `{"ipam":{"type":"whereabouts","range":5}}`,
		`{"ipam":[]}`, `{"plugins":{}}`, `[]`, ``, ` `,
		`{"ipam":{"type":"whereabouts","range":"10.0.0.0/24","node_slice_size":28}}`,
		`{"IPAM":{"Type":"whereabouts","RANGE":"10.0.0.0/24"}}`, `{"plugins":[{"ipam":null},null]}`,
		// A comment is no JSON.
		"// a comment\n{}", strings.Repeat("[", 11000), `{"ipam":{"type":"whereabouts","range":"::ffff:10.0.0.0/120"}}`,
	} {
		f.Add(config)
	}
	f.Fuzz(func(t *testing.T, config string) {
		n := nadOf(config)
		if again := nadOf(ippool.ReducedConfig(config)); (again.Problem == "") != (n.Problem == "") ||
			!reflect.DeepEqual(again.Networks, n.Networks) {
			t.Fatalf("%+v after it was reduced, %+v before", again, n)
		}
		sections := 0
		var list struct {
			IPAM    json.RawMessage `json:"ipam"`
			Plugins []struct {
				IPAM json.RawMessage `json:"ipam"`
			} `json:"plugins"`
		}
		readable := json.Unmarshal([]byte(jsonOf(config)), &config) == nil && json.Unmarshal([]byte(config), &list) == nil
		for _, p := range list.Plugins {
			sections += whereaboutsSection(p.IPAM)
		}
		sections += whereaboutsSection(list.IPAM)
		if !readable && n.Problem == "" {
			t.Fatalf("nothing is wrong with %q", config)
		}
		if n.Problem != "" && len(n.Networks) > 0 || n.Problem == "" && len(n.Networks) != sections {
			t.Fatalf("%d networks (%s) of %d sections in %q", len(n.Networks), n.Problem, sections, config)
		}
		ranges := 0
		for _, network := range n.Networks {
			ranges += len(network.Ranges)
			if len(network.Ranges) == 0 || len(network.Bounds) != 0 && len(network.Bounds) != len(network.Ranges) {
				t.Fatalf("%d ranges with %d bounds in %q", len(network.Ranges), len(network.Bounds), config)
			}
			for _, r := range network.Ranges {
				if !r.IsValid() || r != r.Masked() || r.Addr().Is4In6() {
					t.Fatalf("range %s in %q", r, config)
				}
			}
		}
		if ranges > ippool.MaxRanges {
			t.Fatalf("%d ranges in %q", ranges, config)
		}
	})
}

// whereaboutsSection is 1 for an ipam section of whereabouts.
func whereaboutsSection(ipam json.RawMessage) int {
	var section struct {
		Type string `json:"type"`
	}
	if len(ipam) == 0 || json.Unmarshal(ipam, &section) != nil || section.Type != "whereabouts" {
		return 0
	}
	return 1
}
