// Package bench compares the time of a pass with that of whereabouts' own
// reconciler, in one process and without a network:
//
//	go test ./bench -bench . -benchtime 5x
package bench

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/k8snetworkplumbingwg/whereabouts/pkg/api/whereabouts.cni.cncf.io/v1alpha1"
	wbfake "github.com/k8snetworkplumbingwg/whereabouts/pkg/generated/clientset/versioned/fake"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/logging"
	upstream "github.com/k8snetworkplumbingwg/whereabouts/pkg/reconciler"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/storage/kubernetes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// A cluster is n allocations in pools of 250, each with its reservation, and the
// pods of 95 % of them.
type cluster struct {
	pools        []*v1alpha1.IPPool
	reservations []*v1alpha1.OverlappingRangeIPReservation
	pods         []*corev1.Pod
}

func newCluster(n int) *cluster {
	c := &cluster{}
	for i := range n {
		octet, key := i/250, i%250+1
		if key == 1 {
			c.pools = append(c.pools, &v1alpha1.IPPool{
				ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: fmt.Sprintf("10.0.%d.0-24", octet), ResourceVersion: "7"},
				Spec:       v1alpha1.IPPoolSpec{Range: fmt.Sprintf("10.0.%d.0/24", octet), Allocations: map[string]v1alpha1.IPAllocation{}},
			})
		}
		ip, name := netip.AddrFrom4([4]byte{10, 0, byte(octet), byte(key)}).String(), fmt.Sprintf("web-%d", i)
		podRef := "default/" + name
		c.pools[octet].Spec.Allocations[strconv.Itoa(key)] = v1alpha1.IPAllocation{ContainerID: fmt.Sprintf("%064d", i), PodRef: podRef, IfName: "net1"}
		c.reservations = append(c.reservations, &v1alpha1.OverlappingRangeIPReservation{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: ip, UID: types.UID(ip), CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour))},
			Spec:       v1alpha1.OverlappingRangeIPReservationSpec{PodRef: podRef, IfName: "net1"},
		})
		if i%20 == 0 {
			continue // stale
		}
		status, _ := json.Marshal([]map[string]any{{"name": "cbr0", "interface": "eth0", "ips": []string{"192.168.0.1"}, "default": true},
			{"name": "default/wb", "interface": "net1", "ips": []string{ip}}})
		c.pods = append(c.pods, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Annotations: map[string]string{"k8s.v1.cni.cncf.io/network-status": string(status)}},
			Spec:       corev1.PodSpec{NodeName: "worker-1", Containers: []corev1.Container{{Name: "main"}}},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning},
		})
	}
	return c
}

// upstream makes one look and judgement of whereabouts v0.9.4 on its fake
// clientset, and says how much of the time the LISTs alone take there.
func (c *cluster) upstream(b *testing.B) func() (pass, lists time.Duration) {
	logging.SetLogStderr(false)
	var theirs, core []runtime.Object
	for _, p := range c.pools {
		theirs = append(theirs, p)
	}
	for _, r := range c.reservations {
		theirs = append(theirs, r)
	}
	for _, p := range c.pods {
		core = append(core, p)
	}
	client := kubernetes.NewKubernetesClient(wbfake.NewSimpleClientset(theirs...), fake.NewSimpleClientset(core...))
	return func() (pass, lists time.Duration) {
		began := time.Now()
		if _, err := upstream.NewReconcileLooperWithClient(client); err != nil {
			b.Fatal(err)
		}
		pass = time.Since(began)
		began = time.Now()
		_, err1 := client.ListIPPools()
		_, err2 := client.ListPods()
		_, err3 := client.ListOverlappingIPs()
		if err1 != nil || err2 != nil || err3 != nil {
			b.Fatal(err1, err2, err3)
		}
		return pass, time.Since(began)
	}
}

// ours reads the same objects, as a LIST gives them, and judges.
func (c *cluster) ours(b *testing.B) func() (reading, judging time.Duration) {
	var pools, reservations []*unstructured.Unstructured
	for _, p := range c.pools {
		pools = append(pools, raw(b, p))
	}
	for _, r := range c.reservations {
		reservations = append(reservations, raw(b, r))
	}
	return func() (time.Duration, time.Duration) {
		began := time.Now()
		o := &reconciler.Observation{Now: time.Now(), Past: reconciler.NewHistory(), Pods: map[types.NamespacedName]*podstate.Pod{}}
		for _, u := range reservations {
			o.Reservations = append(o.Reservations, ippool.ReadReservation(u))
		}
		for _, u := range pools {
			o.Pools = append(o.Pools, ippool.ReadPool(u))
		}
		for _, p := range c.pods {
			read := podstate.ReadPod(p)
			o.Pods[read.NamespacedName] = read
		}
		read := time.Since(began)
		began = time.Now()
		j := reconciler.Judge(o, reconciler.Policy{})
		judged := time.Since(began)
		if n := len(c.reservations); j.Summary().Stale != n/20 {
			b.Fatalf("%d of %d are stale", j.Summary().Stale, n)
		}
		return read, judged
	}
}

func raw(b *testing.B, o runtime.Object) *unstructured.Unstructured {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		b.Fatal(err)
	}
	return &unstructured.Unstructured{Object: content}
}

// BenchmarkPass gives nanoseconds for a look at a cluster and its judgement,
// without network and decoding; for upstream without what its fake LISTs take.
func BenchmarkPass(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			c := newCluster(n)
			ours, theirs := c.ours(b), c.upstream(b)
			var read, judged, pass, lists time.Duration
			for b.Loop() {
				r, j := ours()
				p, l := theirs()
				read, judged, pass, lists = read+r, judged+j, pass+p, lists+l
			}
			per := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / float64(b.N) }
			b.ReportMetric(0, "ns/op") // of both together: of no use
			b.ReportMetric(per(read+judged), "ours-ns/pass")
			b.ReportMetric(per(judged), "judge-ns/pass")
			b.ReportMetric(per(pass-lists), "upstream-ns/pass")
			b.ReportMetric(float64(pass-lists)/float64(read+judged), "times-faster")
		})
	}
}

// BenchmarkJudge is for profiles: our judgement of 10,000 allocations alone.
func BenchmarkJudge(b *testing.B) {
	ours := newCluster(10000).ours(b)
	for b.Loop() {
		ours()
	}
}
