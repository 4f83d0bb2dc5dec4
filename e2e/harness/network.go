package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

// CreateBlockedNAD is CreateNAD with a blocker after macvlan and whereabouts.
func (c *ControlPlane) CreateBlockedNAD(ctx context.Context, n Network, blocker CNIBlocker) error {
	return c.createNAD(ctx, n, asJSON(map[string]any{
		"cniVersion": "1.0.0", "name": n.Name, "plugins": []any{n.asPlugin(c.wire(), nil, map[string]any{}),
			blocker.asPlugin()},
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
