package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/invoke"
	current "github.com/containernetworking/cni/pkg/types/100"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Node has sandboxes, a Ready Node object, a link for macvlan, whereabouts' configuration and a runtime's CNI cache.
// All Nodes are in the machine's own network namespace.
type Node struct {
	Name string
	// CacheDir is libcni's: a file results/<network>-<container id>-<ifname> for
	// each attachment from the end of its ADD to its DEL.
	CacheDir string

	cluster *ControlPlane
	dir     string
	master  string
	cni     *libcni.CNIConfig
}

// An Attachment is one interface of one sandbox, for one pod.
type Attachment struct {
	Sandbox             *Sandbox
	Namespace, Pod, UID string
	IfName              string
	Network             Network
}

// NewNode creates a node that exists as long as the cluster.
func NewNode(t testing.TB, c *ControlPlane, name string) *Node {
	t.Helper()
	n, err := c.AddNode(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// AddNode is NewNode outside of tests.
func (c *ControlPlane) AddNode(ctx context.Context, name string) (*Node, error) {
	dir := filepath.Join(c.run.dir, "node-"+name)
	n := &Node{Name: name, cluster: c, dir: dir, CacheDir: filepath.Join(dir, "cni-cache")}
	if err := os.MkdirAll(filepath.Join(dir, "netns"), 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(n.flatFile(), n.flat(c.pluginKubeconfig()), 0o600); err != nil {
		return nil, err
	}
	if err := n.addMaster(); err != nil {
		return nil, fmt.Errorf("making the link that macvlan sits on: %w", err)
	}
	n.cni = libcni.NewCNIConfigWithCacheDir([]string{c.bin}, n.CacheDir,
		onNode{Exec: &invoke.DefaultExec{RawExec: &invoke.RawExec{}}, name: name})
	if err := n.register(ctx); err != nil {
		return nil, fmt.Errorf("creating Node %s: %w", name, err)
	}
	return n, nil
}

// onNode sets the node's name for plugins: whereabouts prefers $NODENAME to /etc/hostname, and one test process plays
// many nodes.
type onNode struct {
	invoke.Exec
	name string
}

func (e onNode) ExecPlugin(ctx context.Context, plugin string, stdin []byte, env []string) ([]byte, error) {
	return e.Exec.ExecPlugin(ctx, plugin, stdin, append(env, "NODENAME="+e.name))
}

// addMaster creates the master link: one end of a veth pair. Unlike a bridge without ports it is up, as macvlan
// requires, and has IPv6.
func (n *Node) addMaster() error {
	suffix := randomHex(2)
	n.master = linkPrefix(n.cluster.run.id) + "m" + suffix
	peer := linkPrefix(n.cluster.run.id) + "p" + suffix
	return addVeth(n.master, peer)
}

func addVeth(name, peer string) error {
	if err := iproute("link", "add", name, "up", "type", "veth", "peer", "name", peer); err != nil {
		return err
	}
	return iproute("link", "set", peer, "up")
}

func (n *Node) flatFile() string { return filepath.Join(n.dir, "whereabouts.conf") }

// flat is whereabouts' own configuration, the same for all networks.
func (n *Node) flat(kubeconfig string) []byte {
	return asJSON(map[string]any{
		"datastore":  "kubernetes",
		"kubernetes": map[string]string{"kubeconfig": kubeconfig},
		"log_file":   filepath.Join(n.dir, "whereabouts.log"),
		"log_level":  "debug",
	})
}

// register creates the Node object as kubelet would, with this machine's boot id, as a machine of its own.
func (n *Node) register(ctx context.Context) error {
	nodes := n.cluster.client.CoreV1().Nodes()
	node, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:   n.Name,
		Labels: map[string]string{"kubernetes.io/os": "linux", "kubernetes.io/hostname": n.Name},
	}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	bootID, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return err
	}
	node.Status.NodeInfo.BootID = strings.TrimSpace(string(bootID))
	node.Status.NodeInfo.SystemUUID, node.Status.NodeInfo.MachineID = "uuid-of-"+n.Name, "machine-of-"+n.Name
	node.Status.NodeInfo.OperatingSystem = "linux"
	if _, err = nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		return err
	}
	return n.SetReady(ctx, true)
}

// SetBootID reports another boot, as kubelet does after one.
func (n *Node) SetBootID(ctx context.Context, id string) error {
	_, err := n.cluster.client.CoreV1().Nodes().Patch(ctx, n.Name, types.StrategicMergePatchType,
		asJSON(map[string]any{"status": map[string]any{"nodeInfo": map[string]string{"bootID": id}}}), metav1.PatchOptions{},
		"status")
	return err
}

// SetReady sets the node Ready, or Unknown, as the node lifecycle controller does.
func (n *Node) SetReady(ctx context.Context, ready bool) error {
	condition := corev1.NodeCondition{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
		LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
	}
	if !ready {
		condition.Status, condition.Reason = corev1.ConditionUnknown, "NodeStatusUnknown"
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{condition}}})
	if err != nil {
		return err
	}
	_, err = n.cluster.client.CoreV1().Nodes().Patch(ctx, n.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{}, "status")
	return err
}

// Add calls ADD: macvlan in the sandbox's network namespace, with an address from the real whereabouts. The plugin
// waits up to two minutes for its Lease. A context that ends earlier kills macvlan but not the whereabouts below it.
func (n *Node) Add(ctx context.Context, a Attachment) (*current.Result, error) {
	network, rt, err := n.call(a)
	if err != nil {
		return nil, err
	}
	result, err := n.cni.AddNetwork(ctx, network, rt)
	if err != nil {
		return nil, fmt.Errorf("CNI ADD of %s/%s %s to network %s: %w", a.Namespace, a.Pod, a.IfName, a.Network.Name, err)
	}
	return current.NewResultFromResult(result)
}

// Del calls DEL. The plugin swallows its own errors: nil does not mean that the allocation was released.
func (n *Node) Del(ctx context.Context, a Attachment) error {
	network, rt, err := n.call(a)
	if err != nil {
		return err
	}
	if err := n.cni.DelNetwork(ctx, network, rt); err != nil {
		return fmt.Errorf("CNI DEL of %s/%s %s from network %s: %w", a.Namespace, a.Pod, a.IfName, a.Network.Name, err)
	}
	return nil
}

// call makes libcni's arguments as Multus does.
func (n *Node) call(a Attachment) (*libcni.PluginConfig, *libcni.RuntimeConf, error) {
	if a.Sandbox == nil {
		return nil, nil, errors.New("the attachment has no sandbox: make one with NewSandbox")
	}
	network, err := libcni.NetworkPluginConfFromBytes(a.Network.config(n.master, IPAM{"configuration_path": n.flatFile()}))
	return network, &libcni.RuntimeConf{
		ContainerID: a.Sandbox.ID,
		NetNS:       a.Sandbox.NetNS,
		IfName:      a.IfName,
		Args: [][2]string{
			{"IgnoreUnknown", "true"},
			{"K8S_POD_NAMESPACE", a.Namespace},
			{"K8S_POD_NAME", a.Pod},
			{"K8S_POD_INFRA_CONTAINER_ID", a.Sandbox.ID},
			{"K8S_POD_UID", a.UID},
		},
	}, err
}

// Addresses returns the addresses of a result.
func Addresses(result *current.Result) []netip.Addr {
	var all []netip.Addr
	for _, ip := range result.IPs {
		if a, ok := netip.AddrFromSlice(ip.Address.IP); ok {
			all = append(all, a.Unmap())
		}
	}
	return all
}
