package sim

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/agent"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
)

const (
	ownNamespace   = "ip-reconcile"
	leaseNamespace = "ip-reconcile-node-lease"
	podNamespace   = "default"
)

type key = fakeapi.Key

// network is a network of whereabouts with one pool, which other networks may share; or, with slices, with a pool for
// each node, which is a network of its own here.
type network struct {
	nad, name string // its definition, and its network_name
	cidr      netip.Prefix
	unchecked bool     // enable_overlapping_ranges: false
	pool      key      // the zero key with slices
	sliceBits int      // the length of their prefixes, 0 for none
	of        *network // whose slice it is, nil for none
	node      string   // which has the slice
	edited    bool     // its definition named another range, or was deleted, for a time
	// what ADDs leave out, and their bounds, as the definition has them; "" for none
	exclude, start, end string
}

func (n *network) wasEdited() bool { return n.edited || n.of != nil && n.of.edited }

func newNetwork(nad, name string, cidr netip.Prefix, unchecked bool) *network {
	pool := strings.NewReplacer(":", "-", "/", "-").Replace(cidr.String())
	if name != "" {
		pool = name + "-" + pool
	}
	return &network{nad: nad, name: name, cidr: cidr, unchecked: unchecked,
		pool: fakeapi.At(fakeapi.Pools, kubeSystem, pool)}
}

// node is a machine with its kubelet, runtime and agent.
type node struct {
	name      string
	up        bool      // powered
	linked    bool      // reaches the API server
	linkedAt  time.Time // again
	kubelet   bool      // runs
	registers bool      // its Node object was deleted, and kubelet registers it within seconds
	lostAt    time.Time // when a restore began whose backup lacks its Node object; zero for never
	madeAt    time.Time // its Node object, the last time
	boot      int
	machine   int
	skew      time.Duration // of its clock
	loseDELs  int           // how many DELs never happen
	blind     time.Time     // until when kubelet receives no changes from the API
	tells     bool          // the runtime reports whether a network is closed
	hasAgent  bool
	lies      bool // its agent does
	agent     *nodeAgent
	sandboxes []*sandbox
	plugin    *client // whereabouts' process on the node
	syncing   bool
}

func (n *node) reaches() bool { return n.up && n.linked }

// connect makes the node reach the API server again.
func (n *node) connect() {
	if !n.linked {
		n.linked, n.linkedAt = true, time.Now()
	}
}

func (n *node) bootID() string { return fmt.Sprintf("boot-%s-%d-%d", n.name, n.machine, n.boot) }

func (n *node) identity() agent.Identity {
	return agent.Identity{BootID: n.bootID(), Machine: v1alpha1.Machine{SystemUUID: fmt.Sprintf("uuid-%s-%d", n.name,
		n.machine), MachineID: fmt.Sprintf("machine-%s-%d", n.name, n.machine)}}
}

// podName is the name of a pod, and the networks of all pods with that name, one for each interface.
type podName struct {
	namespace, name string
	nets            []*network
	reported        *sandbox // whose addresses kubelet and Multus wrote last
	machine         *machine // whose pods have the name; nil for none
}

func (p *podName) ref() string { return p.namespace + "/" + p.name }

// annotation is the list of networks as Multus reads it.
func (p *podName) annotation() string {
	var names []string
	for _, n := range p.nets {
		names = append(names, n.nad)
	}
	return strings.Join(names, ",")
}

func (p *podName) key() key { return fakeapi.At(fakeapi.Pods, p.namespace, p.name) }

// silent reports whether nothing on the node could report what runs. Kubelet does when its next turn comes, the agent
// when it renews its report, and a pass may have read before that.
func (n *node) silent() bool {
	isBlind := time.Since(n.blind) < kubeletsTurn+evidenceLasts
	isBack := time.Since(n.linkedAt) < everyAgentWrites+evidenceLasts
	return (!n.kubelet || isBlind) && (n.agent == nil || n.agent.cancel == nil || isBack)
}

// sandbox is a sandbox of a pod. While it is open and attached, its addresses are in use.
type sandbox struct {
	id, uid     string
	pod         *podName
	node        *node
	attachments []*attachment // at least one
	attempt     int
	adding      bool // Multus' ADD is in progress
	open        bool // its network namespace exists
	ending      bool // it is being stopped
	cached      bool // in a CNI cache
	listed      bool // by the runtime
	ready       bool
	hangs       bool // does not end
	retained    bool // stays listed after its end
	since       time.Time
	process     *client // whereabouts' last one for it
}

