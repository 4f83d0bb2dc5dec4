package e2e

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
	nodeagent "github.com/ip-reconcile/ip-reconcile/podstate/agent"
	"github.com/ip-reconcile/ip-reconcile/podstate/cnicache"
	"github.com/ip-reconcile/ip-reconcile/podstate/cri"
	"github.com/ip-reconcile/ip-reconcile/podstate/cri/critest"
	"github.com/ip-reconcile/ip-reconcile/podstate/v1alpha1"
)

// owned makes up a node's sandbox for a pod that the real plugin gave addresses.
func (n *madeUpNode) owned(t testing.TB, p *pod) critest.Sandbox {
	t.Helper()
	b := critest.Sandbox{
		ID: p.sandbox.ID, Namespace: p.Namespace, Name: p.Name, UID: string(p.UID),
		CreatedAt: time.Now().Add(-time.Hour), NetNS: filepath.Join(n.netns, p.sandbox.ID[:12]),
	}
	check(t, os.WriteFile(b.NetNS, nil, 0o600))
	return b
}

// another makes up a sandbox of no interest, whose namespace shows that the folder
// of namespaces is the node's.
func (n *madeUpNode) another(t testing.TB) critest.Sandbox {
	return n.box(t, 900, "10.9.0.0/24", "10.9.0.9")
}

func TestWhatSomeoneElseDoesToAReportIsMended(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1")
	n := newMadeUpNode(t, "worker-1", critest.Containerd)
	n.Set(n.box(t, 1, "10.1.0.0/24", "10.1.0.1"))
	a := n.agent(t, s.Kubeconfig())
	s.fresh(t, "worker-1")
	want := hashOf(s.report(t, "worker-1"))
	reports := s.Dynamic().Resource(sandboxReports)

	for what, change := range map[string]func(){
		"an entry that was removed": func() {
			_, err := reports.Patch(t.Context(), "worker-1", types.MergePatchType, []byte(`{"sandboxes":[]}`), metav1.PatchOptions{})
			check(t, err)
		},
		"a report that was deleted": func() { check(t, reports.Delete(t.Context(), "worker-1", metav1.DeleteOptions{})) },
	} {
		change()
		r := s.reported(t, "worker-1", what+" back", func(r *v1alpha1.SandboxReport) bool { return len(r.Sandboxes) == 1 })
		equal(t, what, hashOf(r), want)
		equal(t, what+": restored", r.Annotations[v1alpha1.RestoreAnnotation], "")
		s.fresh(t, "worker-1")
	}

	_, err := reports.Patch(t.Context(), "worker-1", types.MergePatchType, []byte(`{"metadata":{"labels":{"team":"net"}}}`), metav1.PatchOptions{})
	check(t, err)
	second := n.box(t, 2, "10.1.0.0/24", "10.1.0.2")
	n.Set(n.box(t, 1, "10.1.0.0/24", "10.1.0.1"), second)
	r := s.reported(t, "worker-1", "two sandboxes", func(r *v1alpha1.SandboxReport) bool { return len(r.Sandboxes) == 2 })
	equal(t, "the label that someone set", r.Labels["team"], "net")
	check(t, s.Client().CoordinationV1().Leases(metav1.NamespaceSystem).Delete(t.Context(), "worker-1", metav1.DeleteOptions{}))
	n.forget(t, second)
	n.Set(n.box(t, 1, "10.1.0.0/24", "10.1.0.1"))
	s.reported(t, "worker-1", "one sandbox", func(r *v1alpha1.SandboxReport) bool { return len(r.Sandboxes) == 1 && len(r.Gone) == 1 })
	s.fresh(t, "worker-1")
	a.stop(t)
}

