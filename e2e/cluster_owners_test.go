//go:build cluster

package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// The runtime and the API have different UIDs for a static pod.
func (i *installation) playStatic(t *testing.T) {
	v, asks := i.losing(t)
	const inUse = `ip_reconcile_allocations{reason="SandboxReady",verdict="InUse"}`
	worker, pods := i.cluster.Worker("worker-1"), i.Client().CoreV1().Pods("default")
	p := workload("fixed", "", "default/blue")
	p.Namespace = "default"
	check(t, worker.AddStatic(p))
	mirror := i.running(t, "fixed-worker-1")[0]
	address, uid := addressOn(t, mirror, "net1"), mirror.Annotations[corev1.MirrorPodAnnotationKey]
	equal(t, "that its UID is the runtime's", uid == string(mirror.UID), false)
	id := try(worker.SandboxOf(t.Context(), uid)).must(t)
	v.is(t, inUse, 2)
	before := i.contents(t)
	kept := func(t *testing.T) {
		t.Helper()
		out := i.run(t)
		out.exits(t, 0)
		i.checkReleased(t, before)
		i.answers(t, asks, address, mirror)
		equal(t, "its sandbox", try(worker.SandboxOf(t.Context(), uid)).must(t), id)
	}
	kept(t)

	worker.Kubelet.Kill() // kubelet creates a mirror pod again at once, or a minute later
	check(t, i.DeletePod(t.Context(), mirror, 0))
	v.is(t, `ip_reconcile_allocations{reason="PhantomPod",verdict="Held"}`, 1)
	i.checkReleased(t, before)
	check(t, worker.StartKubelet())
	eventually(t, "another mirror", func() bool {
		again, err := pods.Get(t.Context(), mirror.Name, metav1.GetOptions{})
		return err == nil && again.UID != mirror.UID
	})
	v.is(t, inUse, 2)
	kept(t)

	check(t, worker.RemoveStatic(p.Name))
	i.ends(t, worker, address)
	t.Logf("released %s after that", i.waitReleased(t, soon, "10.1.0.0-24", "2"))
	i.checkReleased(t, before, entryAndReservation(2)...)
	eventually(t, "the mirror to go", func() bool {
		_, err := pods.Get(t.Context(), mirror.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

func (i *installation) playJob(t *testing.T) {
	v, asks := i.losing(t)
	released := v.from(`ip_reconcile_released_total{reason="PodFinished"}`)
	runs := i.job(t, "runs", 1, corev1.PodRunning)[0]
	address := addressOn(t, &runs, "net1")
	before := i.contents(t)
	done := i.job(t, "done", 2, corev1.PodSucceeded, addressOn(t, asks, "net1").String())
	released(t, 4)
	i.checkReleased(t, before)
	newcomer := i.start(t, workload("newcomer", "", "blue"))
	next := addressOn(t, newcomer, "net1")
	if next != addressOn(t, &done[0], "net1") && next != addressOn(t, &done[1], "net1") {
		t.Errorf("the newcomer has %s, which was no finished pod's", next)
	}
	for _, p := range done { // the status of each still has an address
		equal(t, "its phase", try(i.Client().CoreV1().Pods("default").Get(t.Context(), p.Name,
			metav1.GetOptions{})).must(t).Status.Phase, corev1.PodSucceeded)
	}
	before = i.contents(t)
	i.run(t).exits(t, 0)
	i.checkReleased(t, before)
	for _, p := range []*corev1.Pod{&runs, newcomer} {
		i.answers(t, asks, addressOn(t, p, "net1"), p)
	}
	i.waitReported(t, &runs, newcomer)
	out := i.product(t, "check")
	out.exits(t, 0)
	out.expect(t, "10.1.0.0-24 "+address.String(), "InUse SandboxReady", "10.1.0.0-24 "+next.String(),
		"InUse SandboxReady")
}

// losing loses all DELs, with a pod beside that queries others.
func (i *installation) losing(t *testing.T) (v *server, asks *corev1.Pod) {
	t.Helper()
	for _, w := range i.cluster.Workers {
		check(t, w.LoseDELs(true))
	}
	return i.leader(t), i.start(t, workload("asks", "worker-2", "blue"))
}

// job creates a Job of the workload and waits until all its pods are in a phase.
func (i *installation) job(t *testing.T, name string, count int, phase corev1.PodPhase, args ...string) []corev1.Pod {
	t.Helper()
	p := workload(name, "", "blue")
	p.Spec.RestartPolicy, p.Spec.Containers[0].Args = corev1.RestartPolicyNever, args
	try(i.Client().BatchV1().Jobs("default").Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: batchv1.JobSpec{
			Completions: ptr.To(int32(count)), Parallelism: ptr.To(int32(count)),
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: p.Labels, Annotations: p.Annotations},
				Spec: p.Spec},
		},
	}, metav1.CreateOptions{})).must(t)
	var pods []corev1.Pod
	eventually(t, name+" to have pods that are "+string(phase), func() bool {
		pods = try(i.Client().CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{
			LabelSelector: "app=" + name, FieldSelector: "status.phase=" + string(phase),
		})).must(t).
			Items
		return len(pods) == count
	})
	return pods
}

