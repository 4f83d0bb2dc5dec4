package harness

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// IPAM is the ipam section of a CNI configuration, by whereabouts' own keys:
// range, ipRanges, network_name, node_slice_size, enable_overlapping_ranges, ...
type IPAM map[string]any

// A Network is a macvlan network with addresses from whereabouts. Namespace and Name are those of its
// NetworkAttachmentDefinition. Name is the CNI network's name too, by which whereabouts finds the NodeSlicePool if IPAM
// has no network_name.
type Network struct {
	Namespace, Name string
	IPAM            IPAM
}

// config is the CNI configuration, with a node's additions to the ipam section.
func (n Network) config(master string, more IPAM) []byte {
	return asJSON(n.asPlugin(master, more, map[string]any{"cniVersion": "1.0.0", "name": n.Name}))
}

func (n Network) asPlugin(master string, more IPAM, config map[string]any) map[string]any {
	ipam := IPAM{"type": "whereabouts"}
	maps.Copy(ipam, n.IPAM)
	maps.Copy(ipam, more)
	maps.Copy(config, map[string]any{"type": "macvlan", "master": master, "mode": "bridge", "ipam": ipam})
	return config
}

// asJSON is the JSON of a test's maps.
func asJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("this configuration is no JSON: %v: %v", v, err))
	}
	return b
}

// CreateNAD creates the network's NetworkAttachmentDefinition. It works for Multus
// on every Node with a Runtime; the CNI of Node.Add has links of its own.
func (c *ControlPlane) CreateNAD(ctx context.Context, n Network) error {
	return c.createNAD(ctx, n, n.config(c.wire(), nil))
}

// UpdateNAD replaces the configuration of a network's NetworkAttachmentDefinition.
func (c *ControlPlane) UpdateNAD(ctx context.Context, n Network) error {
	patch := asJSON(map[string]any{"spec": map[string]any{"config": string(n.config(c.wire(), nil))}})
	_, err := c.dynamic.Resource(NADs).Namespace(n.Namespace).Patch(ctx, n.Name, types.MergePatchType, patch,
		metav1.PatchOptions{})
	return err
}

// CreateBlockedNAD is CreateNAD with a blocker after macvlan and whereabouts.
func (c *ControlPlane) CreateBlockedNAD(ctx context.Context, n Network, blocker CNIBlocker) error {
	return c.createNAD(ctx, n, asJSON(map[string]any{
		"cniVersion": "1.0.0", "name": n.Name, "plugins": []any{n.asPlugin(c.wire(), nil, map[string]any{}),
			blocker.asPlugin()},
	}))
}

// CreateNestedNAD creates a definition whose plugin is Multus again. It attaches pods of this node to a network that
// has no definition of its own.
func (r *Runtime) CreateNestedNAD(ctx context.Context, name string, inner Network) error {
	c := r.Node.cluster
	return c.createNAD(ctx, Network{Namespace: inner.Namespace, Name: name}, asJSON(map[string]any{
		"cniVersion": "1.0.0", "name": name, "type": "multus", "binDir": filepath.Join(r.dir, "plugins"),
		"cniDir": "/var/lib/cni/nested", "delegates": []any{
			inner.asPlugin(c.wire(), nil, map[string]any{"cniVersion": "1.0.0", "name": inner.Name})},
	}))
}

func (c *ControlPlane) createNAD(ctx context.Context, n Network, config []byte) error {
	_, err := c.dynamic.Resource(NADs).Namespace(n.Namespace).Create(ctx,
		&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "k8s.cni.cncf.io/v1",
			"kind":       "NetworkAttachmentDefinition",
			"metadata":   map[string]any{"name": n.Name},
			"spec":       map[string]any{"config": string(config)},
		}}, metav1.CreateOptions{})
	return err
}

// wire is the link under the macvlans of all Nodes with a Runtime: their pods are in one layer 2 network, where an
// address that is used twice is a real conflict.
func (c *ControlPlane) wire() string {
	if c.full {
		return secondCable
	}
	return linkPrefix(c.run.id) + "wire"
}

