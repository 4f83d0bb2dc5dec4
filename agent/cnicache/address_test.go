package cnicache_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

func TestAddresses_Range(t *testing.T) {
	ranges := func(texts ...string) string {
		return `{"type":"whereabouts","ipRanges":[{"range":"` + strings.Join(texts, `"},{"range":"`) + `"}]}`
	}
	at := func(ip, r string) v1alpha1.Address {
		return v1alpha1.Address{IP: ip, IfName: "net1", Network: "wb", Range: r}
	}
	named := at("10.0.0.5", "10.0.0.0/24")
	named.NetworkName = "blue"
	unknown := at("10.0.0.5", "")
	unknown.NetworkName = "blue"
	cases := map[string]struct {
		ipam string
		ips  []string
		want []v1alpha1.Address
	}{
		"a range": {wbIPAM, []string{"10.0.0.5/24"}, []v1alpha1.Address{wbAddr}},
		"host bits set": {`{"type":"whereabouts","range":"10.0.0.5/16"}`, []string{"10.0.7.1/16"},
			[]v1alpha1.Address{at("10.0.7.1", "10.0.0.0/16")}},
		"first and last": {`{"type":"whereabouts","range":"10.0.0.10-10.0.0.20/24"}`, []string{"10.0.0.11/24"},
			[]v1alpha1.Address{at("10.0.0.11", "10.0.0.0/24")}},
		"leading zeros": {`{"type":"whereabouts","range":"10.0.000.0/24"}`, []string{"10.0.0.5/24"},
			[]v1alpha1.Address{wbAddr}},
		"a mapped range": {`{"type":"whereabouts","range":"::ffff:10.0.0.0/120"}`, []string{"10.0.0.5/24"},
			[]v1alpha1.Address{wbAddr}},
		"a mapped address": {wbIPAM, []string{"::ffff:10.0.0.5/120"}, []v1alpha1.Address{wbAddr}},
		"IPv6": {ranges("fd00:0:0::/64"), []string{"fd00::00a/64"},
			[]v1alpha1.Address{at("fd00::a", "fd00::/64")}},
		"dual stack": {ranges("fd00::/64", "10.0.0.0/24"), []string{"fd00::a/64", "10.0.0.5/24"},
			[]v1alpha1.Address{at("10.0.0.5", "10.0.0.0/24"), at("fd00::a", "fd00::/64")}},
		"ranges overlap": {ranges("10.0.0.0/16", "10.0.0.0/24"), []string{"10.0.0.5/16", "10.0.0.6/24"},
			[]v1alpha1.Address{at("10.0.0.5", "10.0.0.0/16"), at("10.0.0.6", "10.0.0.0/24")}},
		"range and ranges": {`{"type":"whereabouts","range":"10.0.0.0/24","ipRanges":[{"range":"10.1.0.0/24"}]}`,
			[]string{"10.1.0.5/24"}, []v1alpha1.Address{at("10.1.0.5", "10.1.0.0/24")}},
		"a name": {`{"type":"whereabouts","range":"10.0.0.0/24","network_name":"blue"}`, []string{"10.0.0.5/24"},
			[]v1alpha1.Address{named}},
		"a slice of it": {`{"type":"whereabouts","range":"10.0.0.0/16","node_slice_size":"/24"}`, []string{"10.0.0.5/16"},
			[]v1alpha1.Address{at("10.0.0.5", "10.0.0.0/16")}},
		"elsewhere": {wbIPAM, []string{"10.0.0.5/24", "192.168.0.1/24"}, []v1alpha1.Address{wbAddr}},
		"no range": {`{"type":"whereabouts","network_name":"blue"}`, []string{"10.0.0.5/24"},
			[]v1alpha1.Address{unknown}},
		"none readable": {`{"type":"whereabouts","range":"10.0.0.0","network_name":"blue"}`, []string{"10.0.0.5/24"},
			[]v1alpha1.Address{unknown}},
		"not even a text": {`{"type":"whereabouts","range":7}`, []string{"10.0.0.5/24"},
			[]v1alpha1.Address{at("10.0.0.5", "")}},
		"the same twice":    {wbIPAM, []string{"10.0.0.5/24", "10.0.0.5/24"}, []v1alpha1.Address{wbAddr}},
		"another ipam":      {`{"type":"host-local","range":"10.0.0.0/24"}`, []string{"10.0.0.5/24"}, nil},
		"one of like name":  {`{"type":"whereabouts2","range":"10.0.0.0/24"}`, []string{"10.0.0.5/24"}, nil},
		"no address at all": {wbIPAM, nil, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := newCaches(t)
			c.delegate(one, "net1", conf("wb", tc.ipam), result(tc.ips...))
			e := c.readEntry(one)
			same(t, "addresses", e.Addresses, tc.want)
			if name != "not even a text" && name != "one of like name" { // the latter may run whereabouts
				c.readable()
			}
		})
	}
}

