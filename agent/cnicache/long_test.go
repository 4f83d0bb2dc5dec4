package cnicache_test

import (
	"strings"
	"testing"
)

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
