package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/ip-reconcile/ip-reconcile/agent/cri/critest"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// A fakeNode is a node of which the test simulates everything that a node agent reads: a CRI server, CNI caches, a
// folder of network namespaces.
type fakeNode struct {
	*critest.Server
	name                   string
	results, multus, netns string
	bootID                 string // path of the file
}

func newFakeNode(t testing.TB, name string, style critest.Style) *fakeNode {
	t.Helper()
	dir := t.TempDir()
	n := &fakeNode{Server: critest.Start(t, style), name: name,
		results: filepath.Join(dir, "results"), multus: filepath.Join(dir, "multus"), netns: filepath.Join(dir, "netns"),
		bootID: "/proc/sys/kernel/random/boot_id",
	}
	for _, d := range []string{n.results, n.multus, n.netns} {
		check(t, os.Mkdir(d, 0o700))
	}
	return n
}

// sandbox creates a sandbox with a network namespace and, in the caches, an address of whereabouts on net1.
func (n *fakeNode) sandbox(t testing.TB, i int, cidr, ip string) critest.Sandbox {
	t.Helper()
	b := critest.Sandbox{
		ID: fmt.Sprintf("%064x", i+1), Namespace: "default", Name: fmt.Sprintf("web-%d", i),
		UID:       fmt.Sprintf("00000000-0000-4000-8000-%012d", i),
		CreatedAt: time.Now().Add(-time.Hour), NetNS: filepath.Join(n.netns, fmt.Sprintf("cni-%d", i)),
	}
	n.attach(t, b)
	n.whereabouts(t, b, cidr, ip)
	return b
}

// attach creates its network namespace, and its eth0 in the cache.
func (n *fakeNode) attach(t testing.TB, b critest.Sandbox) {
	t.Helper()
	check(t, os.WriteFile(b.NetNS, nil, 0o600))
	n.cache(t, b, "eth0", map[string]any{"cniVersion": "1.0.0", "name": "podnet", "type": "bridge",
		"ipam": map[string]any{"type": "host-local"}}, "172.16.0.9/24")
}

// whereabouts writes what Multus keeps of its net1 with an address of whereabouts.
func (n *fakeNode) whereabouts(t testing.TB, b critest.Sandbox, cidr, ip string) {
	t.Helper()
	blue := map[string]any{"cniVersion": "1.0.0", "name": "blue", "type": "macvlan",
		"ipam": map[string]any{"type": "whereabouts", "range": cidr}}
	n.cache(t, b, "net1", blue, ip+cidr[strings.Index(cidr, "/"):])
	check(t, os.WriteFile(filepath.Join(n.multus, b.ID),
		try(json.Marshal([]map[string]any{{"Bytes": try(json.Marshal(blue)).must(t)}})).must(t), 0o600))
}

