//go:build !slow && !cluster

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/agent/cri/critest"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

func TestGates_PausedIsJudgedAndNotReleased(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	red := simple("red", "10.2.0.0/24")
	leaks := func(t *testing.T) (inBlue, inRed *pod) {
		return s.up(t, "worker-1", "in-blue", blue).leak(t), s.up(t, "worker-1", "in-red", red).leak(t)
	}

	s.play(t, "in one pool while the others go on", func(t *testing.T) {
		inBlue, _ := leaks(t)
		s.reservation(t, "10.1.0.77", "default/nobody", time.Hour) // its address is the pool's
		before := s.contents(t)
		s.patch(t, harness.IPPools, "10.1.0.0-24", pausing("true"))
		for range 2 {
			out := s.run(t)
			out.exits(t, 1)
			out.expect(t, at(inBlue), "Stale PodGone", "reservation 10.1.0.77", "Stale PodGone")
			equal(t, "failed", places(out.Failed), at(inBlue)+", reservation 10.1.0.77")
			contains(t, "what is said", out.judged(at(inBlue)).Message, "kube-system/10.1.0.0-24", "paused",
				"ip-reconcile.dev/paused")
			s.checkReleased(t, before, "10.2.0.0-24 1", "reservation 10.2.0.1")
		}
		checked := s.product(t, "check")
		checked.exits(t, 1)
		equal(t, "what check says stands against the one", checked.judged(at(inBlue)).Refusal, "Paused")
		s.patch(t, harness.IPPools, "10.1.0.0-24", pausing(""))
		s.run(t).exits(t, 0)
		s.checkReleased(t, before, append(stored(inBlue), "10.2.0.0-24 1", "reservation 10.2.0.1",
			"reservation 10.1.0.77")...)
	})

	s.play(t, "everywhere by the reconciler's namespace", func(t *testing.T) {
		inBlue, _ := leaks(t)
		before, leases := s.contents(t), s.leases(t)
		s.pauseAll(t, "true")
		defer s.pauseAll(t, "")
		out := s.run(t, "--allow-mass-release", "--without-lease")
		out.exits(t, 1)
		equal(t, "failed", places(out.Failed), at(inBlue)+", 10.2.0.0-24 10.2.0.1")
		contains(t, "what is said", out.judged(at(inBlue)).Message, "everything is paused", "ip-reconcile.dev/paused")
		text := product(t, "run", "--confirm-after", "0", "--kubeconfig", s.Kubeconfig())
		text.exits(t, 1)
		contains(t, "the table", text.stdout, "Paused: everything is paused")
		s.checkReleased(t, before)
		equal(t, "versions of Leases", s.leases(t), leases)

		// The annotation counts on the reconciler's own namespace only, with any value except those that mean no.
		s.run(t, "--reconciler-namespace", "default", "--dry-run").expect(t, at(inBlue), "Stale PodGone")
		s.pauseAll(t, "yes")
		s.run(t).exits(t, 1)
		s.pauseAll(t, "false")
		s.run(t).exits(t, 0)
		s.checkReleased(t, before, append(stored(inBlue), "10.2.0.0-24 1", "reservation 10.2.0.1")...)
	})

	s.play(t, "by the namespace of the reconciler that is installed", func(t *testing.T) {
		inBlue, _ := leaks(t)
		before := s.contents(t)
		lab := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "lab",
			Annotations: map[string]string{"ip-reconcile.dev/paused": "true"}}}
		try(s.Client().CoreV1().Namespaces().Create(t.Context(), lab, metav1.CreateOptions{})).must(t)
		labels := map[string]string{"app.kubernetes.io/name": "ip-reconcile", "app.kubernetes.io/component": "reconciler"}
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "ip-reconcile", Namespace: "lab", Labels: labels},
			Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec: corev1.PodSpec{Containers: []corev1.Container{
						{Name: "reconciler", Image: "example.com/ip-reconcile", Args: []string{"serve"}}}}}}}
		d = try(s.Client().AppsV1().Deployments("lab").Create(t.Context(), d, metav1.CreateOptions{})).must(t)
		s.run(t).exits(t, 1)
		equal(t, "what check says stands against it", s.product(t, "check").judged(at(inBlue)).Refusal, "Paused")
		d.Spec.Template.Spec.Containers[0].Args = []string{"serve", "--agents=required"}
		d = try(s.Client().AppsV1().Deployments("lab").Update(t.Context(), d, metav1.UpdateOptions{})).must(t)
		s.product(t, "check").expect(t, at(inBlue), "Held NoFreshReport")
		s.checkReleased(t, before)
		another := d.DeepCopy()
		another.Namespace, another.ResourceVersion = "default", ""
		try(s.Client().AppsV1().Deployments("default").Create(t.Context(), another, metav1.CreateOptions{})).must(t)
		several := s.product(t, "run")
		several.exits(t, 2)
		contains(t, "stderr", several.stderr, "lab/ip-reconcile", "default/ip-reconcile", "--reconciler-namespace")
		for _, in := range []string{"default", "lab"} {
			check(t, s.Client().AppsV1().Deployments(in).Delete(t.Context(), "ip-reconcile", metav1.DeleteOptions{}))
		}
		s.run(t).exits(t, 0)
	})

}

