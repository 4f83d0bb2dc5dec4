package ippool_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

const someIPAM = `"ipam":{"type":"whereabouts","range":"10.0.0.0/24"}`

func TestANADSaysOnWhichSegmentItIs(t *testing.T) {
	for _, c := range []struct{ plugin, want string }{
		{`"type":"macvlan","master":"eth1"`, "eth1"},
		{`"type":"macvlan","master":"eth1.100"`, "eth1.100"},
		{`"type":"ipvlan","Master":"bond0"`, "bond0"},
		{`"type":"ipoib","master":"ib0"`, "ib0"},
		{`"type":"vlan","master":"eth1","vlanId":7`, "eth1, VLAN 7"},
		{`"type":"bridge","bridge":"br1"`, "br1"},
		{`"type":"bridge","bridge":"br1","vlan":100,"vlanTrunk":[]`, "br1, VLAN 100"},
		{`"type":"cnv-bridge","bridge":"br1","vlan":100`, "br1, VLAN 100"},
		{`"type":"ovs","bridge":"br-ex","vlan":5`, "br-ex, VLAN 5"},
		{`"type":"host-device","device":"eth3"`, "eth3"},
		{`"type":"sriov","vlan":200`, "unknown, VLAN 200"},
		{`"type":"sriov","vlan":0`, "unknown"},

		{`"type":"macvlan"`, "unknown"}, // the interface of the default route
		{`"type":"macvlan","master":""`, "unknown"},
		{`"type":"macvlan","master":null`, "unknown"},
		{`"type":"macvlan","master":7`, "unknown"},
		{`"type":"macvlan","master":["eth1"]`, "unknown"},
		{`"type":"macvlan","master":"eth1","linkInContainer":true`, "unknown"},
		{`"type":"macvlan","master":"eth1","linkInContainer":false`, "eth1"},
		{`"type":"macvlan","master":"` + strings.Repeat("x", 65) + `"`, "unknown"},
		{`"type":"vlan","master":"eth1"`, "unknown"},
		{`"type":"bridge"`, "unknown"},
		{`"type":"bridge","bridge":"br1","vlan":"100"`, "unknown"},
		{`"type":"bridge","bridge":"br1","vlan":4096`, "unknown"},
		{`"type":"bridge","bridge":"br1","vlan":-1`, "unknown"},
		{`"type":"bridge","bridge":"br1","vlan":1.5`, "unknown"},
		{`"type":"bridge","bridge":"br1","vlanTrunk":[{"minID":1,"maxID":9}]`, "unknown"},
		{`"type":"ovs","bridge":"br1","trunk":[{"id":1}]`, "unknown"},
		{`"type":"sriov","vlan":"x"`, "unknown"},
		{`"type":"host-device","pciBusID":"0000:00:1f.6"`, "unknown"},
		{`"type":"ptp","master":"eth1"`, "unknown"},
		{`"type":7,"master":"eth1"`, "unknown"},
		{`"master":"eth1"`, "unknown"},
	} {
		for _, config := range []string{
			fmt.Sprintf(`{%s,%s}`, c.plugin, someIPAM),
			fmt.Sprintf(`{"name":"x","plugins":[{"type":"tuning","master":"eth9"},{%s,%s}]}`, c.plugin, someIPAM),
		} {
			for _, config := range []string{config, ippool.ReducedConfig(config)} {
				n := nadOf(config)
				if n.Problem != "" || len(n.Networks) != 1 || n.Networks[0].Segment.String() != c.want {
					t.Errorf("%s: got %+v %s, want %s", config, n.Networks, n.Problem, c.want)
				}
			}
		}
	}
}

// Each section has the segment of its own plugin, also that of the config itself.
func TestANADSaysTheSegmentOfEachSection(t *testing.T) {
	n := nadOf(`{"type":"macvlan","master":"eth1",` + someIPAM + `,"plugins":[{"type":"bridge","bridge":"br1",` +
		someIPAM + `},{"type":"tuning"},{"type":"ipvlan",` + someIPAM + `}]}`)
	var got []string
	for _, network := range n.Networks {
		got = append(got, fmt.Sprint(network.Segment, network.Segment.IsKnown()))
	}
	if text := strings.Join(got, "; "); text != "br1 true; unknown false; eth1 true" {
		t.Errorf("got %s (%s)", text, n.Problem)
	}
}