// cache writes a result as libcni does: of the default network beside those of the runtime, others beside those of
// Multus.
func (n *fakeNode) cache(t testing.TB, b critest.Sandbox, ifName string, config map[string]any, address string) {
	t.Helper()
	text := try(json.Marshal(map[string]any{
		"kind": "cniCacheV1", "containerId": b.ID, "config": try(json.Marshal(config)).must(t), "ifName": ifName,
		"networkName": config["name"],
		"netns":       b.NetNS,
		"cniArgs":     [][2]string{{"K8S_POD_NAMESPACE", b.Namespace}, {"K8S_POD_NAME", b.Name}, {"K8S_POD_UID", b.UID}},
		"result": map[string]any{"cniVersion": "1.0.0",
			"interfaces": []map[string]any{{"name": ifName, "sandbox": b.NetNS}},
			"ips":        []map[string]any{{"interface": 0, "address": address}}},
	})).must(t)
	dir := n.results
	if ifName != "eth0" {
		dir = filepath.Join(n.multus, "results")
		check(t, os.MkdirAll(dir, 0o700))
	}
	check(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%s-%s", config["name"], b.ID, ifName)), text, 0o600))
}

// agent starts the product's agent on the node, with more flags.
func (n *fakeNode) agent(t testing.TB, kubeconfig string, more ...string) *command {
	t.Helper()
	c := beginProgram(t, shipped.program(t, "ip-reconcile-agent"), append([]string{"--node", n.name, "--outside-pod",
		"--kubeconfig", kubeconfig, "--cri", n.Socket,
		"--cni-results", n.results, "--cni-multus", n.multus, "--netns-dir", n.netns, "--boot-id-file", n.bootID,
		"--metrics-bind-address", "127.0.0.1:0", "--log-level", "debug"}, more...)...)
	c.logOnFailure(n.name)
	return c
}

// logOnFailure logs an agent's output when its test fails.
func (c *command) logOnFailure(node string) {
	c.t.Cleanup(func() {
		if c.t.Failed() {
			c.t.Logf("the agent of %s said:\n%s", node, shortened(c.stderr.String()))
		}
	})
}

// stop ends a command as kubelet does.
func (c *command) stop(t testing.TB) {
	t.Helper()
	check(t, c.cmd.Process.Signal(syscall.SIGTERM))
	c.wait()
}

// report is a node's SandboxReport, nil if there is none.
func (s *stage) report(t testing.TB, node string) *v1alpha1.SandboxReport {
	t.Helper()
	u, err := s.Dynamic().Resource(sandboxReports).Get(t.Context(), node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	check(t, err)
	r := &v1alpha1.SandboxReport{}
	check(t, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, r))
	return r
}

// reported waits until a node's report is as expected.
func (s *stage) reported(t testing.TB, node, what string,
	is func(r *v1alpha1.SandboxReport) bool) (r *v1alpha1.SandboxReport) {
	t.Helper()
	eventually(t, "the report of "+node+" to have "+what, func() bool {
		r = s.report(t, node)
		return r != nil && is(r)
	})
	return r
}

// fresh waits until the node's Lease confirms its report.
func (s *stage) fresh(t testing.TB, node string) {
	t.Helper()
	eventually(t, "the Lease of "+node+" to vouch for its report", func() bool {
		lease, err := s.Client().CoordinationV1().Leases(harness.LeaseNamespace).Get(t.Context(), node, metav1.GetOptions{})
		r := s.report(t, node)
		return err == nil && r != nil && lease.Annotations[v1alpha1.HashAnnotation] == podstate.Hash(r)
	})
}

// owned creates a node's sandbox for a pod with addresses from the real plugin.
func (n *fakeNode) owned(t testing.TB, p *pod) critest.Sandbox {
	t.Helper()
	b := critest.Sandbox{
		ID: p.sandbox.ID, Namespace: p.Namespace, Name: p.Name, UID: string(p.UID),
		CreatedAt: time.Now().Add(-time.Hour), NetNS: filepath.Join(n.netns, p.sandbox.ID[:12]),
	}
	n.attach(t, b)
	for _, a := range p.addresses() {
		n.whereabouts(t, b, a.Range, a.IP)
	}
	return b
}

// forget removes a sandbox's files, as DEL and the end of its namespace do.
func (n *fakeNode) forget(t testing.TB, b critest.Sandbox) {
	t.Helper()
	for _, dir := range []string{n.results, n.multus, filepath.Join(n.multus, "results")} {
		files := try(filepath.Glob(filepath.Join(dir, "*"+b.ID+"*"))).must(t)
		for _, f := range files {
			check(t, os.Remove(f))
		}
	}
	check(t, os.Remove(b.NetNS))
}

// A realNode is a node with the real containerd and our agent. Only kubelet is simulated: the test acts for it.
type realNode struct {
	*harness.Runtime
	s       *stage
	name    string
	flavour harness.Flavour
	agent   *command
}

// everyContainerd plays on a node with each containerd.
func everyContainerd(t *testing.T, play func(t *testing.T, s *stage, n *realNode)) {
	t.Parallel()
	for _, f := range harness.Flavours() {
		t.Run(f.Name, func(t *testing.T) {
			if why := f.Unsupported(); why != "" {
				t.Skip(why)
			}
			t.Parallel()
			s := newStageWithReports(t, "worker-1")
			play(t, s, s.realNode(t, "worker-1", f))
		})
	}
}

// realNode starts containerd and the agent on one of the stage's nodes.
func (s *stage) realNode(t *testing.T, name string, flavour harness.Flavour) *realNode {
	t.Helper()
	try(shipped()).must(t)
	n := &realNode{Runtime: harness.NewRuntime(t, s.nodes[name], flavour), s: s, name: name, flavour: flavour}
	n.startAgent(t)
	return n
}

// startAgent starts the agent on the node, with more flags.
func (n *realNode) startAgent(t testing.TB, more ...string) {
	t.Helper()
	program := shipped.program(t, "ip-reconcile-agent")
	n.agent = start(t, n.Command(context.Background(), program, append([]string{"--node", n.name, "--outside-pod",
		"--kubeconfig", n.s.Kubeconfig(), "--metrics-bind-address", "127.0.0.1:0", "--log-level", "debug"}, more...)...))
	n.agent.logOnFailure(n.name)
}

// A livePod is a pod in the real runtime, on a whereabouts network by Multus.
type livePod struct {
	*corev1.Pod
	n  *realNode
	id string // of its sandbox
}

// up brings a pod up as kubelet does. Multus writes the network-status itself.
func (n *realNode) up(t testing.TB, name string, networks ...harness.Network) *livePod {
	t.Helper()
	p := n.object(t, name, networks...)
	p.id = try(n.RunPod(t.Context(), p.spec())).must(t)
	p.Pod = try(n.s.SetRunning(t.Context(), p.Pod)).must(t)
	return p
}

// object is the pod before its sandbox is created.
func (n *realNode) object(t testing.TB, name string, networks ...harness.Network) *livePod {
	t.Helper()
	return &livePod{Pod: try(n.s.CreatePod(t.Context(), "default", name, n.name, networks...)).must(t), n: n}
}

func (p *livePod) spec() harness.PodSpec {
	return harness.PodSpec{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)}
}