// Velero creates pods with the network-status of the pods that it saved, and brings the pools of another cluster.
func TestFindings_OfARestoredBackup(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1")
	agent := s.agent(t, "worker-1")
	check(t, s.CreateNAD(t.Context(), blue))
	leaked := s.up(t, "worker-1", "leaked", blue).leak(t)
	broken := s.up(t, "worker-1", "broken", blue)
	broken.del(t) // only the request of its network remains
	broken.attachments, broken.status = nil, nil
	broken.annotate(t, statusAnnotation, `[{"name":"cbr0","interface":"eth0","ips":["10.244.0.9"],"default":true}]`)
	foreign := map[string]any{}
	for i := range 25 {
		foreign[fmt.Sprint(i+1)] = entry(fmt.Sprint("elsewhere/web-", i), fmt.Sprintf("%064x", i+1))
	}
	s.pool(t, "10.7.0.0-24", "10.7.0.0/24", foreign)
	sandbox := broken.listed(v1alpha1.SandboxReady)
	sandbox.CreatedAt = metav1.NewTime(time.Now().Add(-time.Hour))
	agent.writeReport(t, leaked.gone(), sandbox)

	copied := fmt.Sprintf(`[{"name":"default/blue","interface":"net1","ips":[%q]}]`, leaked.ips[0])
	restored := &pod{s: s, Pod: try(s.Client().CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "restored", Annotations: map[string]string{statusAnnotation: copied}},
		Spec: corev1.PodSpec{NodeName: "worker-1",
			Containers: []corev1.Container{{Name: "main", Image: "e2e.invalid/none"}}},
	}, metav1.CreateOptions{})).must(t)}

	out := s.product(t, "check", "--all")
	out.expect(t, at(leaked), "Stale PodGone proven")
	for kind, want := range map[string]string{
		"NotAttached": "default/broken runs on worker-1 without the network default/blue that it requests: " +
			"its network-status, its sandbox and the pools do not have it",
		"ForeignPool": "all 25 allocations of pool kube-system/10.7.0.0-24 are of pods and sandboxes that this cluster " +
			"does not have: it may come from a backup of another cluster",
	} {
		if found := out.found(kind); len(found) != 1 || found[0].Message != want {
			t.Errorf("%s: got %+v", kind, found)
		}
	}

	// As Multus writes it after an ADD: the address counts, whatever the phase.
	restored.change(t, map[string]any{"metadata": map[string]any{"annotations": map[string]any{
		statusAnnotation: copied[:len(copied)-2] + `,"mac":"02:00:00:00:00:01"}]`}}}, "status")
	s.product(t, "check", "--all").expect(t, at(leaked), "Held ClaimedByOther")
}

