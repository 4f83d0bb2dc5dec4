package harness

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path"
	"testing"
	"time"
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
// the network namespaces that have it: with two, it is a duplicate.
func (r *Runtime) OnWire() (map[netip.Addr][]string, error) {
	all, err := r.NetNamespaces()
	if err != nil {
		return nil, err
	}
	found := map[netip.Addr][]string{}
	for _, netNS := range all {
		on, err := r.addressesNow(netNS)
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

// addressesNow is Addresses, and none for a network namespace that ends just now: its
// mount goes, and its file a moment later.
func (r *Runtime) addressesNow(netNS string) (on map[string][]netip.Addr, err error) {
	for range 20 {
		if on, err = r.Addresses(netNS); err == nil {
			return on, nil
		}
		if _, gone := os.Stat(r.Outside(netNS)); errors.Is(gone, fs.ErrNotExist) {
			return nil, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil, err
}

// Answers says whether an address is really configured in any network namespace of
// the node.
func (r *Runtime) Answers(t testing.TB, address netip.Addr) bool {
	t.Helper()
	on, err := r.OnWire()
	if err != nil {
		t.Fatal(fmt.Errorf("looking for %s on node %s: %w", address, r.Node.Name, err))
	}
	return len(on[address]) > 0
}
