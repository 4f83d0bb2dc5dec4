package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// IPAM is the ipam section of a CNI configuration, by whereabouts' own keys:
// range, ipRanges, network_name, node_slice_size, enable_overlapping_ranges, ...
type IPAM map[string]any

// A Network is a macvlan network with addresses from whereabouts. Namespace and
// Name are those of its NetworkAttachmentDefinition; Name is the CNI network's
// name too, by which whereabouts finds the NodeSlicePool if IPAM has no network_name.
type Network struct {
	Namespace, Name string
	IPAM            IPAM
}

// config is the CNI configuration, with what a node adds to the ipam section.
func (n Network) config(master string, more IPAM) []byte {
	ipam := IPAM{"type": "whereabouts"}
	maps.Copy(ipam, n.IPAM)
	maps.Copy(ipam, more)
	config, err := json.Marshal(map[string]any{
		"cniVersion": "1.0.0", "name": n.Name, "type": "macvlan", "master": master, "mode": "bridge", "ipam": ipam,
	})
	if err != nil {
		panic(fmt.Sprintf("the IPAM of network %s is no JSON: %v", n.Name, err))
	}
	return config
}

// CreateNAD creates the network's NetworkAttachmentDefinition. The master in it is
// that of a real cluster, not the link of a Node here.
func (c *Cluster) CreateNAD(ctx context.Context, n Network) error {
	_, err := c.dynamic.Resource(NADs).Namespace(n.Namespace).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "k8s.cni.cncf.io/v1",
		"kind":       "NetworkAttachmentDefinition",
		"metadata":   map[string]any{"name": n.Name},
		"spec":       map[string]any{"config": string(n.config("eth1", nil))},
	}}, metav1.CreateOptions{})
	return err
}
