package harness

import (
	"fmt"
	"net/netip"
	"os"
	"path"
	"testing"
)

// Addresses returns the addresses that are really configured in a network namespace
// of the node (a path as NetNS returns), by interface.
func (r *Runtime) Addresses(netNS string) (map[string][]netip.Addr, error) {
	return addressesIn(r.Outside(netNS))
}

// NetNamespaces are the paths of all network namespaces that are on the node,
// whether containerd knows of them or not.
func (r *Runtime) NetNamespaces() ([]string, error) {
	entries, err := os.ReadDir(r.Outside(NetNSDir))
	var found []string
	for _, e := range entries {
		found = append(found, path.Join(NetNSDir, e.Name()))
	}
	return found, err
}

// OnWire returns the addresses that are really configured on the node, each with
// the network namespaces that have it: with two, it is a duplicate. Namespaces that
// come or go meanwhile may be left out. A node that is off has nothing on the wire.
func (r *Runtime) OnWire() (map[netip.Addr][]string, error) {
	all, err := r.NetNamespaces()
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	found := map[netip.Addr][]string{}
	for _, netNS := range all {
		on, err := r.Addresses(netNS)
		if gone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, addresses := range on {
			for _, a := range addresses {
				found[a] = append(found[a], netNS)
			}
		}
	}
	return found, nil
}

// Answers reports whether an address is really configured in any network namespace of
// the node.
func (r *Runtime) Answers(t testing.TB, address netip.Addr) bool {
	t.Helper()
	on, err := r.OnWire()
	if err != nil {
		t.Fatal(fmt.Errorf("looking for %s on node %s: %w", address, r.Node.Name, err))
	}
	return len(on[address]) > 0
}