// forget deletes the pod object behind kubelet's back.
func (p *livePod) forget(t testing.TB) {
	t.Helper()
	check(t, p.n.s.DeletePod(t.Context(), p.Pod, 0))
}

// sees waits until a fresh report of the node has the id in this state: "Ready", "NotReady" (its network open or
// unknown), "Stopped", "Attached", "Gone".
func (n *realNode) sees(t testing.TB, id, state string) *v1alpha1.SandboxReport {
	t.Helper()
	r := n.s.reported(t, n.name, id[:12]+" as "+state, func(r *v1alpha1.SandboxReport) bool {
		return stateIn(r, id) == state
	})
	n.s.fresh(t, n.name)
	return r
}

func stateIn(r *v1alpha1.SandboxReport, id string) string {
	for _, s := range r.Sandboxes {
		switch {
		case s.ID != id:
		case s.State == v1alpha1.SandboxReady:
			return "Ready"
		case podstate.IsClosed(s.NetworkClosed):
			return "Stopped"
		default:
			return "NotReady"
		}
	}
	if slices.ContainsFunc(r.Attachments, func(a v1alpha1.Attachment) bool { return a.ID == id }) {
		return "Attached"
	}
	if slices.ContainsFunc(r.Gone, func(g v1alpha1.Gone) bool { return g.ID == id }) {
		return "Gone"
	}
	return ""
}

// answers checks whether an address is configured in a network namespace of the node.
func (n *realNode) answers(t testing.TB, ip string, want bool) {
	t.Helper()
	if got := n.Answers(t, netip.MustParseAddr(ip)); got != want {
		t.Errorf("%s on %s answers: %t, want %t", ip, n.name, got, want)
	}
}

// read reads the pod from the API.
func (p *livePod) read(t testing.TB) *corev1.Pod {
	t.Helper()
	return try(p.n.s.Client().CoreV1().Pods(p.Namespace).Get(t.Context(), p.Name, metav1.GetOptions{})).must(t)
}
