package ranges_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/ranges"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// proposed is the proposal of a definition in a file, default/<name>, and why it is refused.
func proposed(t *testing.T, name, ipam string, parts ...Part) (*ranges.Proposal, error) {
	t.Helper()
	nad := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"config": `{"name":"net","ipam":{"type":"whereabouts",` + ipam + `}}`}}}
	nad.SetNamespace("default")
	nad.SetName(name)
	j := Judged(Observe(parts...), facts.Policy{})
	return ranges.OfDefinition(ippool.Read[ippool.NAD](nad), usage.Of(j), nil)
}

func TestProposal_ImpossibleSlices(t *testing.T) {
	for ipam, want := range map[string]string{
		`"range":"10.9.0.0/24","node_slice_size":"x"`:    `node_slice_size "x": it must be the prefix length of a slice`,
		`"range":"10.9.0.0/24","node_slice_size":"/16"`:  "a slice must not be larger than the range 10.9.0.0/24",
		`"range":"10.9.0.0/24","node_slice_size":"/31"`:  "no address of such a slice can be assigned",
		`"range":"10.9.0.0/24","node_slice_size":"/120"`: "no address of such a slice can be assigned",
		`"range":"fd00::/64","node_slice_size":"/80"`:    "whereabouts cuts only IPv4 ranges into node slices",
		`"range":"10.9.0.0/24","node_slice_size":"/30"`:  "",
		`"range":"10.9.0.0/24","node_slice_size":"24"`:   "",
	} {
		_, err := proposed(t, "new", ipam, Pod("bystander"))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", ipam, err, want)
		}
	}
}

// A definition by which every ADD fails is none that can be checked.
func TestProposal_EveryADDFails(t *testing.T) {
	for ipam, want := range map[string]string{
		`"range":"10.9.0.0/24","network_name":"Blue_net"`:                              `network_name "Blue_net"`,
		`"range":"10.9.0.0/24","network_name":"Blue","node_slice_size":"/28"`:          `network_name "Blue"`,
		`"ipRanges":[{"range":"10.9.0.0/24","range_start":"10.9.0.50/24"}]`:            `"10.9.0.50/24" of ipRanges`,
		`"range":"10.9.0.0/24","leader_lease_duration":"1500"`:                         "leader_lease_duration",
		`"range":"10.9.0.0/24","network_name":"blue.net-1","node_slice_size":"/28"`:    "",
		`"range":"010.9.0.0/24","network_name":"","exclude":["10.9.0.1"],"gateway":""`: "",
	} {
		_, err := proposed(t, "new", ipam, Pod("bystander"))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", ipam, err, want)
		}
	}
}

// whereabouts' node controller gives nodes no slice, so ADDs fail there.
func TestCheck_UncutSlices(t *testing.T) {
	other := func(network string, more ...string) Part {
		return All(NAD("other", WhereaboutsConfig("10.1.0.0/24", network, more...)), Pool("10.1.0.0-24", "10.1.0.0/24"))
	}
	const cut = `"range":"10.9.0.0/24","node_slice_size":"/28"`
	const isUncut = "whereabouts does not cut 10.9.0.0/24 into slices of /28 while these definitions have "
	const isStopped = "whereabouts gives new nodes no slice of these definitions while the new one has "
	for _, c := range []struct {
		says, ipam, want string
		parts            []Part
	}{
		{"no other definition", cut, "", nil},
		{"another definition without a network_name", cut,
			isUncut + "no network_name either, and another first range or node_slice_size: default/other", []Part{other("")}},
		{"one of the same network_name", cut + `,"network_name":"red"`,
			isUncut + "the same network_name and another first range or node_slice_size: default/other", []Part{other("red")}},
		{"one of another network_name", cut, "", []Part{other("red")}},
		{"one with the same range and the size in other words", cut, isUncut,
			[]Part{NAD("other", WhereaboutsConfig("10.9.0.0/24", "", `"node_slice_size":"28"`))}},
		{"one that is cut alike", cut, "",
			[]Part{NAD("other", WhereaboutsConfig("10.9.0.0/24", "", `"node_slice_size":"/28"`))}},
		{"the one that it replaces", cut, "", []Part{NAD("new", WhereaboutsConfig("10.1.0.0/24", ""))}},
		{"one of another IPAM", cut, "", []Part{NAD("other", `{"type":"bridge","ipam":{"type":"host-local"}}`)}},
		{"one without slices beside one with slices", `"range":"10.9.0.0/24"`,
			isStopped + "no network_name either, and another first range or node_slice_size: default/other. ADDs fail",
			[]Part{other("", `"node_slice_size":"/28"`)}},
		{"one without slices that was there before", `"range":"10.9.0.0/24","exclude":["10.9.0.7/32"]`, "",
			[]Part{other("", `"node_slice_size":"/28"`), NAD("new", WhereaboutsConfig("10.9.0.0/24", ""))}},
		{"two without slices", `"range":"10.9.0.0/24"`, "", []Part{other("")}},
		{"fewer slices than nodes", `"range":"10.9.0.0/24","node_slice_size":"/25"`,
			"10.9.0.0/24 cut into slices of /25 is enough for 2 of 3 nodes: ADDs fail on the other ones", nil},
	} {
		t.Run(c.says, func(t *testing.T) {
			j, found := defined(t, "new", c.ipam, append(c.parts, ThreeNodes(), Pod("bystander"))...)
			if got := strings.Join(found.Uncut, "\n"); c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			isRepeated := false
			for _, s := range found.Steps(j) {
				isRepeated = isRepeated || s.Name == "range again"
			}
			fits, err := found.Fits(j, 1, intstr.FromInt32(0))
			if err != nil || strings.HasPrefix(fits[0].Unknown, "more addresses") || isRepeated != (c.want != "") {
				t.Errorf("one more pod: %+v (%v), the check is repeated: %v", fits[0], err, isRepeated)
			}
		})
	}
}