func TestWhatIsGoneStaysGoneWhenTheAgentStartsAgain(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1")
	n := newMadeUpNode(t, "worker-1", critest.Containerd)
	first, second, third := n.box(t, 1, "10.1.0.0/24", "10.1.0.1"), n.box(t, 2, "10.1.0.0/24", "10.1.0.2"), n.box(t, 3, "10.1.0.0/24", "10.1.0.3")
	n.Set(first, second, third)
	a := n.agent(t, s.Kubeconfig())
	s.fresh(t, "worker-1")
	n.forget(t, first)
	n.Set(second, third)
	s.reported(t, "worker-1", "the first gone", func(r *v1alpha1.SandboxReport) bool { return stateIn(r, first.ID) == "Gone" })
	a.stop(t)
	n.forget(t, second)
	n.Set(third) // while nobody looks
	n.agent(t, s.Kubeconfig())
	r := s.reported(t, "worker-1", "the second gone", func(r *v1alpha1.SandboxReport) bool { return stateIn(r, second.ID) == "Gone" })
	equal(t, "the first", stateIn(r, first.ID), "Gone")
	equal(t, "its UID", r.Gone[0].UID, first.UID)
	equal(t, "the third", stateIn(r, third.ID), "Ready")
}

// forget removes a sandbox's files, as DEL and the end of its namespace do.
func (n *madeUpNode) forget(t testing.TB, b critest.Sandbox) {
	t.Helper()
	for _, dir := range []string{n.results, filepath.Join(n.multus, "results")} {
		files := must(filepath.Glob(filepath.Join(dir, "*"+b.ID+"*")))
		for _, f := range files {
			check(t, os.Remove(f))
		}
	}
	check(t, os.Remove(b.NetNS))
}

// TestAfterARestoreOfEtcdEveryAgentWritesAnew puts back a plain backup of etcd:
// resourceVersions run backwards, and what the agents wrote since is lost.
func TestAfterARestoreOfEtcdEveryAgentWritesAnew(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1", "worker-2")
	nodes := map[string]*madeUpNode{}
	for _, name := range []string{"worker-1", "worker-2"} {
		n := newMadeUpNode(t, name, critest.Containerd)
		n.Set(n.box(t, 1, "10.1.0.0/24", "10.1.0.1"))
		n.agent(t, s.Kubeconfig())
		nodes[name] = n
	}
	s.fresh(t, "worker-1")
	s.fresh(t, "worker-2")
	backup := filepath.Join(t.TempDir(), "backup")
	s.offline(t, func() { check(t, os.CopyFS(backup, os.DirFS(s.EtcdData()))) })
	s.fresh(t, "worker-1")

	// What comes after the backup: a sandbox that the reports name, and a leak.
	one := nodes["worker-1"]
	late := one.box(t, 2, "10.1.0.0/24", "10.1.0.2")
	one.Set(one.box(t, 1, "10.1.0.0/24", "10.1.0.1"), late)
	s.reported(t, "worker-1", "the late sandbox", func(r *v1alpha1.SandboxReport) bool { return stateIn(r, late.ID) == "Ready" })
	s.fresh(t, "worker-1")
	eventually(t, "worker-2 to renew after that", func() bool {
		lease, err := s.Client().CoordinationV1().Leases(metav1.NamespaceSystem).Get(t.Context(), "worker-2", metav1.GetOptions{})
		return err == nil && lease.Spec.RenewTime.After(s.report(t, "worker-1").ObservedAt.Time)
	})
	s.offline(t, func() {
		check(t, os.RemoveAll(s.EtcdData()))
		check(t, os.CopyFS(s.EtcdData(), os.DirFS(backup)))
	})
	s.leakByHand(t)

	for name := range nodes {
		r := s.reported(t, name, "the annotation of a restore", func(r *v1alpha1.SandboxReport) bool { return r.Annotations[v1alpha1.RestoreAnnotation] != "" })
		since := must(time.Parse(time.RFC3339, r.Annotations[v1alpha1.RestoreAnnotation]))
		if since.After(time.Now()) || time.Since(since) > 2*time.Minute {
			t.Errorf("%s says that it was restored at %s", name, since)
		}
		s.fresh(t, name)
	}
	equal(t, "the late sandbox", stateIn(s.report(t, "worker-1"), late.ID), "Ready")
	// Both have written since, so what is stale may go.
	before := s.contents(t)
	out := s.run(t)
	out.exits(t, 0)
	s.lost(t, before, "10.1.0.0-24 77")
}

