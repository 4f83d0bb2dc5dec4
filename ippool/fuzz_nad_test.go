package ippool_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

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
