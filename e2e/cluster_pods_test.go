//go:build cluster

package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"
)

func (i *installation) playEvicted(t *testing.T) {
	worker, pods := i.cluster.Worker("worker-1"), i.Client().CoreV1().Pods("default")
	check(t, worker.LoseDELs(true))
	asks := i.start(t, workload("asks", "worker-2", "blue"))
	late := i.start(t, stubborn("late", "worker-1", 15))
	big := workload("big", "worker-1", "blue")
	// kubelet reports Succeeded for one that exits with 0
	big.Spec.Containers[0].Args = []string{"-stubborn", "-fill", "/fill"}
	big.Spec.Containers[0].Resources.Limits = corev1.ResourceList{
		corev1.ResourceEphemeralStorage: resource.MustParse("1Mi")}
	big = i.start(t, big)
	equal(t, "the addresses", addressOn(t, late, "net1").String()+" "+addressOn(t, big, "net1").String(),
		"10.1.0.2 10.1.0.3")
	v := i.leader(t)
	released := v.from(`ip_reconcile_released_total{reason="PodFinished"}`)

	try(pods.Patch(t.Context(), late.Name, types.MergePatchType, []byte(`{"spec":{"activeDeadlineSeconds":1}}`),
		metav1.PatchOptions{})).must(t)
	began := time.Now()
	for _, p := range []*corev1.Pod{late, big} {
		address := addressOn(t, p, "net1")
		failed := p
		eventuallyWithin(t, 90*time.Second, p.Name+" to fail", func() bool {
			before := i.contents(t)
			if worker.Answers(t, address) && before["10.1.0.0-24 "+strings.TrimPrefix(address.String(), "10.1.0.")] == "" {
				t.Fatalf("%s was released while it was configured", address)
			}
			failed = try(pods.Get(t.Context(), p.Name, metav1.GetOptions{})).must(t)
			return failed.Status.Phase == corev1.PodFailed
		})
		t.Logf("%s failed after %s: %s", p.Name, time.Since(began).Round(time.Second), failed.Status.Reason)
		equal(t, "it is configured", worker.Answers(t, address), false)
	}
	i.waitReleased(t, soon, "10.1.0.0-24", "2")
	i.waitReleased(t, soon, "10.1.0.0-24", "3")
	released(t, 4)
	for name, reason := range map[string]string{late.Name: "DeadlineExceeded", big.Name: "Evicted"} {
		i.event(t, reason, "Pod", name)
		equal(t, "the phase of "+name, try(pods.Get(t.Context(), name, metav1.GetOptions{})).must(t).Status.Phase,
			corev1.PodFailed)
	}

	next := i.next(t, "next", "worker-2", addressOn(t, late, "net1").String())
	i.answers(t, asks, addressOn(t, next, "net1"), next)
	i.asPod(t, "check").exits(t, 0)
}

// Kubelets before 1.25 reported Failed while containers ran, and any client may write it. Today's kubelet corrects the
// phase later, or ends the pod when kubelet starts. This one hangs until then.
func (i *installation) playReportedFailed(t *testing.T) {
	p := i.start(t, workload("web", "worker-1", "blue"))
	address, worker := addressOn(t, p, "net1"), i.cluster.Worker("worker-1")
	check(t, worker.LoseDELs(true))
	v := i.leader(t)
	released := v.from(`ip_reconcile_released_total{reason="PodFinished"}`)
	v.is(t, `ip_reconcile_allocations{reason="SandboxReady",verdict="InUse"}`, 1)

	check(t, worker.Kubelet.Freeze())
	pods := i.Client().CoreV1().Pods("default")
	p = try(pods.Patch(t.Context(), p.Name, types.MergePatchType,
		[]byte(`{"status":{"phase":"Failed","reason":"SaidSo"}}`), metav1.PatchOptions{}, "status")).must(t)
	for _, c := range p.Status.Conditions {
		equal(t, string(c.Type), c.Status, corev1.ConditionTrue)
	}
	v.is(t, `ip_reconcile_allocations{reason="TerminalButRunning",verdict="Held"}`, 1)
	newcomer := i.next(t, "newcomer", "worker-2", "10.1.0.2")
	i.answers(t, newcomer, address, p)

	worker.Kubelet.Kill()
	check(t, worker.StartKubelet())
	i.ends(t, worker, address)
	t.Logf("released %s after that", i.waitReleased(t, soon, "10.1.0.0-24", "1").Round(time.Second))
	released(t, 2)
	p = try(pods.Get(t.Context(), p.Name, metav1.GetOptions{})).must(t)
	equal(t, "the pod, which is there,", p.Status.Phase, corev1.PodFailed)
	i.next(t, "next", "worker-2", address.String())
	i.asPod(t, "check").exits(t, 0)
}

