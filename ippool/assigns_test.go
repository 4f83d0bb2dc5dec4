package ippool_test

import (
	"fmt"
	"net/netip"
	"testing"
)

// What MayAssign says of each address is what Usable says of all.
func TestNetwork_MayAssignWhatIsUsable(t *testing.T) {
	for _, ipam := range []string{
		`"range":"10.0.0.0/27"`,
		`"range":"10.0.0.0/31"`,
		`"range":"10.0.0.5-10.0.0.9/27"`,
		`"range":"10.0.0.0/27","range_start":"10.0.0.4","range_end":"10.0.0.30"`,
		`"range":"10.0.0.0/27","range_start":"10.0.1.4","range_end":"10.0.0.200"`,
		`"range":"10.0.0.0/27","exclude":["10.0.0.8/30","10.0.0.1"]`,
		`"range":"10.0.0.0/27","range_end":"10.0.0.9","ipRanges":[{"range":"10.0.0.0/27"}]`,
	} {
		n := nadOf(`{"ipam":{"type":"whereabouts",` + ipam + `}}`).Networks[0]
		usable := n.Usable(poolNamed("10.0.0.0-27", n.Ranges[0].String()))
		for i := range 40 {
			addr := netip.MustParseAddr(fmt.Sprint("10.0.0.", i))
			if got, want := n.MayAssign(addr), usable.Contains(addr); got != want {
				t.Errorf("%s: %s: %v, want %v (%s)", ipam, addr, got, want, n.WhyNot(addr))
			}
		}
	}
}

func TestNetwork_WhyNot(t *testing.T) {
	for _, c := range []struct{ ipam, ip, why string }{
		{`"range":"10.0.0.0/24"`, "10.0.0.5", ""},
		{`"range":"10.0.0.0/24"`, "10.0.1.5", "none of its ranges has the address"},
		{`"range":"10.0.0.0/24"`, "10.0.0.0", "it assigns 10.0.0.1 to 10.0.0.254 of 10.0.0.0/24"},
		{`"range":"10.0.0.0/31"`, "10.0.0.0", "no address is assigned from 10.0.0.0/31, which has two or fewer"},
		{`"range":"fd00::/64","exclude":["fd00::/120"]`, "fd00::5", "it excludes fd00::/120"},
		{`"range":"10.0.0.0/24","node_slice_size":"/28","exclude":["10.0.0.5"]`, "10.0.0.5", ""},
		{`"range":"10.0.0.0/24","node_slice_size":"/28"`, "10.0.0.16", "it assigns 10.0.0.17 to 10.0.0.30 of 10.0.0.16/28"},
		{`"range":"10.0.0.0/24","node_slice_size":"x"`, "10.0.0.16", ""},
		{`"range":"10.0.0.0/24","node_slice_size":"/28","ipRanges":[{"range":"10.9.0.0/24"}]`, "10.9.0.5",
			"none of its ranges has the address"},
	} {
		n := nadOf(`{"ipam":{"type":"whereabouts",` + c.ipam + `}}`).Networks[0]
		equal(t, c.ipam+" and "+c.ip, n.WhyNot(netip.MustParseAddr(c.ip)), c.why)
	}
}
