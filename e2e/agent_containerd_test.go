//go:build slow

package e2e

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/clientcmd"

	nodeagent "github.com/ip-reconcile/ip-reconcile/agent"
	"github.com/ip-reconcile/ip-reconcile/agent/cnicache"
	"github.com/ip-reconcile/ip-reconcile/agent/cri"
	"github.com/ip-reconcile/ip-reconcile/agent/cri/critest"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

func TestTheClockOfANodeReleasesNothing(t *testing.T) {
	t.Parallel()
	for what, off := range map[string]time.Duration{"behind": -2 * time.Minute, "ahead": 2 * time.Minute} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newStageWithReports(t, "worker-1")
			n := newFakeNode(t, "worker-1", critest.CRIO)
			blue := simple("blue", "10.1.0.0/24")
			live, phantom, window, gone := s.up(t, "worker-1", "live", blue), s.up(t, "worker-1", "phantom", blue), s.up(t, "worker-1", "window", blue), s.up(t, "worker-1", "gone", blue)
			box := n.owned(t, gone)
			n.Set(n.another(t), n.owned(t, live), n.owned(t, phantom), box)
			check(t, os.WriteFile(filepath.Join(n.multus, window.sandbox.ID), []byte(`[]`), 0o600)) // Multus has just begun
			for _, p := range []*pod{phantom, window, gone} {
				p.forceDelete(t)
			}
			n.inProcess(t, s, func() time.Time { return time.Now().Add(off) })
			s.reported(t, "worker-1", "the attachment", func(r *v1alpha1.SandboxReport) bool { return stateIn(r, window.sandbox.ID) == "Attached" })
			s.fresh(t, "worker-1")
			before := s.contents(t)
			out := s.run(t)
			out.expect(t, "10.1.0.0-24 10.1.0.1", "InUse SandboxReady", "10.1.0.0-24 10.1.0.2", "Held PhantomPod",
				"10.1.0.0-24 10.1.0.3", "Held Attached", "10.1.0.0-24 10.1.0.4", "Held PhantomPod")
			s.lost(t, before)
			box.NotReady = true
			check(t, os.Remove(box.NetNS))
			n.Set(n.another(t), n.owned(t, live), n.owned(t, phantom), box)
			s.reported(t, "worker-1", "it stopped", func(r *v1alpha1.SandboxReport) bool { return stateIn(r, box.ID) == "Stopped" })
			s.fresh(t, "worker-1")
			s.run(t)
			s.lost(t, before, "10.1.0.0-24 4", "reservation 10.1.0.4")
		})
	}
}

// inProcess runs the agent in the test's own process, with a clock of its own.
func (n *fakeNode) inProcess(t testing.TB, s *stage, clock func() time.Time) {
	t.Helper()
	config := try(clientcmd.BuildConfigFromFlags("", s.Kubeconfig())).must(t)
	store := try(nodeagent.NewAPIStore(config, n.name, harness.LeaseNamespace)).must(t)
	store.Now = clock
	runtime := try(cri.Dial(n.Socket)).must(t)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		(&nodeagent.Agent{
			Node: n.name, Store: store, Identity: func(context.Context, *v1alpha1.SandboxReport) (nodeagent.Identity, error) {
				return nodeagent.Identity{}, nil
			},
			Inspector: &nodeagent.NodeInspector{Runtime: runtime, Caches: cnicache.New(cnicache.Folders{Results: n.results, Multus: n.multus}), NetNSDirs: []string{n.netns}, Now: clock},
			Health:    nodeagent.NewHealth(slog.New(slog.DiscardHandler), prometheus.NewRegistry()),
		}).Run(ctx)
	}()
	t.Cleanup(func() { stop(); <-done; runtime.Close() })
}

// TestANodeWithoutAnAgentIsInspectedByHand: --cri asks the runtime itself.
func TestANodeWithoutAnAgentIsInspectedByHand(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2")
	blue := s.runtimeNetwork(t, "blue", "10.1.0.0/24")
	n := &realNode{Runtime: harness.NewRuntime(t, s.nodes["worker-1"], harness.ContainerdV2), s: s, name: "worker-1"}
	live, phantom, stopped := n.up(t, "live", blue), n.up(t, "phantom", blue), n.up(t, "stopped", blue)
	elsewhere := s.up(t, "worker-2", "elsewhere", blue)
	phantom.forget(t)
	stopped.forget(t)
	elsewhere.leak(t)
	check(t, n.LoseDELs(true))
	check(t, n.StopPod(t.Context(), stopped.id))
	before := s.contents(t)
	_ = live

	// By the API alone a phantom looks like a leak.
	s.product(t, "check").expect(t, "10.1.0.0-24 10.1.0.2", "Stale PodGone")
	out := n.byHand(t, "run", "--confirm-after", "0")
	out.exits(t, 0)
	out.expect(t, "10.1.0.0-24 10.1.0.1", "InUse SandboxReady", "10.1.0.0-24 10.1.0.2", "Held PhantomPod", "10.1.0.0-24 10.1.0.4", "Held NoFreshReport")
	s.lost(t, before, "10.1.0.0-24 3", "reservation 10.1.0.3")

	out = n.byHand(t, "check", "--node", "worker-3")
	out.exits(t, 2)
	contains(t, "an unknown node", out.stderr, "worker-3", "--node")
	n.Kill()
	out = n.byHand(t, "check")
	out.exits(t, 2)
	contains(t, "a dead runtime", out.stderr, harness.Socket)
}

// byHand runs the product on the node, and has it ask the node's runtime.
func (n *realNode) byHand(t testing.TB, args ...string) *outcome {
	t.Helper()
	return start(t, n.Command(context.Background(), shipped.program(t, "ip-reconcile"), append([]string{args[0], "--cri", harness.Socket, "--node", n.name,
		"--kubeconfig", n.s.Kubeconfig(), "-o", "json"}, args[1:]...)...)).wait()
}
