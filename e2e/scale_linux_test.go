package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes/scheme"
)

// TestThousandsOfObjects is B7 to B9 of upstream-defects.md: more objects than
// fit in a page, many of them Pending, and a time that grows with their number.
func TestThousandsOfObjects(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	const pods, pools, pendingOf, staleOf = 3000, 5, 3, 10
	began := time.Now()
	var stale []string
	var puts []etcdPut
	entries := make([]map[string]any, pools)
	for i := range pods {
		n, k := i%pools, i/pools+1
		if entries[n] == nil {
			entries[n] = map[string]any{}
		}
		name, ip := fmt.Sprintf("p-%d", i), fmt.Sprintf("10.%d.%d.%d", n, k/256, k%256)
		entries[n][fmt.Sprint(k)] = entry("default/"+name, fmt.Sprintf("%064x", i))
		puts = append(puts, reservationPut(ip, "default/"+name))
		switch {
		case i%staleOf == 0:
			stale = append(stale, fmt.Sprintf("10.%d.0.0-16 %d", n, k), "reservation "+ip)
		case i%pendingOf == 0:
			puts = append(puts, podPut(t, name, "", corev1.PodPending))
		default:
			puts = append(puts, podPut(t, name, ip, corev1.PodRunning))
		}
	}
	s.etcdPuts(t, puts)
	for n := range pools {
		s.pool(t, fmt.Sprintf("10.%d.0.0-16", n), fmt.Sprintf("10.%d.0.0/16", n), entries[n])
	}
	t.Logf("made %d objects in %.1fs", len(puts)+pools, time.Since(began).Seconds())
	before := s.contents(t)
	equal(t, "entries and reservations", len(before), 2*pods)

	checked := s.product(t, "check")
	checked.exits(t, 1)
	equal(t, "summary", fmt.Sprint(checked.Summary), fmt.Sprintf("{%d %d %d 0 %d %d 0}", pools, pods, pods-len(stale)/2, len(stale)/2, pods))
	t.Logf("check took %.2fs", checked.took.Seconds())

	p := &proxy{}
	c := begin(t, "run", "--confirm-after", "0", "-o", "json", "--kubeconfig", p.start(t, s))
	out := c.wait()
	out.exits(t, 0)
	equal(t, "released", len(out.Released), len(stale))
	s.lost(t, before, stale...)
	used := c.cmd.ProcessState.SysUsage().(*syscall.Rusage)
	t.Logf("run freed %d allocations and as many reservations of %d in %.1fs, with %d requests, %.1fs of CPU and %d MiB at most",
		len(stale)/2, pods, out.took.Seconds(), p.requests.Load(), c.cmd.ProcessState.UserTime().Seconds(), used.Maxrss/1024)
	if out.took > time.Minute {
		t.Errorf("it took %s", out.took)
	}
}

type etcdPut struct {
	key   string
	value []byte
}

// etcdPuts writes many objects straight to etcd, which takes 128 at a time.
func (s *stage) etcdPuts(t *testing.T, puts []etcdPut) {
	t.Helper()
	for some := range slices.Chunk(puts, 128) {
		var ops []map[string]any
		for _, p := range some {
			ops = append(ops, map[string]any{"requestPut": map[string][]byte{"key": []byte(p.key), "value": p.value}})
		}
		s.etcd(t, "txn", map[string]any{"success": ops})
	}
}

func reservationPut(ip, podRef string) etcdPut {
	object := map[string]any{
		"apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "OverlappingRangeIPReservation",
		"metadata": map[string]any{"name": ip, "namespace": "kube-system", "uid": uuid.NewUUID(), "generation": 1,
			"creationTimestamp": time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)},
		"spec": map[string]any{"podref": podRef, "ifname": "net1"},
	}
	return etcdPut{"/registry/whereabouts.cni.cncf.io/overlappingrangeipreservations/kube-system/" + ip, must(json.Marshal(object))}
}

func podPut(t *testing.T, name, ip string, phase corev1.PodPhase) etcdPut {
	t.Helper()
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(uuid.NewUUID()),
			CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour))},
		Spec:   corev1.PodSpec{NodeName: "worker-1", Containers: []corev1.Container{{Name: "main", Image: "e2e.invalid/none"}}},
		Status: corev1.PodStatus{Phase: phase},
	}
	if ip != "" {
		pod.Annotations = map[string]string{statusAnnotation: `[{"name":"default/many","interface":"net1","ips":["` + ip + `"]}]`}
	}
	var stored bytes.Buffer
	check(t, protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(pod, &stored))
	return etcdPut{"/registry/pods/default/" + name, stored.Bytes()}
}
