package snapshot_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/randfill"
)

const leanPool = `{"apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "IPPool", "metadata": {"namespace": "kube-system", "name": "10.0.0.0-24"}, "spec": {"range": "10.0.0.0/24", "allocations": {}}}`

// A file with a pool is read as a whole, since it may be written; one with pods
// and nodes alone is not. It makes no difference to what is read.
func TestAFileOfPodsAloneIsReadAsOneThatHasAPoolToo(t *testing.T) {
	f := randfill.NewWithSeed(1).NilChance(.4).NumElements(0, 2).MaxDepth(12).Funcs(
		func(v *metav1.Time, c randfill.Continue) { *v = metav1.Unix(1780000000+c.Int63n(1e6), 0) },
		func(v *metav1.FieldsV1, c randfill.Continue) { *v = *metav1.NewFieldsV1(`{"f:spec":{}}`) },
		func(v *types.UID, c randfill.Continue) { *v = types.UID(fmt.Sprint("uid-", c.Intn(1000))) },
		func(v *corev1.PodPhase, c randfill.Continue) {
			*v = []corev1.PodPhase{corev1.PodRunning, corev1.PodFailed, corev1.PodPending}[c.Intn(3)]
		},
		func(v *map[string]string, c randfill.Continue) {
			*v = map[string]string{"note": "<&>", "k8s.v1.cni.cncf.io/network-status": `[{"name":"default/wb","interface":"net1","ips":["10.0.0.5"]}]`}
		})
	var items []string
	add := func(o any) {
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, string(text))
	}
	for i := range 40 {
		pod, node := &corev1.Pod{}, &corev1.Node{}
		f.Fill(pod)
		f.Fill(node)
		pod.TypeMeta, pod.Namespace, pod.Name = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, "default", fmt.Sprint("web-", i)
		node.TypeMeta, node.Name = metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, fmt.Sprint("worker-", i)
		add(pod)
		add(node)
	}
	// What cannot be read is said in the same way, and stands for a pod all the same.
	items = append(items, `{"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": "broken", "uid": "u"}, "status": {"phase": 5}}`,
		`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "broken", "labels": {"a": "b"}}, "status": {"conditions": "x"}}`)
	list := func(items ...string) string {
		return `{"apiVersion": "v1", "items": [` + strings.Join(items, ",") + `], "kind": "List"}`
	}
	lean := observe(t, open(t, folder(t, map[string]string{"pods.json": list(items...), "pool.json": leanPool})))
	whole := observe(t, open(t, folder(t, map[string]string{"all.json": list(append(items, leanPool)...)})))
	if len(lean.Pods) != 41 || len(lean.Nodes) != 41 || len(lean.Unreadable) != 2 {
		t.Fatalf("%d pods, %d nodes, unreadable: %q", len(lean.Pods), len(lean.Nodes), lean.Unreadable)
	}
	for name, want := range whole.Pods {
		if !reflect.DeepEqual(lean.Pods[name], want) {
			t.Errorf("got  %+v\nwant %+v", lean.Pods[name], want)
		}
	}
	for name, want := range whole.Nodes {
		if !reflect.DeepEqual(lean.Nodes[name], want) {
			t.Errorf("got  %+v\nwant %+v", lean.Nodes[name], want)
		}
	}
	equal(t, "unreadable", len(lean.Unreadable), len(whole.Unreadable))
}

func TestAPodListLeavesOutTheKindOfItsItems(t *testing.T) {
	o := observe(t, open(t, folder(t, map[string]string{"pool.json": leanPool,
		"pods.json": `{"apiVersion": "v1", "items": [{"metadata": {"namespace": "default", "name": "web-0"}, "status": {"phase": "Running"}}], "kind": "PodList"}`})))
	equal(t, "pods", len(o.Pods), 1)
}