func (i *installation) playDeletedByForce(t *testing.T) {
	p := i.start(t, stubborn("stubborn", "worker-1", 600))
	address, id := addressOn(t, p, "net1"), i.sandbox(t, p)
	check(t, i.cluster.Worker("worker-1").LoseDELs(true))
	v := i.leader(t)
	released := v.from(`ip_reconcile_released_total{reason="PodGone"}`)
	v.is(t, `ip_reconcile_allocations{reason="SandboxReady",verdict="InUse"}`, 1)

	check(t, i.DeletePod(t.Context(), p, 600))
	i.killing(t, p)
	v.is(t, `ip_reconcile_allocations{reason="Terminating",verdict="Held"}`, 1)
	check(t, i.DeletePod(t.Context(), p, 0))
	if _, err := i.Client().CoreV1().Pods("default").Get(t.Context(), p.Name,
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Fatalf("the API knows the pod: %v", err)
	}
	v.is(t, `ip_reconcile_allocations{reason="PhantomPod",verdict="Held"}`, 1)
	equal(t, "its sandbox", i.sandbox(t, p), id)
	newcomer := i.next(t, "newcomer", "worker-2", "10.1.0.2")
	i.answers(t, newcomer, address, p)

	worker := i.cluster.Worker("worker-1")
	check(t, worker.KillContainers(t.Context(), id))
	i.ends(t, worker, address)
	t.Logf("released %s after that", i.waitReleased(t, soon, "10.1.0.0-24", "1"))
	released(t, 2)
	equal(t, "the event", i.event(t, "IPAddressGarbageCollected", "IPPool", "10.1.0.0-24"),
		"successful cleanup of IP address [10.1.0.1] from network 10.1.0.0/24: PodGone (rule gone-ended)")
	i.asPod(t, "check").exits(t, 0)
}

// Kubelet removes a stopped sandbox soon, unless kubelet hangs.
func (i *installation) playStopped(t *testing.T) {
	asks, blocker := i.start(t, workload("asks", "worker-2", "blue")), i.NewCNIBlocker()
	p := i.start(t, workload("web", "worker-1", "blue"))
	address, id := addressOn(t, p, "net1"), i.sandbox(t, p)
	worker := i.cluster.Worker("worker-1")
	v := i.leader(t)
	released := v.from(`ip_reconcile_released_total{reason="PodGone"}`)
	v.is(t, `ip_reconcile_allocations{reason="SandboxReady",verdict="InUse"}`, 2)

	check(t, blocker.Block())
	t.Cleanup(func() { blocker.Unblock() })
	check(t, worker.HoldDELs(blocker))
	check(t, i.DeletePod(t.Context(), p, 1))
	eventually(t, "its DEL to begin", func() bool { return len(blocker.Waiting()) == 1 })
	equal(t, "whose DEL began", blocker.Waiting()[0], id)
	check(t, worker.Kubelet.Freeze())
	check(t, i.DeletePod(t.Context(), p, 0))
	v.is(t, `ip_reconcile_allocations{reason="SandboxNotReady",verdict="Held"}`, 1)
	equal(t, "the address is configured", worker.Answers(t, address), true)
	i.next(t, "newcomer", "worker-2", "10.1.0.3")

	check(t, blocker.Unblock())
	i.ends(t, worker, address)
	// containerd sends no event for the end of a network, so the agent inspects the node every 10 s.
	t.Logf("released %s after that", i.waitReleased(t, 10*time.Second+soon, "10.1.0.0-24", "2").Round(time.Second))
	released(t, 2)
	state := try(worker.Status(t.Context(), id)).must(t).Status.State
	equal(t, "the state of its sandbox, which is still listed", state, cri.PodSandboxState_SANDBOX_NOTREADY)

	next := i.next(t, "next", "worker-2", address.String())
	i.answers(t, asks, address, next)
	before := i.contents(t)
	check(t, worker.Kubelet.Thaw())
	eventuallyWithin(t, 3*time.Minute, "kubelet to remove the sandbox", func() bool { // it is collected once a minute
		_, err := worker.Status(t.Context(), id)
		return err != nil
	})
	i.checkReleased(t, before)
	i.asPod(t, "check").exits(t, 0)
}