func TestAddresses_EveryCNIVersion(t *testing.T) {
	both := []v1alpha1.Address{wbAddr, {IP: "fd00::a", IfName: "net1", Network: "wb", Range: "fd00::/64"}}
	for _, v := range []string{"0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"} {
		text := `{"cniVersion":"` + v + `","ips":[{"address":"fd00::a/64"},{"address":"10.0.0.5/24"}]}`
		switch v {
		case "0.1.0", "0.2.0":
			text = `{"cniVersion":"` + v + `","ip4":{"ip":"10.0.0.5/24"},"ip6":{"ip":"fd00::a/64"}}`
		case "0.3.0", "0.3.1", "0.4.0":
			text = strings.NewReplacer(`"address":"f`, `"version":"6","address":"f`, `"address":"1`,
				`"version":"4","address":"1`).Replace(text)
		}
		c := newCaches(t)
		ipam := `{"type":"whereabouts","ipRanges":[{"range":"10.0.0.0/24"},{"range":"fd00::/64"}]}`
		c.delegate(one, "net1", strings.Replace(conf("wb", ipam), "1.0.0", v, 1), text)
		addresses(t, c.readEntry(one), both...)
		c.readable()
	}
}

func TestAddresses_Chain(t *testing.T) {
	c := newCaches(t)
	c.runtime(one, "net1", `{"cniVersion":"1.0.0","name":"chain","plugins":[{"type":"macvlan","ipam":`+wbIPAM+
		`},{"type":"own","ipam":{"type":"static"}},`+
		`{"type":"vlan","ipam":{"type":"whereabouts","range":"10.2.0.0/24","network_name":"blue"}}]}`,
		result("10.2.0.7/24", "10.0.0.5/24", "172.16.0.1/24"))
	// The first plugin creates the interface and assigns its addresses. Another may have assigned the rest.
	a, b := wbAddr, v1alpha1.Address{IP: "10.2.0.7", IfName: "net1", Network: "chain", Range: "10.2.0.0/24",
		NetworkName: "blue", Unattributed: true}
	a.Network = "chain"
	addresses(t, c.readEntry(one), a, b)
}

// Multus returns the result of its first delegate to the runtime.
func TestAddresses_BelongToDelegates(t *testing.T) {
	for _, kind := range []string{"multus", "multus-shim", "multus-cni"} {
		c := newCaches(t)
		c.runtime(one, "eth0", `{"cniVersion":"1.0.0","name":"multus","type":"`+kind+`","ipam":`+wbIPAM+
			`,"delegates":[`+wb+`]}`, net1)
		addresses(t, c.readEntry(one))
		c.delegate(one, "eth0", wb, net1)
		c.multusFile(one, wb)
		a := wbAddr
		a.IfName = "eth0"
		addresses(t, c.readEntry(one), a)
	}
}

func TestAddresses_Limit(t *testing.T) {
	c := newCaches(t)
	var ips, ranges []string
	for i := range 140 {
		ips, ranges = append(ips, fmt.Sprintf("10.0.0.%d/24", 240-i)), append(ranges, `{"range":"10.0.0.0/24"}`)
	}
	c.runtime(one, "net1", conf("wb", `{"type":"whereabouts","ipRanges":[`+strings.Join(ranges, ",")+`]}`), result(ips...))
	e := c.readEntry(one)
	if n := len(e.Addresses); n < 70 || n > 128 || e.Addresses[0].IP != "10.0.0.101" || e.HasAllAddresses || !e.IsCut {
		t.Errorf("got %d, complete: %v: %v", len(e.Addresses), e.HasAllAddresses, e.Addresses)
	}
	same(t, "may carry", e.MayCarry, []v1alpha1.Network{{Range: "10.0.0.0/24"}})
}

// In a tenant's definition macvlan has no ipam section, and tuning ignores its own.
func TestAddresses_UnusedIPAMSection(t *testing.T) {
	var ranges []string
	for i := range 257 {
		ranges = append(ranges, fmt.Sprintf(`{"range":"10.%d.%d.0/24"}`, i/256, i%256))
	}
	c := newCaches(t)
	ignored := `{"cniVersion":"1.0.0","name":"mine","plugins":[{"type":"macvlan","master":"eth0"},{"type":"tuning",` +
		`"ipam":{"type":"whereabouts","ipRanges":[` + strings.Join(ranges, ",") + `]}}]}`
	c.runtime(one, "eth0", multus, eth0)
	c.delegate(one, "eth0", kindnet, eth0)
	c.delegate(one, "net1", ignored, `{"cniVersion":"1.0.0","interfaces":[{"name":"net1",`+
		`"sandbox":"/var/run/netns/pod"}],"ips":[],"dns":{}}`)
	c.multusFile(one, kindnet, ignored)
	if e := c.readEntry(one); !e.HasAllAddresses || len(e.Addresses) > 0 {
		t.Errorf("got %+v", e)
	}
	c.readable()
}

