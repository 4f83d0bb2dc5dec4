package cnicache_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/agent/cnicache"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

// bytesOf returns the bytes of a sandbox in a report.
func bytesOf(t testing.TB, s *v1alpha1.Sandbox) int {
	t.Helper()
	text, err := json.Marshal(s)
	check(t, err)
	return len(text)
}

// The admission policy takes reports of up to 768 KiB, and a node has 110 pods by default. A tenant's definition gives
// its pod many static addresses, all in a range of whereabouts, and long names: whereabouts is never run.
func TestEntry_PodsOfATenantFitIntoAReport(t *testing.T) {
	c := newCaches(t)
	name := strings.Repeat("m", 250)
	network := fmt.Sprintf(`{"cniVersion":"1.0.0","name":%q,"plugins":[{"type":"macvlan","ipam":{"type":"static"}},`+
		`{"type":"tuning","ipam":{"type":"whereabouts","range":"10.0.0.0/16","network_name":%q}}]}`,
		strings.Repeat("n", 180), name)
	var ips []string
	for i := range 128 {
		ips = append(ips, fmt.Sprintf("10.0.1.%d/16", i+1))
	}
	c.runtime(one, "eth0", multus, eth0)
	c.multusFile(one, kindnet, network)
	c.delegate(one, "eth0", kindnet, eth0)
	c.delegate(one, "net1", network, result(ips...))
	e := c.readEntry(one)
	n := bytesOf(t, &v1alpha1.Sandbox{ID: one, Addresses: e.Addresses, Interfaces: e.Interfaces, MayCarry: e.MayCarry,
		AddressesUnread: !e.HasAllAddresses})
	if limit := 768 * 1024; 110*n > limit {
		t.Errorf("a pod has %d bytes in the report, so %d pods fill it", n, limit/n+1)
	}
	if e.HasAllAddresses || !e.IsCut || len(e.Addresses) == 0 {
		t.Errorf("complete: %v, cut: %v, %d addresses", e.HasAllAddresses, e.IsCut, len(e.Addresses))
	}
	same(t, "may carry", e.MayCarry, []v1alpha1.Network{{Range: "10.0.0.0/16", NetworkName: name}})
}

// Eight interfaces with two addresses each, and names as operators choose them, are reported in full.
func TestEntry_OrdinaryPodIsNotCut(t *testing.T) {
	c := newCaches(t)
	configs := []string{kindnet}
	for i := range 8 {
		config := conf(fmt.Sprintf("storage-network-of-the-database-team-%d", i), fmt.Sprintf(`{"type":"whereabouts",`+
			`"network_name":"storage-of-the-database-team-%d","ipRanges":[{"range":"10.100.%d.0/24"},`+
			`{"range":"fd00:1234:5678:%d::/64"}]}`, i, i, i+1))
		configs = append(configs, config)
		c.delegate(one, fmt.Sprint("net", i+1), config, result(fmt.Sprintf("10.100.%d.200/24", i),
			fmt.Sprintf("fd00:1234:5678:%d:aaaa:bbbb:cccc:%d/64", i+1, i+1)))
	}
	c.runtime(one, "eth0", multus, eth0)
	c.delegate(one, "eth0", kindnet, eth0)
	c.multusFile(one, configs...)
	if e := c.readEntry(one); !e.HasAllAddresses || e.IsCut || len(e.Addresses) != 16 {
		t.Errorf("complete: %v, cut: %v, %d addresses", e.HasAllAddresses, e.IsCut, len(e.Addresses))
	}
	c.readable()
}

// Nothing may be concluded from what is left out of a sandbox, which has one address of whereabouts and many others.
func TestFit(t *testing.T) {
	const limit = 1000
	ofPlugin := func(n, networks int, name string) []v1alpha1.Address {
		all := []v1alpha1.Address{{IP: "10.0.0.5", IfName: "net9", Network: "wb", Range: "10.0.0.0/24"}}
		for i := range n {
			all = append(all, v1alpha1.Address{IP: fmt.Sprintf("10.1.%d.7", i), IfName: "net1",
				Range: fmt.Sprintf("10.1.%d.0/24", i%networks), NetworkName: name, Unattributed: true})
		}
		return slices.Concat(all[1:], all[:1])
	}
	var manyNames []v1alpha1.Network
	for i := range 40 {
		manyNames = append(manyNames, v1alpha1.Network{NetworkName: fmt.Sprintf("%d-%s", i, strings.Repeat("n", 20))})
	}
	red := []v1alpha1.Network{{Range: "10.9.0.0/24", NetworkName: "red"}}
	for name, tc := range map[string]struct {
		in       v1alpha1.Sandbox
		isCut    bool
		mayCarry []v1alpha1.Network
	}{
		"all fits": {v1alpha1.Sandbox{Addresses: ofPlugin(3, 1, "")}, false, nil},
		"complete": {v1alpha1.Sandbox{Addresses: ofPlugin(50, 1, "blue")}, true,
			[]v1alpha1.Network{{Range: "10.1.0.0/24", NetworkName: "blue"}}},
		"incomplete, of a known network": {v1alpha1.Sandbox{Addresses: ofPlugin(50, 1, "blue"), AddressesUnread: true,
			MayCarry: red}, true, []v1alpha1.Network{{Range: "10.1.0.0/24", NetworkName: "blue"}, red[0]}},
		"incomplete, of any network": {v1alpha1.Sandbox{Addresses: ofPlugin(50, 1, "blue"), AddressesUnread: true},
			true, nil},
		"of too many ranges": {v1alpha1.Sandbox{Addresses: ofPlugin(100, 100, "blue")}, true,
			[]v1alpha1.Network{{NetworkName: "blue"}}},
		"of too many networks": {v1alpha1.Sandbox{Addresses: ofPlugin(1, 1, ""), AddressesUnread: true, MayCarry: manyNames},
			false, nil},
		"too many interfaces": {v1alpha1.Sandbox{Addresses: ofPlugin(1, 1, ""), Interfaces: slices.Repeat(
			[]string{"an-interface-of-it"}, 60)}, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s, before := tc.in, slices.Clone(tc.in.Addresses)
			if isCut := cnicache.Fit(&s, limit); isCut != tc.isCut {
				t.Errorf("cut: %v, want %v", isCut, tc.isCut)
			}
			same(t, "the given addresses", tc.in.Addresses, before)
			same(t, "may carry", s.MayCarry, tc.mayCarry)
			if !s.AddressesUnread && (tc.isCut || tc.in.AddressesUnread) {
				t.Error("its addresses are said to be complete")
			}
			if !slices.ContainsFunc(s.Addresses, func(a v1alpha1.Address) bool { return !a.Unattributed }) {
				t.Errorf("the address of whereabouts is not among %v", s.Addresses)
			}
			if n := bytesOf(t, &s) - bytesOf(t, &v1alpha1.Sandbox{}); n > limit+100 {
				t.Errorf("it has %d bytes", n)
			}
			again := s
			if cnicache.Fit(&again, limit) {
				t.Error("it is cut again")
			}
		})
	}
	s := v1alpha1.Sandbox{Addresses: ofPlugin(1, 1, "")}
	if !cnicache.Fit(&s, 0) || len(s.Addresses)+len(s.MayCarry) > 0 || !s.AddressesUnread {
		t.Errorf("of nothing %+v is left", s)
	}
}