// Kubelet ends the pods of a node that shuts down, and the agent soon after. The next boot proves their end, whether
// the agent reported it or not.
func (i *installation) playShutdown(t *testing.T) {
	worker, pods := i.cluster.Worker("worker-2"), i.Client().CoreV1().Pods("default")
	check(t, worker.LoseDELs(true))
	check(t, worker.Kubelet.Stop())
	check(t, worker.MindShutdowns(40*time.Second, 15*time.Second))
	check(t, worker.StartKubelet())
	i.start(t, workload("stays", "worker-1", "blue"))
	p := i.start(t, stubborn("stubborn", "worker-2", 12))
	address := addressOn(t, p, "net1")
	equal(t, "the address", address.String(), "10.1.0.2")
	i.leader(t).is(t, `ip_reconcile_allocations{reason="SandboxReady",verdict="InUse"}`, 2)

	check(t, worker.BeginShutdown(t.Context()))
	began := time.Now()
	i.mustKubectl(t, "wait", "--for=condition=Ready=False", "--timeout=60s", "node/worker-2")
	eventuallyWithin(t, time.Minute, "it to fail", func() bool {
		before := i.contents(t)
		if worker.Answers(t, address) && before["10.1.0.0-24 2"] == "" {
			t.Fatal("it was released while it was configured")
		}
		p = try(pods.Get(t.Context(), p.Name, metav1.GetOptions{})).must(t)
		return p.Status.Phase == corev1.PodFailed
	})
	t.Logf("it failed after %s: %s", time.Since(began).Round(time.Second), p.Status.Reason)
	equal(t, "it is configured", worker.Answers(t, address), false)
	seen := within(15*time.Second, time.Second, func() bool { return i.contents(t)["10.1.0.0-24 2"] == "" })
	t.Logf("released before the agent was ended: %v", seen)

	worker.PowerOff()
	check(t, worker.Boot(t.Context()))
	t.Logf("released %s after the next boot", i.waitReleased(t, time.Minute, "10.1.0.0-24", "2").Round(time.Second))
	equal(t, "the pod, which is there,", try(pods.Get(t.Context(), p.Name, metav1.GetOptions{})).must(t).Status.Phase,
		corev1.PodFailed)
	i.next(t, "next", "worker-1", address.String())
	equal(t, "it is configured on the other node", worker.Answers(t, address), false)
}

// whereabouts gives a successor of the same name the allocation of a pod that was deleted by force and still runs, so
// both have one address. Nobody can undo that from outside: it is reported, and the allocation stays for the remaining
// pod.
func (i *installation) playSuccessor(t *testing.T) {
	asks := i.start(t, workload("asks", "", "blue"))
	old := i.statefulSet(t, "db", 1, func(s *appsv1.StatefulSet) {
		s.Spec.Template.Spec.Containers[0].Args = []string{"-stubborn"}
		s.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To(int64(600)) // the test ends it
	}, "blue")[0]
	address, id := addressOn(t, old, "net1"), i.sandbox(t, old)
	v := i.leader(t)
	v.is(t, `ip_reconcile_allocations{reason="SandboxReady",verdict="InUse"}`, 2)

	check(t, i.DeletePod(t.Context(), old, 600))
	i.killing(t, old)
	v.is(t, `ip_reconcile_allocations{reason="Terminating",verdict="Held"}`, 1)
	check(t, i.DeletePod(t.Context(), old, 0))
	eventually(t, "another pod of that name", func() bool {
		p, err := i.Client().CoreV1().Pods("default").Get(t.Context(), "db-0", metav1.GetOptions{})
		return err == nil && p.UID != old.UID
	})
	next := i.running(t, "db-0")[0]
	equal(t, "the successor's address", addressOn(t, next, "net1"), address)
	i.oracle.ignores(address)
	v.is(t, `ip_reconcile_findings{kind="Conflict"}`, 1)
	i.event(t, "Conflict", "IPPool", "10.1.0.0-24")
	i.makesPending(t, "IPReconcileAddressInConflict")
	conflict := i.asPod(t, "check").found("Conflict")
	if len(conflict) != 1 || conflict[0].IP != address.String() || !slices.Contains(conflict[0].ContainerIDs, id) {
		t.Errorf("the conflict: %+v", conflict)
	}
	equal(t, "network namespaces with the address", len(try(i.holders()).must(t)[address]), 2)
	before := i.contents(t)

	worker := i.cluster.Worker(old.Spec.NodeName)
	check(t, worker.KillContainers(t.Context(), id))
	eventually(t, "the old sandbox to end", func() bool {
		_, err := worker.SandboxOf(t.Context(), string(old.UID))
		return err != nil
	})
	v.is(t, `ip_reconcile_findings{kind="Conflict"}`, 0)
	i.checkReleased(t, before)
	i.waitReported(t, next)
	out := i.asPod(t, "check")
	out.exits(t, 0)
	out.expect(t, "10.1.0.0-24 "+address.String(), "InUse SandboxReady")
	i.answers(t, asks, address, next)
}
