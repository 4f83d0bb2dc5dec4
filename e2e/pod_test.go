package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

const (
	statusAnnotation = "k8s.v1.cni.cncf.io/network-status"
)

// A pod is a pod with a sandbox and the addresses that the real plugin assigned.
type pod struct {
	*corev1.Pod
	s           *stage
	node        *harness.Node
	sandbox     *harness.Sandbox
	attachments []harness.Attachment
	ips         []string // of all attachments
	status      []harness.NetworkStatus
	interfaces  int // that fillUp has attached
}

// network is a network in the namespace default.
func network(name string, ipam harness.IPAM) harness.Network {
	return harness.Network{Namespace: "default", Name: name, IPAM: ipam}
}

// simple is a network of one range.
func simple(name, cidr string) harness.Network { return network(name, harness.IPAM{"range": cidr}) }

// pending starts a pod as far as a runtime does before Multus writes the status: it is Pending and its ADDs are done.
func (s *stage) pending(t testing.TB, node, name string, networks ...harness.Network) *pod {
	t.Helper()
	object := try(s.CreatePod(context.Background(), "default", name, node, networks...)).must(t)
	p := &pod{Pod: object, s: s, node: s.nodes[node]}
	p.attach(t, networks...)
	return p
}

// attach creates a sandbox for the pod and attaches it.
func (p *pod) attach(t testing.TB, networks ...harness.Network) {
	t.Helper()
	p.sandbox, p.attachments, p.ips, p.status = try(p.node.NewSandbox()).must(t), nil, nil, nil
	sandbox := p.sandbox
	t.Cleanup(func() { sandbox.Close() })
	for i, n := range networks {
		check(t, p.add(harness.Attachment{
			Sandbox: p.sandbox, Namespace: p.Namespace, Pod: p.Name, UID: string(p.UID), IfName: fmt.Sprintf("net%d", i+1),
			Network: n,
		}))
	}
}

func (p *pod) add(a harness.Attachment) error {
	result, err := p.node.Add(context.Background(), a)
	if err != nil {
		return err
	}
	p.attachments = append(p.attachments, a)
	p.status = append(p.status, a.Status(result))
	for _, ip := range harness.Addresses(result) {
		p.ips = append(p.ips, ip.String())
	}
	return nil
}

// up starts a pod: Running, with the network-status of its attachments.
func (s *stage) up(t testing.TB, node, name string, networks ...harness.Network) *pod {
	t.Helper()
	return s.pending(t, node, name, networks...).running(t)
}

func (p *pod) running(t testing.TB) *pod {
	t.Helper()
	p.Pod = try(p.s.SetRunning(context.Background(), p.Pod, p.status...)).must(t)
	return p
}

// waits creates a pod whose ADD whereabouts' plugin refuses because the range is full, and makes it a minute old.
func (s *stage) waits(t *testing.T, name string, n harness.Network) *pod {
	t.Helper()
	p := s.pending(t, "worker-1", name)
	p.annotate(t, "k8s.v1.cni.cncf.io/networks", n.Name)
	err := p.add(harness.Attachment{Sandbox: p.sandbox, Namespace: p.Namespace, Pod: name, UID: string(p.UID),
		IfName: "net1", Network: n})
	if err == nil || !strings.Contains(err.Error(), "Could not allocate IP in range") {
		t.Fatalf("the ADD: %v", err)
	}
	return p.age(t, time.Minute)
}

// leak ends the pod without a DEL: deleted by force, its sandbox gone.
func (p *pod) leak(t testing.TB) *pod {
	t.Helper()
	p.forceDelete(t)
	check(t, p.sandbox.Close())
	return p
}

func (p *pod) forceDelete(t testing.TB) {
	t.Helper()
	check(t, p.s.DeletePod(context.Background(), p.Pod, 0))
}

func (p *pod) delete(t testing.TB, graceSeconds int64) {
	t.Helper()
	check(t, p.s.DeletePod(context.Background(), p.Pod, graceSeconds))
}

// del calls DEL for all attachments.
func (p *pod) del(t testing.TB) {
	t.Helper()
	for _, a := range p.attachments {
		check(t, p.node.Del(context.Background(), a))
	}
}

// annotate sets an annotation; "" removes it.
func (p *pod) annotate(t testing.TB, key, value string) *pod {
	t.Helper()
	annotation := any(value)
	if value == "" {
		annotation = nil
	}
	return p.change(t, map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: annotation}}})
}

func (p *pod) change(t testing.TB, patch map[string]any, subresource ...string) *pod {
	t.Helper()
	p.Pod = try(p.s.Client().CoreV1().Pods(p.Namespace).Patch(context.Background(), p.Name, types.StrategicMergePatchType,
		try(json.Marshal(patch)).must(t), metav1.PatchOptions{}, subresource...)).must(t)
	return p
}

// phase writes the phase alone, as other clients than kubelet do.
func (p *pod) phase(t testing.TB, phase corev1.PodPhase) *pod {
	t.Helper()
	return p.change(t, map[string]any{"status": map[string]any{"phase": phase}}, "status")
}

