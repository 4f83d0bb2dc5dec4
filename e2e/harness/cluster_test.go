//go:build slow

package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// startCluster is start for a Cluster.
func startCluster(t *testing.T, workers int) *Cluster {
	t.Helper()
	if why := ContainerdV2.Unsupported(); why != "" {
		t.Skip(why)
	}
	began := time.Now()
	w := StartCluster(t, workers)
	t.Logf("the cluster was ready after %.1fs", time.Since(began).Seconds())
	return w
}

// statefulSet makes a StatefulSet of the workload, spread over the workers.
func statefulSet(ctx context.Context, w *Cluster, name string, replicas int32, networks string) error {
	labels := map[string]string{"app": name}
	_, err := w.Client().AppsV1().StatefulSets("default").Create(ctx, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: name, PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{networksAnnotation: networks}},
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{{Name: "main", Image: WorkloadImage, ImagePullPolicy: corev1.PullNever}},
					TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
						MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule,
						LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
					}},
					TerminationGracePeriodSeconds: ptr.To(int64(2)),
				},
			},
		},
	}, metav1.CreateOptions{})
	return err
}

// running waits for the pods of the StatefulSet.
func running(t *testing.T, w *Cluster, name string, replicas int) []corev1.Pod {
	t.Helper()
	var pods []corev1.Pod
	waitUntil(t, func() bool {
		pods = try(w.Client().CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + name})).must(t).Items
		return len(pods) == replicas && !slices.ContainsFunc(pods, func(p corev1.Pod) bool {
			return p.Status.Phase != corev1.PodRunning
		})
	})
	return pods
}

// addressesOf are the addresses of a pod by interface, as Multus says.
func addressesOf(pod corev1.Pod) map[string]netip.Addr {
	var entries []NetworkStatus
	found := map[string]netip.Addr{}
	if err := json.Unmarshal([]byte(pod.Annotations[networkStatusAnnotation]), &entries); err != nil {
		return nil
	}
	for _, e := range entries {
		found[e.Interface] = netip.MustParseAddr(e.IPs[0])
	}
	return found
}

func TestCluster(t *testing.T) {
	t.Parallel()
	w, ctx := startCluster(t, 2), t.Context()
	blue := Network{"default", "blue", IPAM{"range": "10.1.0.0/24"}}
	red := Network{"default", "red", IPAM{"range": "10.2.0.0/24"}}
	check(t, w.CreateNAD(ctx, blue))
	check(t, w.CreateNAD(ctx, red))
	began := time.Now()
	check(t, statefulSet(ctx, w, "web", 3, "blue,red"))
	pods := running(t, w, "web", 3)
	t.Logf("three pods ran after %.1fs", time.Since(began).Seconds())

	nodes := map[string]bool{}
	for _, from := range pods {
		nodes[from.Spec.NodeName] = true
		for _, to := range pods {
			addresses := addressesOf(to)
			equal(t, "interfaces", len(addresses), 3)
			for ifName, address := range addresses {
				if from.Name == to.Name {
					equal(t, fmt.Sprint(address, " is on its worker"), w.Worker(to.Spec.NodeName).Answers(t, address), true)
				}
				name, err := w.Asked(ctx, &from, address)
				if err != nil || name != to.Name {
					t.Errorf("at %s, %s of %s, %s gets %q: %v", address, ifName, to.Name, from.Name, name, err)
				}
			}
		}
	}
	equal(t, "workers with pods", len(nodes), 2)
	equal(t, "allocations", len(allocations(t, w.ControlPlane, "10.1.0.0-24"))+len(allocations(t, w.ControlPlane, "10.2.0.0-24")), 6)

	out, errs, err := w.Kubectl(ctx, "exec", pods[0].Name, "--", "/workload", addressesOf(pods[1])["net1"].String())
	if err != nil || out != pods[1].Name {
		t.Errorf("kubectl exec: %q %s: %v", out, errs, err)
	}

	began = time.Now()
	check(t, w.Client().AppsV1().StatefulSets("default").Delete(ctx, "web", metav1.DeleteOptions{}))
	waitUntil(t, func() bool {
		return len(allocations(t, w.ControlPlane, "10.1.0.0-24"))+len(allocations(t, w.ControlPlane, "10.2.0.0-24")) == 0
	})
	t.Logf("their entries were gone after %.1fs", time.Since(began).Seconds())
	_, err = w.Asked(ctx, &pods[0], netip.MustParseAddr("10.1.0.1"))
	if err == nil {
		t.Error("somebody answers yet")
	}
}
