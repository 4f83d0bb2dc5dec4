package harness

import (
	"fmt"
	"net/netip"
	"os"
	"path"
	"testing"
)

// Addresses returns the configured addresses of a network namespace of the node (a path as NetNS returns), by
// interface.
func (r *Runtime) Addresses(netNS string) (map[string][]netip.Addr, error) {
	return addressesIn(r.Outside(netNS))
}

// NetNamespaces are the paths of all network namespaces on the node, whether containerd knows them or not.
func (r *Runtime) NetNamespaces() ([]string, error) {
	entries, err := os.ReadDir(r.Outside(NetNSDir))
	var found []string
	for _, e := range entries {
		found = append(found, path.Join(NetNSDir, e.Name()))
	}
	return found, err
}

// OnWire returns the configured addresses of the node, each with its network namespaces: two are a duplicate.
// Namespaces that start or end meanwhile may be missing. A node that is off has none.
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

// Answers reports whether an address is configured in any network namespace of the node.
func (r *Runtime) Answers(t testing.TB, address netip.Addr) bool {
	t.Helper()
	on, err := r.OnWire()
	if err != nil {
		t.Fatal(fmt.Errorf("looking for %s on node %s: %w", address, r.Node.Name, err))
	}
	return len(on[address]) > 0
}
