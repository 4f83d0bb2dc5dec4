package harness

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
)

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

// Addresses returns the configured addresses, by interface, without link-local and loopback ones.
func (s *Sandbox) Addresses() (map[string][]netip.Addr, error) { return addressesIn(s.NetNS) }

// Has reports whether the address is configured on any interface.
func (s *Sandbox) Has(address netip.Addr) (bool, error) {
	all, err := s.Addresses()
	for _, on := range all {
		for _, a := range on {
			if a == address {
				return true, nil
			}
		}
	}
	return false, err
}