// whereabouts' own controller cuts the network into slices. It reclaims the slice of a node that was removed, even if
// the slice's pool still has allocations.
func TestCluster_ReleasesTheSliceOfARemovedNode(t *testing.T) {
	t.Parallel()
	i := install(t, 2, "--confirm-after=30s")
	v := i.leader(t)
	stays, leaves := i.cluster.Workers[0], i.cluster.Workers[1]
	ip, _, _ := strings.Cut(v.metrics, ":")
	leads := try(i.Client().CoreV1().Pods(metav1.NamespaceSystem).List(t.Context(),
		metav1.ListOptions{FieldSelector: "status.podIP=" + ip})).must(t).Items[0]
	if leads.Spec.NodeName == leaves.Name {
		stays, leaves = leaves, stays
	}
	// The controller treats definitions without a network_name as one network, so they must agree.
	check(t, i.Dynamic().Resource(harness.NADs).Namespace("default").Delete(t.Context(), blue.Name,
		metav1.DeleteOptions{}))
	// The API server deletes a slice pool at once if its owner is in another namespace.
	check(t, i.CreateNAD(t.Context(), harness.Network{
		Namespace: "kube-system", Name: "sliced", IPAM: harness.IPAM{"range": "10.4.0.0/22", "node_slice_size": "/24"},
	}))
	check(t, stays.StartNodeSliceController())
	slice := map[*harness.Worker]netip.Prefix{}
	for _, w := range i.cluster.Workers {
		slice[w] = i.sliceOf(t, w.Name)
	}
	start := func(name string, on *harness.Worker, n int) *corev1.Pod {
		t.Helper()
		p := i.start(t, workload(name, on.Name, "kube-system/sliced"))
		equal(t, "the address of "+name, addressOn(t, p, "net1"), nth(slice[on], n))
		return p
	}
	one := start("one", stays, 1)
	two, lost := start("two", leaves, 1), start("lost", leaves, 2)
	pool := sliceName(leaves.Name, slice[leaves])
	const inUse = `ip_reconcile_allocations{reason="SandboxReady",verdict="InUse"}`
	v.is(t, inUse, 3)
	before := i.contents(t)
	equal(t, "entries and reservations", len(before), 6)
	i.run(t).exits(t, 0)
	i.checkReleased(t, before)

	check(t, leaves.LoseDELs(true))
	check(t, i.DeletePod(t.Context(), lost, 1))
	i.ends(t, leaves, nth(slice[leaves], 2))
	t.Logf("released %s after that", i.waitReleased(t, soon, pool, "2"))
	i.checkReleased(t, before, pool+" 2", "reservation "+nth(slice[leaves], 2).String())
	i.answer(t, two, start("next", leaves, 2))
	before = i.contents(t)

	leaves.PowerOff()
	check(t, i.Client().CoreV1().Nodes().Delete(t.Context(), leaves.Name, metav1.DeleteOptions{}))
	began := time.Now()
	eventually(t, "the slice to be nobody's", func() bool { return i.sliceIn(t, leaves.Name) == "" })
	i.checkReleased(t, before)
	i.waitReleased(t, 4*time.Minute, pool, "2") // missed for 40 s, confirmed for 30 s, with a pass every 30 s
	i.waitReleased(t, soon, pool, "1")
	took := time.Since(began)
	t.Logf("released %s after the node was deleted", took.Round(time.Second))
	equal(t, "that it was missed for 40 s", took > 40*time.Second, true)
	v.is(t, `ip_reconcile_released_total{reason="NodeMissing"}`, 4)
	i.checkReleased(t, before, pool+" 1", pool+" 2", "reservation "+nth(slice[leaves], 1).String(), "reservation "+
		nth(slice[leaves], 2).String())
	equal(t, "that the other node's pod answers", stays.Answers(t, addressOn(t, one, "net1")), true)

	check(t, leaves.Boot(t.Context()))
	check(t, leaves.WaitReady(t.Context()))
	equal(t, "the slice of the node that is new", i.sliceOf(t, leaves.Name), slice[leaves])
	i.answer(t, start("again", leaves, 1), start("more", leaves, 2))
	v.is(t, inUse, 3)
	i.product(t, "check").exits(t, 0)
}

// answer checks that two pods of a worker reach each other.
func (i *installation) answer(t *testing.T, from, to *corev1.Pod) {
	t.Helper()
	for _, p := range [][2]*corev1.Pod{{from, to}, {to, from}} {
		name, err := i.cluster.Asked(t.Context(), p[0], addressOn(t, p[1], "net1"))
		if err != nil || name != p[1].Name {
			t.Errorf("%s gets %q and not %s: %v", p[0].Name, name, p[1].Name, err)
		}
	}
}

// sliceOf waits for a node's slice of the network "sliced".
func (i *installation) sliceOf(t *testing.T, node string) (slice netip.Prefix) {
	t.Helper()
	eventually(t, node+" to have a slice", func() bool { return i.sliceIn(t, node) != "" })
	return netip.MustParsePrefix(i.sliceIn(t, node))
}

// sliceIn is a node's slice, "" if it has none.
func (i *installation) sliceIn(t *testing.T, node string) string {
	t.Helper()
	pool, err := i.of(harness.NodeSlicePools).Get(t.Context(), "sliced", metav1.GetOptions{})
	if err != nil {
		return ""
	}
	slices, _, _ := unstructured.NestedSlice(pool.Object, "status", "allocations")
	for _, s := range slices {
		if s := s.(map[string]any); s["nodeName"] == node {
			return fmt.Sprint(s["sliceRange"])
		}
	}
	return ""
}

func sliceName(node string, slice netip.Prefix) string {
	return node + "-" + strings.ReplaceAll(slice.String(), "/", "-")
}

// nth is an address of a slice.
func nth(slice netip.Prefix, n int) netip.Addr {
	a := slice.Addr().As4()
	a[3] = byte(n)
	return netip.AddrFrom4(a)
}
