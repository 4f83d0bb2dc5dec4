package harness

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// A subnet is the network of a whole cluster: API server, nodes and pods are on one
// wire, so nothing has to be routed or translated. It is a /24 of the addresses that
// are set aside for tests of networks.
type subnet struct{ a, b byte }

const (
	mostWorkers = 3
	nodeBridge  = "br0" // on a node: its address and its pods
	mainCable   = "eth0"
	secondCable = "eth1" // under the secondary networks
)

// freeSubnet picks one that the machine has no address in.
func freeSubnet() (subnet, error) {
	taken, err := net.InterfaceAddrs()
	if err != nil {
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
			return s, nil
		}
	}
	return subnet{}, errors.New("no free network in 198.18.0.0/15")
}

func (s subnet) host(n int) string { return fmt.Sprintf("198.%d.%d.%d", s.a, s.b, n) }

// The first 16 addresses are for Services, the next for nodes; every worker then
// has 64 for its pods.
func (s subnet) services() string  { return s.host(0) + "/28" }
func (s subnet) api() net.IP       { return net.ParseIP(s.host(1)).To4() }
func (s subnet) node(n int) string { return s.host(16 + n) }
func (s subnet) mac(n int) string  { return fmt.Sprintf("02:00:%02x:%02x:00:%02x", s.a, s.b, n) }
func (s subnet) podNetwork(n int) map[string]any {
	return map[string]any{
		"cniVersion": "1.0.0", "name": "local", "type": "bridge", "bridge": nodeBridge,
		"ipam": map[string]any{"type": "host-local", "ranges": [][]map[string]string{{
			{"subnet": s.host(0) + "/24", "rangeStart": s.host(64 * n), "rangeEnd": s.host(64*n + 62)},
		}}},
	}
}

// addSwitches makes the two bridges that join the nodes: one for nodes and pods,
// with the API server's address, one for the secondary networks.
func (w *WholeCluster) addSwitches() error {
	return ipBatch(nil,
		// With an address that is set a bridge keeps it whoever joins or leaves.
		"link add "+w.link("br")+" up address "+w.subnet.mac(0)+" type bridge",
		"address add "+w.address.String()+"/24 dev "+w.link("br"),
		"link add "+w.link("sw")+" up type bridge")
}

func (w *WholeCluster) link(suffix string) string { return linkPrefix(w.run.id) + suffix }

// plugIn gives a worker's network namespace, that of a process, its cables.
func (w *WholeCluster) plugIn(n int, pid string) error {
	main, second := w.link(fmt.Sprint("e", n)), w.link(fmt.Sprint("w", n))
	for _, l := range []string{main, second} {
		if linkExists(l) { // the network namespace of an earlier boot is going, but not yet gone
			if err := iproute("link", "del", l); err != nil && linkExists(l) {
				return err
			}
		}
	}
	err := ipBatch(nil,
		"link add "+main+" up master "+w.link("br")+" type veth peer name "+mainCable+" netns "+pid,
		"link add "+second+" up master "+w.link("sw")+" type veth peer name "+w.wire()+" netns "+pid)
	if err != nil {
		return err
	}
	return ipBatch([]string{"nsenter", "--net=/proc/" + pid + "/ns/net"},
		"link set lo up",
		"link add "+nodeBridge+" address "+w.subnet.mac(n)+" type bridge",
		"link set "+mainCable+" up master "+nodeBridge,
		"address add "+w.subnet.node(n)+"/24 dev "+nodeBridge,
		"link set "+nodeBridge+" up",
		"link set "+w.wire()+" up")
}

// ipBatch gives ip(8) several commands, run by another program if there is one.
func ipBatch(by []string, lines ...string) error {
	args := append(slices.Clone(by), "ip", "-batch", "-")
	_, err := commandWith(strings.Join(lines, "\n")+"\n", args[0], args[1:]...)
	return err
}
