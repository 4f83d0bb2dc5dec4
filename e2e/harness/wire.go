package harness

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path"
	"path/filepath"
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

// A Sandbox is what a container runtime has when it calls CNI: an id and a network namespace. A mount keeps it, without
// a process.
type Sandbox struct {
	ID    string // 64 hex digits
	NetNS string // path
}

// NewSandbox creates a sandbox until Close, or the end of the cluster.
func (n *Node) NewSandbox() (*Sandbox, error) {
	s := &Sandbox{ID: randomHex(32)}
	s.NetNS = filepath.Join(n.dir, "netns", s.ID)
	if err := newNetNS(s.NetNS); err != nil {
		return nil, err
	}
	return s, nil
}

// newNetNS creates a network namespace that is kept by a mount.
func newNetNS(path string) error {
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return err
	}
	if _, err := command("unshare", "--net="+path, "ip", "link", "set", "lo", "up"); err != nil {
		os.Remove(path)
		return fmt.Errorf("making a network namespace: %w", err)
	}
	return nil
}

// Close ends the network namespace with its interfaces and addresses. The allocations stay: without a DEL they are
// leaks. It may be called again.
func (s *Sandbox) Close() error {
	if err := unmount(s.NetNS); errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	return os.Remove(s.NetNS)
}