// addWire creates the wire unless it exists.
func (c *ControlPlane) addWire() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if linkExists(c.wire()) {
		return nil
	}
	return addVeth(c.wire(), linkPrefix(c.run.id)+"far")
}

// conflist is the runtime's only network: Multus gives every pod an eth0 with a local address, and adds the networks of
// the pod's annotation. The plugin of local addresses is macvlan unless another is given.
func (r *Runtime) conflist(local map[string]any, plugins string) []byte {
	if local == nil {
		local = r.localNetwork()
	}
	return asJSON(map[string]any{"cniVersion": "1.0.0", "name": "multus-cni-network", "plugins": []any{map[string]any{
		"type": "multus", "kubeconfig": r.Node.cluster.Kubeconfig(), "binDir": plugins, "cniDir": MultusDir,
		"logFile": filepath.Join(r.Node.dir, "multus.log"), "logLevel": "verbose", "delegates": []any{local},
	}}})
}

// localNetwork is the network of eth0 with addresses of this node.
func (r *Runtime) localNetwork() map[string]any {
	return map[string]any{
		"cniVersion": "1.0.0", "name": "local", "type": "macvlan", "master": r.Node.master, "mode": "bridge",
		"ipam": map[string]any{"type": "host-local", "ranges": [][]map[string]string{{{"subnet": "10.88.0.0/16"}}}},
	}
}

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

// Links on a node.
const (
	nodeBridge  = "br0" // has its address, its pods and the main cable
	mainCable   = "eth0"
	secondCable = "eth1" // under the secondary networks
)

// addSwitches creates the two bridges that join the nodes: one for nodes and pods, with a cable to the API server, one
// for the secondary networks. They are in a network namespace of their own, beyond the machine's packet filters.
func (w *Cluster) addSwitches() error {
	if err := newNetNS(w.switches()); err != nil {
		return err
	}
	api := linkPrefix(w.run.id) + "api"
	if err := ipBatch(nil,
		"link add "+api+" type veth peer name api netns "+w.switches(),
		"address add "+w.address.String()+"/24 dev "+api,
		"link set "+api+" up"); err != nil {
		return err
	}
	return w.atSwitches(
		"link add main up type bridge",
		"link add second up type bridge",
		"link set api up master main")
}

// switches is the path of the network namespace of the bridges.
func (w *Cluster) switches() string { return filepath.Join(w.run.dir, "switches") }

func (w *Cluster) atSwitches(lines ...string) error {
	return ipBatch([]string{"nsenter", "--net=" + w.switches()}, lines...)
}

// plugIn connects a worker's network namespace, that of a process.
func (w *Cluster) plugIn(n int, pid string) error {
	main, second := plug("main", n), plug("second", n)
	for _, p := range []string{main, second} {
		// The network namespace of an earlier boot is gone, or ends.
		w.atSwitches("link del " + p)
	}
	err := w.atSwitches(
		"link add "+main+" up master main type veth peer name "+mainCable+" netns "+pid,
		"link add "+second+" up master second type veth peer name "+secondCable+" netns "+pid)
	if err != nil {
		return err
	}
	return ipBatch([]string{"nsenter", "--net=/proc/" + pid + "/ns/net"},
		"link set lo up",
		// A bridge keeps an address that is set, whatever joins it.
		"link add "+nodeBridge+" address "+w.subnet.mac(n)+" type bridge",
		"link set "+mainCable+" up master "+nodeBridge,
		"address add "+w.subnet.node(n)+"/24 dev "+nodeBridge,
		"link set "+nodeBridge+" up",
		"link set "+secondCable+" up")
}

// plug is the end of a worker's cable at the switch.
func plug(cable string, n int) string { return fmt.Sprint(cable, n) }

// ipBatch gives ip(8) several commands, through another program if one is given.
func ipBatch(by []string, lines ...string) error {
	args := append(slices.Clone(by), "ip", "-batch", "-")
	_, err := commandWith(strings.Join(lines, "\n")+"\n", args[0], args[1:]...)
	return err
}