// Static addresses beside an unused ipam section of whereabouts. They are in use, but no pool may record them.
func TestAddresses_StaticOnes(t *testing.T) {
	var static, ips []string
	for i := range 60 {
		ips = append(ips, fmt.Sprintf("10.0.0.%d/24", 100+i))
		static = append(static, fmt.Sprintf(`{"address":"10.0.0.%d/24"}`, 100+i))
	}
	c := newCaches(t)
	c.runtime(one, "net1", `{"cniVersion":"1.0.0","name":"mine","plugins":[{"type":"macvlan","ipam":{"type":"static",`+
		`"addresses":[`+strings.Join(static, ",")+
		`]}},{"type":"tuning","ipam":`+wbIPAM+`}]}`, result(ips...))
	e := c.readEntry(one)
	if len(e.Addresses) != 60 || !e.HasAllAddresses {
		t.Errorf("%d addresses, complete: %v", len(e.Addresses), e.HasAllAddresses)
	}
	for _, a := range e.Addresses {
		if !a.Unattributed {
			t.Errorf("%s is attributed to whereabouts", a.IP)
		}
	}
}

// An address is of whereabouts if the plugin that creates the interface has the ipam section, one of each range.
func TestAddresses_Unattributed(t *testing.T) {
	chain := func(plugins string) string { return `{"cniVersion":"1.0.0","name":"wb","plugins":[` + plugins + `]}` }
	other := func(ip string) v1alpha1.Address {
		a := wbAddr
		a.IP, a.Unattributed = ip, true
		return a
	}
	two := []string{"10.0.0.5/24", "10.0.0.6/24"}
	bridge, own := `{"type":"bridge"}`, `{"type":"own","ipam":`+wbIPAM+`}`
	first := `{"type":"bridge","ipam":` + wbIPAM + `}`
	for name, tc := range map[string]struct {
		config string
		ips    []string
		want   []v1alpha1.Address
	}{
		"the first plugin's":    {chain(first + `,{"type":"tuning"}`), two[:1], []v1alpha1.Address{wbAddr}},
		"more than ranges":      {wb, two, []v1alpha1.Address{wbAddr, other("10.0.0.6")}},
		"a plugin without ipam": {chain(bridge + "," + own), two[:1], []v1alpha1.Address{other("10.0.0.5")}},
		"static as the plugin": {strings.Replace(conf("wb", wbIPAM), "macvlan", "static", 1), two,
			[]v1alpha1.Address{other("10.0.0.5"), other("10.0.0.6")}},
		"a section of the chain": {strings.Replace(chain(bridge), `{`, `{"ipam":`+wbIPAM+`,`, 1), two[:1],
			[]v1alpha1.Address{other("10.0.0.5")}},
		"outside of its ranges": {chain(bridge + "," + own), []string{"10.1.0.5/24"}, nil},
		"static after whereabouts": {chain(first + `,{"type":"own","ipam":{"type":"static"}}`), two,
			[]v1alpha1.Address{wbAddr, other("10.0.0.6")}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCaches(t)
			rewrite(c, c.delegate(one, "net1", wb, result(tc.ips...)), tc.config)
			addresses(t, c.readEntry(one), tc.want...)
			c.readable()
		})
	}
}

// The API server would refuse a report with a longer name.
func TestEntry_LongNames(t *testing.T) {
	long := strings.Repeat("x", 254)
	for name, text := range map[string][2]string{
		"the interface":         {`"ifName":"net1"`, `"ifName":"` + long + `"`},
		"the network":           {`"networkName":"wb"`, `"networkName":"` + long + `"`},
		"the pod":               {`"web-0"`, `"` + long + `"`},
		"the namespace":         {`"default"`, `"` + long + `"`},
		"the pod's UID":         {`"uid-1"`, `"` + long + `"`},
		"the network namespace": {`"/var/run/netns/cni-1a00"`, `"/` + strings.Repeat("x", 4096) + `"`},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCaches(t)
			tamper(c, c.delegate(one, "net1", wb, net1), text[0], text[1])
			e := c.readEntry(one)
			all := append([]string{e.Namespace, e.Name, e.UID}, e.NetNS...)
			for _, a := range e.Addresses {
				all = append(all, a.IfName, a.Network, a.NetworkName)
			}
			for _, got := range all {
				if len(got) > 253 {
					t.Errorf("it has %.20s… of %d bytes", got, len(got))
				}
			}
			if len(e.Addresses) == 0 && e.HasAllAddresses {
				t.Error("it claims to have no address")
			}
		})
	}
}