func (b *sandbox) String() string {
	return fmt.Sprintf("%s of %s on %s", b.id[:6], b.pod.ref(), b.node.name)
}

// podObject is what the simulation reads from a Pod.
type podObject struct {
	Metadata struct {
		UID      string     `json:"uid"`
		Deletion *time.Time `json:"deletionTimestamp"`
	} `json:"metadata"`
	Spec struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		Phase string `json:"phase"`
	} `json:"status"`
}

func (s *Simulation) podObject(p *podName) *podObject {
	o := s.api.Get(p.key())
	if o == nil {
		return nil
	}
	if o.Memo == nil {
		pod := &podObject{}
		_ = json.Unmarshal(o.JSON, pod)
		o.Memo = pod
	}
	return o.Memo.(*podObject)
}

// edit changes an object without a precondition.
func (s *Simulation) edit(k key, by string, change func(map[string]any)) {
	o := s.api.Get(k)
	if o == nil {
		return
	}
	content := fakeapi.Decode(o.JSON)
	change(content)
	s.api.Put(k, content, s.api.Now(), by)
}

func section(content map[string]any, name string) map[string]any {
	m, _ := content[name].(map[string]any)
	if m == nil {
		m = map[string]any{}
		content[name] = m
	}
	return m
}

// makePod creates a pod of the name on a node, unless one exists, or another one of its machine.
func (s *Simulation) makePod(p *podName, n *node) {
	if s.away || s.api.Get(p.key()) != nil || p.machine != nil && s.runs(p.machine) {
		return
	}
	s.uids++
	s.api.Put(p.key(), map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"uid": fmt.Sprintf("uid-%03d", s.uids),
			"annotations": map[string]any{"k8s.v1.cni.cncf.io/networks": p.annotation()}},
		"spec":   map[string]any{"nodeName": n.name, "containers": []any{map[string]any{"name": "main"}}},
		"status": map[string]any{"phase": "Pending"},
	}, s.api.Now(), "scheduler")
	s.say("pod %s (uid-%03d) is made on %s", p.ref(), s.uids, n.name)
	s.wake(n)
}

// deletePod deletes a pod, gracefully or by force.
func (s *Simulation) deletePod(p *podName, force bool) {
	o := s.podObject(p)
	if o == nil || s.away {
		return
	}
	if force {
		s.api.Delete(p.key())
		s.say("pod %s is deleted by force", p.ref())
	} else if o.Metadata.Deletion == nil {
		s.edit(p.key(), "user", func(c map[string]any) {
			m := section(c, "metadata")
			m["deletionTimestamp"], m["deletionGracePeriodSeconds"] = s.api.Now().Add(5*time.Second).UTC().Format(time.RFC3339),
				5
		})
		s.say("pod %s is deleted", p.ref())
	}
	if n := s.nodeNamed(o.Spec.NodeName); n != nil {
		s.wake(n)
	}
}

func (s *Simulation) nodeNamed(name string) *node {
	for _, n := range s.nodes {
		if n.name == name {
			return n
		}
	}
	return nil
}

// publishNode writes a Node as kubelet does.
func (s *Simulation) publishNode(n *node) {
	if s.away || !n.reaches() || !n.kubelet {
		return
	}
	id := n.identity()
	s.writeNode(n, "True", map[string]any{"bootID": id.BootID, "systemUUID": id.Machine.SystemUUID,
		"machineID": id.Machine.MachineID})
}

// writeNode stores a Node with a Ready condition; without info it keeps what kubelet wrote last.
func (s *Simulation) writeNode(n *node, ready string, info map[string]any) {
	k := fakeapi.At(fakeapi.Nodes, "", n.name)
	content := map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{}}
	if o := s.api.Get(k); o != nil {
		content = fakeapi.Decode(o.JSON)
	} else if info == nil {
		return
	} else {
		n.madeAt = time.Now()
	}
	section(content, "metadata")["labels"] = map[string]any{"kubernetes.io/os": "linux"}
	status := section(content, "status")
	since := s.api.Now().UTC().Format(time.RFC3339)
	if before, _ := status["conditions"].([]any); len(before) > 0 {
		if c, _ := before[0].(map[string]any); c["status"] == ready {
			since, _ = c["lastTransitionTime"].(string)
		}
	}
	status["conditions"] = []any{map[string]any{"type": "Ready", "status": ready, "lastTransitionTime": since}}
	if info != nil {
		status["nodeInfo"] = info
	}
	s.api.Put(k, content, s.api.Now(), "kubelet")
}