// The API server dates a write in managedFields, and accepts the times of other entries there from the writer: an
// account that may write a Lease can date it freely. None of that makes the Lease fresh for longer than a minute.
func TestReports_LeaseFromTheFuture(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1")
	node := s.agent(t, "worker-1")
	gone := s.up(t, "worker-1", "gone", blue).leak(t)
	node.writeReport(t, gone.gone())
	node.change(func() { node.silent = true }) // or it renews the Lease between a date and its verdict
	leases := s.Client().CoordinationV1().Leases(harness.LeaseNamespace)
	dated := func(by time.Duration) {
		t.Helper()
		lease := try(leases.Get(t.Context(), "worker-1", metav1.GetOptions{})).must(t)
		for i := range lease.ManagedFields {
			lease.ManagedFields[i].Time = ptr.To(metav1.NewTime(time.Now().Add(by)))
		}
		// A write that changes only such times does not count, and the API server dates what a manager changes.
		lease.Labels = map[string]string{"dated": fmt.Sprintf("x%d", by)}
		lease = try(leases.Update(t.Context(), lease, metav1.UpdateOptions{FieldManager: "another"})).must(t)
		is(t, "it is dated as it was written", podstate.LeaseRenewTime(lease), by)
	}
	verdict := func(what, want string) {
		t.Helper()
		out := s.product(t, "check")
		t.Log(what)
		out.expect(t, at(gone), want)
	}
	verdict("renewed", "Stale PodGone proven")

	dated(time.Hour)
	verdict("dated an hour ahead", "Held NoFreshReport")
	dated(-time.Hour)
	verdict("dated an hour ago", "Held NoFreshReport")

	// Nothing reads its renewTime, which is by the node's clock.
	node.change(func() { node.skew, node.silent = time.Hour, false })
	check(t, node.renew())
	node.change(func() { node.silent = true })
	lease := try(leases.Get(t.Context(), "worker-1", metav1.GetOptions{})).must(t)
	is(t, "renewTime", lease.Spec.RenewTime.Time, time.Hour)
	is(t, "renewed", podstate.LeaseRenewTime(lease), 0)
	verdict("renewed by a clock that is an hour ahead", "Stale PodGone proven")
	dated(-2 * time.Minute)
	verdict("two minutes after that", "Held NoFreshReport")
}

// is checks that a time is about this far from now.
func is(t testing.TB, what string, got time.Time, want time.Duration) {
	t.Helper()
	if off := time.Until(got) - want; off.Abs() > 30*time.Second {
		t.Errorf("%s: %s from now, want %s", what, time.Until(got), want)
	}
}

// TestReports_RebootWithCRIO: CRI-O wipes all sandboxes at a reboot, reports no network namespaces, and sends
// no events. It is simulated, since CRI-O cannot be installed here.
func TestReports_RebootWithCRIO(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1")
	n := newFakeNode(t, "worker-1", critest.CRIO)
	blue := simple("blue", "10.1.0.0/24")
	back, lost := s.up(t, "worker-1", "back", blue), s.up(t, "worker-1", "lost", blue)
	n.Set(n.owned(t, back), n.owned(t, lost))
	a := n.agent(t, s.Kubeconfig())
	s.fresh(t, "worker-1")
	s.run(t).expect(t, "10.1.0.0-24 10.1.0.1", "InUse SandboxReady", "10.1.0.0-24 10.1.0.2", "InUse SandboxReady")
	a.stop(t)
	lost.forceDelete(t)

	check(t, s.nodes["worker-1"].SetBootID(t.Context(), "another boot"))
	// its report is still fresh, and has it Ready
	s.product(t, "check").expect(t, "10.1.0.0-24 10.1.0.2", "Held PhantomPod")
	n.bootID = filepath.Join(t.TempDir(), "boot_id")
	check(t, os.WriteFile(n.bootID, []byte("another boot\n"), 0o600))
	for _, p := range []*pod{back, lost} {
		n.forget(t, critest.Sandbox{ID: p.sandbox.ID, NetNS: filepath.Join(n.netns, p.sandbox.ID[:12])})
	}
	old := back.sandbox.ID
	back.attach(t, blue) // kubelet creates a new sandbox for the same pod
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
	s.judges(t, "10.1.0.0-24 10.1.0.1", "InUse SandboxReady")
	s.checkReleased(t, before, "10.1.0.0-24 2", "reservation 10.1.0.2")
}