// offline stops the control plane, does something, and starts it again.
func (s *stage) offline(t testing.TB, do func()) {
	t.Helper()
	s.StopAPI()
	s.StopEtcd()
	do()
	check(t, s.StartEtcd())
	check(t, s.StartAPI(t.Context()))
}

func (s *stage) leakByHand(t testing.TB) {
	t.Helper()
	s.pool(t, "10.1.0.0-24", "10.1.0.0/24", map[string]any{"77": entry("default/gone", noID)})
}

func TestNothingIsReleasedBeforeEveryAgentHasWrittenSinceARestore(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1", "worker-2")
	one, two := newMadeUpNode(t, "worker-1", critest.Containerd), newMadeUpNode(t, "worker-2", critest.Containerd)
	gone := one.box(t, 3, "10.1.0.0/24", "10.1.0.77")
	one.Set(one.box(t, 1, "10.1.0.0/24", "10.1.0.1"), gone)
	two.Set(two.box(t, 2, "10.1.0.0/24", "10.1.0.2"))
	one.agent(t, s.Kubeconfig())
	s.reported(t, "worker-1", "two sandboxes", func(r *v1alpha1.SandboxReport) bool { return len(r.Sandboxes) == 2 })
	one.forget(t, gone)
	one.Set(one.box(t, 1, "10.1.0.0/24", "10.1.0.1"))
	s.reported(t, "worker-1", "one of them gone", func(r *v1alpha1.SandboxReport) bool { return stateIn(r, gone.ID) == "Gone" })
	// The other agent is cut off from the API server when etcd comes back.
	var cut atomic.Bool
	p := &proxy{before: func(*http.Request) int {
		if cut.Load() {
			return http.StatusServiceUnavailable
		}
		return 0
	}}
	two.agent(t, p.start(t, s))
	s.fresh(t, "worker-1")
	s.fresh(t, "worker-2")
	backup := filepath.Join(t.TempDir(), "backup")
	s.offline(t, func() { check(t, os.CopyFS(backup, os.DirFS(s.EtcdData()))) })
	renewed := time.Now()
	eventually(t, "the agents to renew after the backup", func() bool {
		lease, err := s.Client().CoordinationV1().Leases(metav1.NamespaceSystem).Get(t.Context(), "worker-1", metav1.GetOptions{})
		return err == nil && lease.Spec.RenewTime.After(renewed)
	})
	cut.Store(true)
	s.offline(t, func() {
		check(t, os.RemoveAll(s.EtcdData()))
		check(t, os.CopyFS(s.EtcdData(), os.DirFS(backup)))
	})
	s.pool(t, "10.1.0.0-24", "10.1.0.0/24", map[string]any{"77": entry("default/gone", gone.ID)})
	before := s.contents(t)
	s.reported(t, "worker-1", "the annotation of a restore", func(r *v1alpha1.SandboxReport) bool { return r.Annotations[v1alpha1.RestoreAnnotation] != "" })
	s.fresh(t, "worker-1")
	out := s.run(t)
	out.exits(t, 1)
	out.expect(t, "10.1.0.0-24 10.1.0.77", "Stale PodGone proven")
	s.lost(t, before)
	contains(t, "the run", out.message("10.1.0.0-24 10.1.0.77"), "worker-2")
	cut.Store(false)
	eventuallyWithin(t, 2*time.Minute, "a release, since both have written", func() bool { return len(s.run(t).Released) > 0 })
	s.lost(t, before, "10.1.0.0-24 77")
}

