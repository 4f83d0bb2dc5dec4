//go:build slow

package harness

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// node is a worker's Node object.
func (w *Cluster) node(t *testing.T, name string) *corev1.Node {
	t.Helper()
	return try(w.Client().CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})).must(t)
}

func TestFaultsOfWorkers(t *testing.T) {
	t.Parallel()
	w, ctx := startCluster(t, 3), t.Context()
	blue := Network{"default", "blue", IPAM{"range": "10.1.0.0/24"}}
	check(t, w.CreateNAD(ctx, blue))
	check(t, statefulSet(ctx, w, "web", 3, "blue"))
	pods, sandboxes := running(t, w, "web", 3), map[string]string{}
	for _, p := range pods {
		sandboxes[p.Name] = try(w.Worker(p.Spec.NodeName).SandboxOf(ctx, string(p.UID))).must(t)
	}
	frozen, killed, cut := w.Workers[0], w.Workers[1], w.Workers[2]
	check(t, frozen.Kubelet.Freeze())
	killed.Kubelet.Kill()
	check(t, killed.Stop())
	check(t, cut.CutOff())
	for _, worker := range w.Workers {
		waitUntil(t, func() bool { return !nodeReady(w.node(t, worker.Name)) })
	}
	for _, p := range pods {
		equal(t, p.Name+" answers", w.Worker(p.Spec.NodeName).Answers(t, addressesOf(p)["net1"]), true)
	}
	check(t, frozen.Kubelet.Thaw())
	check(t, killed.Start(ctx))
	check(t, killed.StartKubelet())
	check(t, cut.Reconnect())
	for _, worker := range w.Workers {
		check(t, worker.WaitReady(ctx))
	}
	for _, p := range pods {
		equal(t, "the sandbox of "+p.Name, try(w.Worker(p.Spec.NodeName).SandboxOf(ctx, string(p.UID))).must(t), sandboxes[p.Name])
	}

	pod := pods[0]
	worker, sandbox := w.Worker(pod.Spec.NodeName), sandboxes[pod.Name]
	before := w.node(t, worker.Name).Status.NodeInfo.BootID
	began := time.Now()
	check(t, worker.Reboot(ctx))
	waitUntil(t, func() bool {
		now := try(w.Client().CoreV1().Pods("default").Get(ctx, pod.Name, metav1.GetOptions{})).must(t)
		id, err := worker.SandboxOf(ctx, string(pod.UID))
		return err == nil && id != sandbox && len(now.Status.ContainerStatuses) > 0 && now.Status.ContainerStatuses[0].Ready
	})
	t.Logf("the pod was back %.1fs after the reboot began", time.Since(began).Seconds())
	if after := w.node(t, worker.Name).Status.NodeInfo.BootID; after == before || len(after) != len(before) {
		t.Errorf("boot id %q, before %q", after, before)
	}
	entry := fmt.Sprint(strings.TrimPrefix(addressesOf(pod)["net1"].String(), "10.1.0."), " default/", pod.Name, " net1 ", try(worker.SandboxOf(ctx, string(pod.UID))).must(t))
	if all := allocations(t, w.ControlPlane, "10.1.0.0-24"); !slices.Contains(all, entry) {
		t.Errorf("no entry %q: %q", entry, all)
	}
}

func TestARestoreLosesAPodThatRunsOn(t *testing.T) {
	t.Parallel()
	w, ctx := startCluster(t, 1), t.Context()
	blue := Network{"default", "blue", IPAM{"range": "10.1.0.0/24"}}
	check(t, w.CreateNAD(ctx, blue))
	snapshot := try(w.Snapshot()).must(t)
	check(t, statefulSet(ctx, w, "web", 1, "blue"))
	pod := running(t, w, "web", 1)[0]
	worker := w.Workers[0]
	sandbox := try(worker.SandboxOf(ctx, string(pod.UID))).must(t)
	revision := try(w.Revision(ctx)).must(t)

	began := time.Now()
	check(t, w.Restore(ctx, snapshot))
	t.Logf("the restore took %.1fs", time.Since(began).Seconds())
	if _, err := w.Client().CoreV1().Pods("default").Get(ctx, pod.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the pod is there: %v", err)
	}
	equal(t, "pools", strings.Join(names(t, w.ControlPlane)["pools"], " "), "")
	check(t, w.CatchUp(ctx, revision))
	check(t, statefulSet(ctx, w, "shop", 1, "blue"))
	shop := running(t, w, "shop", 1)[0]
	equal(t, "the sandbox", try(worker.SandboxOf(ctx, string(pod.UID))).must(t), sandbox)
	equal(t, "the next pod's address", addressesOf(shop)["net1"], addressesOf(pod)["net1"])
	equal(t, "network namespaces with that address", len(try(worker.OnWire()).must(t)[addressesOf(pod)["net1"]]), 2)
}
