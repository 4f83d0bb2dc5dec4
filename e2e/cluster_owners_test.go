//go:build cluster

package e2e

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestStaticPodsAndPodsOfJobsKeepTheirAddressesAsLongAsTheyRun(t *testing.T) {
	t.Parallel()
	i := install(t, 2)
	check(t, i.CreateNAD(t.Context(), blue))
	asks := i.start(t, workload("asks", "worker-2", "blue"))
	for _, w := range i.cluster.Workers {
		check(t, w.LoseDELs(true))
	}
	v := i.leader(t)
	t.Run("a static pod", func(t *testing.T) { i.playStatic(t, v, asks) })
	t.Run("a Job", func(t *testing.T) { i.playJob(t, v, asks) })
}

// The runtime knows a static pod by another UID than the API does.
func (i *installation) playStatic(t *testing.T, v *server, asks *corev1.Pod) {
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
		i.lost(t, before)
		name, err := i.cluster.Asked(t.Context(), asks, address)
		check(t, err)
		equal(t, "who answers", name, mirror.Name)
		equal(t, "its sandbox", try(worker.SandboxOf(t.Context(), uid)).must(t), id)
	}
	kept(t)

	worker.Kubelet.Kill() // which makes a mirror again at once, or a minute later
	check(t, i.DeletePod(t.Context(), mirror, 0))
	v.is(t, `ip_reconcile_allocations{reason="PhantomPod",verdict="Held"}`, 1)
	i.lost(t, before)
	check(t, worker.StartKubelet())
	eventually(t, "another mirror", func() bool {
		again, err := pods.Get(t.Context(), mirror.Name, metav1.GetOptions{})
		return err == nil && again.UID != mirror.UID
	})
	v.is(t, inUse, 2)
	kept(t)

	check(t, worker.RemoveStatic(p.Name))
	eventually(t, "nobody to answer", func() bool { return !worker.Answers(t, address) })
	t.Logf("freed %s after that", i.freed(t, soon, "10.1.0.0-24", "2"))
	i.lost(t, before, entryAndReservation(2)...)
	eventually(t, "the mirror to go", func() bool {
		_, err := pods.Get(t.Context(), mirror.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

func (i *installation) playJob(t *testing.T, v *server, asks *corev1.Pod) {
	runs := i.job(t, "runs", 1, corev1.PodRunning)[0]
	address := addressOn(t, &runs, "net1")
	before := i.contents(t)
	done := i.job(t, "done", 2, corev1.PodSucceeded, addressOn(t, asks, "net1").String())
	v.is(t, `ip_reconcile_released_total{reason="PodFinished"}`, 4)
	i.lost(t, before)
	newcomer := i.start(t, workload("newcomer", "", "blue"))
	next := addressOn(t, newcomer, "net1")
	if next != addressOn(t, &done[0], "net1") && next != addressOn(t, &done[1], "net1") {
		t.Errorf("the newcomer has %s, which was no finished pod's", next)
	}
	for _, p := range done { // each says yet that it has an address
		equal(t, "its phase", try(i.Client().CoreV1().Pods("default").Get(t.Context(), p.Name, metav1.GetOptions{})).must(t).Status.Phase, corev1.PodSucceeded)
	}
	before = i.contents(t)
	i.run(t).exits(t, 0)
	i.lost(t, before)
	for _, p := range []*corev1.Pod{&runs, newcomer} {
		name, err := i.cluster.Asked(t.Context(), asks, addressOn(t, p, "net1"))
		check(t, err)
		equal(t, "who answers", name, p.Name)
	}
	i.waitReported(t, &runs, newcomer)
	out := i.product(t, "check")
	out.exits(t, 0)
	out.expect(t, "10.1.0.0-24 "+address.String(), "InUse SandboxReady", "10.1.0.0-24 "+next.String(), "InUse SandboxReady")
}

// job makes a Job of the workload and waits until all its pods are in a phase.
func (i *installation) job(t *testing.T, name string, count int, phase corev1.PodPhase, args ...string) []corev1.Pod {
	t.Helper()
	p := workload(name, "", "blue")
	p.Spec.RestartPolicy, p.Spec.Containers[0].Args = corev1.RestartPolicyNever, args
	try(i.Client().BatchV1().Jobs("default").Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: batchv1.JobSpec{
			Completions: ptr.To(int32(count)), Parallelism: ptr.To(int32(count)),
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: p.Labels, Annotations: p.Annotations}, Spec: p.Spec},
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