// TestAnAgentThatIsNotHeardReleasesNothing is of agents that die, that are cut off,
// and whose clock is two minutes off.
func TestAnAgentThatIsNotHeardReleasesNothing(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1", "worker-2")
	other := newMadeUpNode(t, "worker-2", critest.Containerd)
	other.Set(other.another(t))
	other.agent(t, s.Kubeconfig())
	n := newMadeUpNode(t, "worker-1", critest.Containerd)
	live, phantom := s.up(t, "worker-1", "live", simple("blue", "10.1.0.0/24")), s.up(t, "worker-1", "phantom", simple("blue", "10.1.0.0/24"))
	n.Set(n.another(t), n.owned(t, live), n.owned(t, phantom))
	phantom.forceDelete(t)
	var cut atomic.Bool
	p := &proxy{before: func(*http.Request) int {
		if cut.Load() {
			return http.StatusServiceUnavailable
		}
		return 0
	}}
	a := n.agent(t, p.start(t, s))
	s.fresh(t, "worker-1")
	s.fresh(t, "worker-2")
	before := s.contents(t)
	heard := func(what string) {
		t.Helper()
		out := s.run(t)
		out.exits(t, 0)
		out.expect(t, "10.1.0.0-24 10.1.0.1", "InUse SandboxReady", "10.1.0.0-24 10.1.0.2", "Held PhantomPod")
		s.lost(t, before)
	}
	unheard := func(what string) {
		t.Helper()
		eventuallyWithin(t, 2*time.Minute, "the report to go stale: "+what, func() bool {
			out := s.product(t, "check")
			return out.verdicts()["10.1.0.0-24 10.1.0.2"] == "Held NodeUnheard"
		})
		out := s.run(t)
		out.exits(t, 0)
		equal(t, what+": released", places(out.Released), "")
		if len(out.found("SilentNode")) != 1 {
			t.Errorf("%s: no SilentNode is found", what)
		}
		s.lost(t, before)
	}
	heard("at first")
	cut.Store(true)
	unheard("cut off")
	cut.Store(false)
	s.fresh(t, "worker-1")
	eventuallyWithin(t, 2*time.Minute, "it to be heard again", func() bool { return s.product(t, "check").verdicts()["10.1.0.0-24 10.1.0.2"] == "Held PhantomPod" })
	heard("back")
	check(t, a.cmd.Process.Kill())
	unheard("dead")
}

func TestTheClockOfANodeReleasesNothing(t *testing.T) {
	t.Parallel()
	for what, off := range map[string]time.Duration{"behind": -2 * time.Minute, "ahead": 2 * time.Minute} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newStageWithReports(t, "worker-1")
			n := newMadeUpNode(t, "worker-1", critest.CRIO)
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
func (n *madeUpNode) inProcess(t testing.TB, s *stage, clock func() time.Time) {
	t.Helper()
	config := must(clientcmd.BuildConfigFromFlags("", s.Kubeconfig()))
	store := must(nodeagent.NewAPI(config, n.name, metav1.NamespaceSystem))
	store.Now = clock
	runtime := must(cri.Dial(n.Socket))
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		(&nodeagent.Agent{
			Node: n.name, Store: store, BootID: func(context.Context) (string, error) { return "", nil },
			Eye:   &nodeagent.Eyes{Runtime: runtime, Caches: cnicache.New(cnicache.Folders{Results: n.results, Multus: n.multus}), NetNSDirs: []string{n.netns}, Now: clock},
			State: nodeagent.NewState(slog.New(slog.NewTextHandler(io.Discard, nil)), prometheus.NewRegistry()),
		}).Run(ctx)
	}()
	t.Cleanup(func() { stop(); <-done; runtime.Close() })
}

