package harness

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
)

// A subnet is the network of a Cluster: API server, nodes and pods are on one wire, so nothing is routed or translated.
// It is a /24 of the addresses that are reserved for tests of networks.
type subnet struct{ a, b byte }

const mostWorkers = 3

// freeSubnet picks one in which the machine has no address, and reserves it for this process until it ends: the
// addresses come later, and others start clusters at the same time.
func freeSubnet() (subnet, error) {
	taken, err := net.InterfaceAddrs()
	if err != nil {
		return subnet{}, err
	}
	if err := os.MkdirAll(runsDir(), 0o700); err != nil {
		return subnet{}, err
	}
	for range 100 {
		random := make([]byte, 2)
		rand.Read(random)
		s := subnet{18 + random[0]%2, random[1]}
		prefix := netip.MustParsePrefix(s.host(0) + "/24")
		if !slices.ContainsFunc(taken, func(a net.Addr) bool {
			p, err := netip.ParsePrefix(a.String())
			return err == nil && prefix.Overlaps(p)
		}) {
			switch _, err := tryLock(filepath.Join(runsDir(), fmt.Sprintf("subnet-%d-%d", s.a, s.b))); {
			case err == nil:
				return s, nil
			case !errors.Is(err, errLocked):
				return subnet{}, err
			}
		}
	}
	return subnet{}, errors.New("no free network in 198.18.0.0/15")
}

func (s subnet) host(n int) string { return fmt.Sprintf("198.%d.%d.%d", s.a, s.b, n) }

// The first 16 addresses are for Services, the next for nodes; every worker then has 64 for its pods.
func (s subnet) services() string  { return s.host(0) + "/28" }
func (s subnet) api() net.IP       { return net.ParseIP(s.host(1)).To4() }
func (s subnet) node(n int) string { return s.host(16 + n) }
func (s subnet) mac(n int) string  { return fmt.Sprintf("02:00:%02x:%02x:00:%02x", s.a, s.b, n) }

// podNetwork is the default network of a worker's pods.
func (s subnet) podNetwork(n int) map[string]any {
	return onBridge(map[string]any{"type": "host-local", "ranges": [][]map[string]string{{
		{"subnet": s.host(0) + "/24", "rangeStart": s.host(64 * n), "rangeEnd": s.host(64*n + 62)},
	}}})
}

// sharedPodNetwork is the default network of all workers' pods, with addresses from whereabouts.
func (s subnet) sharedPodNetwork() map[string]any {
	return onBridge(map[string]any{"type": "whereabouts", "range": s.host(0) + "/24", "range_start": s.host(64),
		"range_end": s.host(254)})
}

func onBridge(ipam map[string]any) map[string]any {
	return map[string]any{"cniVersion": "1.0.0", "name": "local", "type": "bridge", "bridge": nodeBridge, "ipam": ipam}
}
