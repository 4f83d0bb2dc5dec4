package e2e

import (
	"context"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// A realNode is a node with the real containerd and our agent. Nothing of it is
// made up but kubelet, whose part the test plays.
type realNode struct {
	*harness.Runtime
	s     *stage
	name  string
	agent *command
}

// everyContainerd runs a scenario with every containerd there is.
func everyContainerd(t *testing.T, scenario func(t *testing.T, flavour harness.Flavour)) {
	t.Parallel()
	for _, f := range []harness.Flavour{harness.ContainerdV2, harness.ContainerdDebian} {
		t.Run(f.Name, func(t *testing.T) {
			if why := f.Unsupported(); why != "" {
				t.Skip(why)
			}
			t.Parallel()
			scenario(t, f)
		})
	}
}

// realNode starts containerd and the agent on one of the stage's nodes.
func (s *stage) realNode(t *testing.T, name string, flavour harness.Flavour, wiring ...harness.Wiring) *realNode {
	t.Helper()
	try(shipped()).must(t)
	n := &realNode{Runtime: harness.NewRuntime(t, s.nodes[name], flavour, wiring...), s: s, name: name}
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

// stopAgent ends it as kubelet does.
func (n *realNode) stopAgent(t testing.TB) {
	t.Helper()
	n.agent.stop(t)
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

// object is the pod as it is before its sandbox is made.
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

// sees waits until a fresh report of the node has the id so: "Ready", "NotReady"
// (its network open or not known), "Stopped", "Attached", "Gone".
func (n *realNode) sees(t testing.TB, id, state string) *v1alpha1.SandboxReport {
	t.Helper()
	r := n.s.reported(t, n.name, id[:12]+" as "+state, func(r *v1alpha1.SandboxReport) bool { return stateIn(r, id) == state })
	n.s.fresh(t, n.name)
	return r
}

func stateIn(r *v1alpha1.SandboxReport, id string) string {
	for _, s := range r.Sandboxes {
		switch {
		case s.ID != id:
		case s.State == v1alpha1.SandboxReady:
			return "Ready"
		case podstate.Closed(s.NetworkClosed):
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

// runtimeNetwork makes a network that Multus attaches real pods to.
func (s *stage) runtimeNetwork(t testing.TB, name, cidr string) harness.Network {
	t.Helper()
	n := simple(name, cidr)
	check(t, s.CreateNAD(t.Context(), n))
	return n
}

// object reads a pod back.
func (p *livePod) read(t testing.TB) *corev1.Pod {
	t.Helper()
	return try(p.n.s.Client().CoreV1().Pods(p.Namespace).Get(t.Context(), p.Name, metav1.GetOptions{})).must(t)
}