// TestARebootSpokenAsCRIODoes: CRI-O wipes all sandboxes at a reboot, has no word on
// network namespaces, and sends no events. It is made up, since CRI-O cannot be
// installed here.
func TestARebootSpokenAsCRIODoes(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1")
	n := newMadeUpNode(t, "worker-1", critest.CRIO)
	blue := simple("blue", "10.1.0.0/24")
	back, lost := s.up(t, "worker-1", "back", blue), s.up(t, "worker-1", "lost", blue)
	n.Set(n.owned(t, back), n.owned(t, lost))
	a := n.agent(t, s.Kubeconfig())
	s.fresh(t, "worker-1")
	s.run(t).expect(t, "10.1.0.0-24 10.1.0.1", "InUse SandboxReady", "10.1.0.0-24 10.1.0.2", "InUse SandboxReady")
	a.stop(t)
	lost.forceDelete(t)

	check(t, s.nodes["worker-1"].SetBootID(t.Context(), "another boot"))
	s.product(t, "check").expect(t, "10.1.0.0-24 10.1.0.2", "Held PhantomPod") // its report is fresh yet, and says Ready
	n.bootID = filepath.Join(t.TempDir(), "boot_id")
	check(t, os.WriteFile(n.bootID, []byte("another boot\n"), 0o600))
	for _, p := range []*pod{back, lost} {
		check(t, os.Remove(filepath.Join(n.netns, p.sandbox.ID[:12])))
	}
	old := back.sandbox.ID
	back.attach(t, blue) // kubelet makes a new sandbox for the same pod
	again := n.owned(t, back)
	again.Attempt = 1
	n.Set(again)
	n.agent(t, s.Kubeconfig())
	r := s.reported(t, "worker-1", "the old ones gone", func(r *v1alpha1.SandboxReport) bool {
		return stateIn(r, old) == "Gone" && stateIn(r, lost.sandbox.ID) == "Gone" && r.BootID == "another boot"
	})
	equal(t, "runtime", r.Runtime.Name, "cri-o")
	s.fresh(t, "worker-1")
	before := s.contents(t)
	out := s.run(t)
	out.exits(t, 0)
	out.expect(t, "10.1.0.0-24 10.1.0.1", "InUse SandboxReady")
	s.lost(t, before, "10.1.0.0-24 2", "reservation 10.1.0.2")
}

// TestANodeWithoutAnAgentIsLookedAtByHand: --cri looks at the runtime itself.
func TestANodeWithoutAnAgentIsLookedAtByHand(t *testing.T) {
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
	out.expect(t, "10.1.0.0-24 10.1.0.1", "InUse SandboxReady", "10.1.0.0-24 10.1.0.2", "Held PhantomPod", "10.1.0.0-24 10.1.0.4", "Held NodeUnheard")
	s.lost(t, before, "10.1.0.0-24 3", "reservation 10.1.0.3")

	out = n.byHand(t, "check", "--node", "worker-3")
	out.exits(t, 2)
	contains(t, "an unknown node", out.stderr, "worker-3", "--node")
	n.Kill()
	out = n.byHand(t, "check")
	out.exits(t, 2)
	contains(t, "a dead runtime", out.stderr, harness.Socket)
}

// byHand runs the product on the node, and lets it look at the node's runtime.
func (n *realNode) byHand(t testing.TB, args ...string) *outcome {
	t.Helper()
	return start(t, n.Command(context.Background(), must(productBinary()), append([]string{args[0], "--cri", harness.Socket, "--node", n.name,
		"--kubeconfig", n.s.Kubeconfig(), "-o", "json"}, args[1:]...)...)).wait()
}

func eventuallyWithin(t testing.TB, limit time.Duration, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !is(); time.Sleep(time.Second) {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long for %s", what)
		}
	}
}

// TestEntriesOfOtherProgramsCostOnlyThemselves: half-written, huge and foreign files
// in the caches.
func TestEntriesOfOtherProgramsCostOnlyThemselves(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1")
	n := newMadeUpNode(t, "worker-1", critest.Containerd)
	good := n.box(t, 1, "10.1.0.0/24", "10.1.0.1")
	n.Set(good)
	half, huge := strings.Repeat("a", 64), strings.Repeat("b", 64)
	check(t, os.WriteFile(filepath.Join(n.results, "podnet-"+half+"-eth0"), []byte(`{"kind":"cniCacheV1","containerId":"`), 0o600))
	check(t, os.WriteFile(filepath.Join(n.results, "podnet-"+huge+"-eth0"), make([]byte, 3<<20), 0o600))
	check(t, os.WriteFile(filepath.Join(n.results, "README"), []byte("foreign"), 0o600))
	check(t, os.Mkdir(filepath.Join(n.multus, strings.Repeat("c", 64)), 0o700))
	n.agent(t, s.Kubeconfig())
	r := s.reported(t, "worker-1", "the good one", func(r *v1alpha1.SandboxReport) bool { return stateIn(r, good.ID) == "Ready" })
	equal(t, "its address", r.Sandboxes[0].Addresses[0].IP, "10.1.0.1")
	equal(t, "half-written", stateIn(r, half), "Attached")
	equal(t, "huge", stateIn(r, huge), "Attached")
}