// finish ends the pod as kubelet does: every container terminated, not Ready.
func (p *pod) finish(t testing.TB, phase corev1.PodPhase) *pod {
	t.Helper()
	return p.change(t, map[string]any{"status": corev1.PodStatus{
		Phase: phase,
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "main", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.Now()}},
		}},
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionFalse}, {Type: corev1.ContainersReady,
				Status: corev1.ConditionFalse},
		},
	}}, "status")
}

// bare creates a pod object without sandbox or network; its owner ends it at once.
func (s *stage) bare(t testing.TB, node, name string) *pod {
	t.Helper()
	object := try(s.Client().CoreV1().Pods("default").Create(context.Background(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			NodeName: node, TerminationGracePeriodSeconds: ptr.To(int64(0)),
			Containers: []corev1.Container{{Name: "main", Image: "e2e.invalid/none"}},
		},
	}, metav1.CreateOptions{})).must(t)
	return &pod{Pod: object, s: s, node: s.nodes[node]}
}

var blue = simple("blue", "10.1.0.0/24")

// at is the place of a pod's allocation in the network blue, as in verdicts.
func at(p *pod) string { return "10.1.0.0-24 " + p.ips[0] }

// stored are the places of a pod's allocation in the network blue and of its reservation, as in contents.
func stored(p *pod) []string {
	return []string{"10.1.0.0-24 " + strings.TrimPrefix(p.ips[0], "10.1.0."), "reservation " + p.ips[0]}
}

// forget removes a pod's allocation in the network blue, as if it had never been stored.
func (s *stage) forget(t testing.TB, p *pod) {
	t.Helper()
	s.patch(t, harness.IPPools, "10.1.0.0-24", `{"spec":{"allocations":{"`+strings.TrimPrefix(p.ips[0], "10.1.0.")+
		`":null}}}`)
}

// entryAndReservation are the places of an address in 10.1.0.0/24, for checkReleased.
func entryAndReservation(i int) []string {
	return []string{fmt.Sprint("10.1.0.0-24 ", i), fmt.Sprint("reservation 10.1.0.", i)}
}

// What only time can cause is written directly to etcd: the API server sets creation and deletion times itself and
// accepts no others.

// age makes an object of whereabouts older.
func (s *stage) age(t testing.TB, r schema.GroupVersionResource, name string, by time.Duration) {
	t.Helper()
	key := "/registry/" + r.Group + "/" + r.Resource + "/" + metav1.NamespaceSystem + "/" + name
	object := &unstructured.Unstructured{}
	check(t, json.Unmarshal(s.etcdGet(t, key), &object.Object))
	object.SetCreationTimestamp(metav1.NewTime(object.GetCreationTimestamp().Add(-by)))
	s.etcdPut(t, key, try(json.Marshal(object.Object)).must(t))
}

// age makes the pod older, and its deletion if it is being deleted.
func (p *pod) age(t testing.TB, by time.Duration) *pod {
	t.Helper()
	rewrite(t, p.s, "/registry/pods/"+p.Namespace+"/"+p.Name, func(o metav1.Object) {
		o.SetCreationTimestamp(metav1.NewTime(o.GetCreationTimestamp().Add(-by)))
		if at := o.GetDeletionTimestamp(); at != nil {
			earlier := metav1.NewTime(at.Add(-by))
			o.SetDeletionTimestamp(&earlier)
		}
	})
	// The API server observes such a write a moment later.
	want := p.CreationTimestamp.Add(-by).Unix()
	eventually(t, "the API server to see the older pod", func() bool {
		p.Pod = try(p.s.Client().CoreV1().Pods(p.Namespace).Get(context.Background(), p.Name, metav1.GetOptions{})).must(t)
		return p.CreationTimestamp.Unix() == want
	})
	return p
}

// rewrite changes an object of a built-in kind in etcd.
func rewrite(t testing.TB, s *stage, key string, change func(metav1.Object)) {
	t.Helper()
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(s.etcdGet(t, key), nil, nil)
	check(t, err)
	change(object.(metav1.Object))
	var stored bytes.Buffer
	check(t, protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(object, &stored))
	s.etcdPut(t, key, stored.Bytes())
}

func (s *stage) etcdGet(t testing.TB, key string) []byte {
	t.Helper()
	var answer struct {
		Kvs []struct{ Value []byte }
	}
	check(t, json.Unmarshal(s.etcd(t, "kv/range", map[string][]byte{"key": []byte(key)}), &answer))
	if len(answer.Kvs) != 1 {
		t.Fatalf("etcd has %d values at %s", len(answer.Kvs), key)
	}
	return answer.Kvs[0].Value
}

func (s *stage) etcdPut(t testing.TB, key string, value []byte) {
	t.Helper()
	s.etcd(t, "kv/put", map[string][]byte{"key": []byte(key), "value": value})
}

func (s *stage) etcd(t testing.TB, call string, ask any) (answer json.RawMessage) {
	t.Helper()
	check(t, s.AskEtcd(t.Context(), call, ask, &answer))
	return answer
}
