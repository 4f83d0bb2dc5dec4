package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/agent/cri/critest"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// owned makes up a node's sandbox for a pod that the real plugin gave addresses.
func (n *madeUpNode) owned(t testing.TB, p *pod) critest.Sandbox {
	t.Helper()
	b := critest.Sandbox{
		ID: p.sandbox.ID, Namespace: p.Namespace, Name: p.Name, UID: string(p.UID),
		CreatedAt: time.Now().Add(-time.Hour), NetNS: filepath.Join(n.netns, p.sandbox.ID[:12]),
	}
	check(t, os.WriteFile(b.NetNS, nil, 0o600))
	n.cache(t, b, "eth0", map[string]any{"cniVersion": "1.0.0", "name": "podnet", "type": "bridge", "ipam": map[string]any{"type": "host-local"}}, "172.16.0.9/24")
	for _, a := range p.addresses() {
		n.whereabouts(t, b, a.Range, a.IP)
	}
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
	check(t, s.Client().CoordinationV1().Leases(harness.LeaseNamespace).Delete(t.Context(), "worker-1", metav1.DeleteOptions{}))
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
	for _, dir := range []string{n.results, n.multus, filepath.Join(n.multus, "results")} {
		files := try(filepath.Glob(filepath.Join(dir, "*"+b.ID+"*"))).must(t)
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
	restore := s.backup(t)
	s.fresh(t, "worker-1")

	// What comes after the backup: a sandbox that the reports name, and a leak.
	one := nodes["worker-1"]
	late := one.box(t, 2, "10.1.0.0/24", "10.1.0.2")
	one.Set(one.box(t, 1, "10.1.0.0/24", "10.1.0.1"), late)
	s.reported(t, "worker-1", "the late sandbox", func(r *v1alpha1.SandboxReport) bool { return stateIn(r, late.ID) == "Ready" })
	s.fresh(t, "worker-1")
	eventually(t, "worker-2 to renew after that", func() bool {
		lease, err := s.Client().CoordinationV1().Leases(harness.LeaseNamespace).Get(t.Context(), "worker-2", metav1.GetOptions{})
		return err == nil && lease.Spec.RenewTime.After(s.report(t, "worker-1").ObservedAt.Time)
	})
	restore()
	s.leakByHand(t)

	for name := range nodes {
		r := s.reported(t, name, "the annotation of a restore", func(r *v1alpha1.SandboxReport) bool { return r.Annotations[v1alpha1.RestoreAnnotation] != "" })
		since := try(time.Parse(time.RFC3339, r.Annotations[v1alpha1.RestoreAnnotation])).must(t)
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

// backup copies etcd's data and returns how to put it back: a plain restore, after
// which resourceVersions run backwards.
func (s *stage) backup(t testing.TB) (restore func()) {
	t.Helper()
	kept := filepath.Join(t.TempDir(), "backup")
	s.offline(t, func() { check(t, os.CopyFS(kept, os.DirFS(s.EtcdData()))) })
	return func() {
		t.Helper()
		s.offline(t, func() {
			check(t, os.RemoveAll(s.EtcdData()))
			check(t, os.CopyFS(s.EtcdData(), os.DirFS(kept)))
		})
	}
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
	restore := s.backup(t)
	renewed := time.Now()
	eventually(t, "the agents to renew after the backup", func() bool {
		lease, err := s.Client().CoordinationV1().Leases(harness.LeaseNamespace).Get(t.Context(), "worker-1", metav1.GetOptions{})
		return err == nil && lease.Spec.RenewTime.After(renewed)
	})
	cut.Store(true)
	restore()
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
