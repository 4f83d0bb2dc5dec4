package ippool_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/k8snetworkplumbingwg/whereabouts/pkg/config"
	"pgregory.net/rapid"
)

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
	if err := os.WriteFile(flat, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		text, err := json.Marshal(map[string]any{"cniVersion": "0.3.1", "name": "net", "type": "macvlan",
			"ipam": ipamGen().Draw(t, "ipam")})
		if err != nil {
			t.Fatal(err)
		}
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
