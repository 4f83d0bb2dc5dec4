package snapshot_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/randfill"
	"sigs.k8s.io/yaml"

	"github.com/ip-reconcile/ip-reconcile/podstate"
)

const leanPool = `{"apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "IPPool",` +
	` "metadata": {"namespace": "kube-system", "name": "10.0.0.0-24"}, "spec": {"range": "10.0.0.0/24",` +
	` "allocations": {}}}`

// Of pods and nodes little is read. It makes no difference to what comes of them.
func TestLean_ReadAsWhole(t *testing.T) {
	f := randfill.NewWithSeed(1).NilChance(.4).NumElements(0, 2).MaxDepth(12).Funcs(
		func(v *metav1.Time, c randfill.Continue) { *v = metav1.Unix(1780000000+c.Int63n(1e6), 0) },
		func(v *metav1.FieldsV1, c randfill.Continue) { *v = *metav1.NewFieldsV1(`{"f:spec":{}}`) },
		func(v *types.UID, c randfill.Continue) { *v = types.UID(fmt.Sprint("uid-", c.Intn(1000))) },
		func(v *corev1.PodPhase, c randfill.Continue) {
			*v = []corev1.PodPhase{corev1.PodRunning, corev1.PodFailed, corev1.PodPending}[c.Intn(3)]
		},
		func(v *map[string]string, c randfill.Continue) {
			*v = map[string]string{"note": "<&>",
				"k8s.v1.cni.cncf.io/network-status": `[{"name":"default/wb","interface":"net1","ips":["10.0.0.5"]}]`}
		})
	var items []string
	pods, nodes := map[types.NamespacedName]*podstate.Pod{}, map[string]*podstate.Node{}
	add := func(o, again any) {
		text, err := json.Marshal(o)
		if err == nil {
			err = json.Unmarshal(text, again)
		}
		check(t, err)
		items = append(items, string(text))
	}
	for i := range 40 {
		pod, node := &corev1.Pod{}, &corev1.Node{}
		f.Fill(pod)
		f.Fill(node)
		pod.UID, pod.Spec.NodeName = cmp.Or(pod.UID, "u"), cmp.Or(pod.Spec.NodeName, "w1") // as of every pod that ran
		pod.TypeMeta, pod.Namespace, pod.Name = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, "default", fmt.Sprint("web-",
			i)
		node.TypeMeta, node.Name = metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, fmt.Sprint("worker-", i)
		podAgain, nodeAgain := &corev1.Pod{}, &corev1.Node{}
		add(pod, podAgain)
		add(node, nodeAgain)
		pods[name("default", pod.Name)], nodes[node.Name] = podstate.ReadPod(podAgain), podstate.ReadNode(nodeAgain)
	}
	// What cannot be read is reported, and counts as a pod or a node all the same.
	items = append(items,
		`{"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": "broken", "uid": "u"},`+
			` "status": {"phase": 5}}`,
		`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "broken", "labels": {"a": "b"}},`+
			` "status": {"conditions": "x"}}`)
	pods[name("default", "broken")] = &podstate.Pod{NamespacedName: name("default", "broken"), UID: "u",
		Phase: podstate.Live, Status: podstate.StatusUnreadable}
	nodes["broken"] = &podstate.Node{Name: "broken", Labels: map[string]string{"a": "b"}}
	list := `{"apiVersion": "v1", "items": [` + strings.Join(append(items, leanPool), ",") + `], "kind": "List"}`
	inYAML, err := yaml.JSONToYAML([]byte(list))
	check(t, err)
	for file, text := range map[string]string{"all.json": list, "all.yaml": string(inYAML)} {
		o := observe(t, open(t, folder(t, map[string]string{file: text})))
		equal(t, "unreadable", len(o.Unreadable), 2)
		pods[name("default", "broken")].Contradiction = o.Unreadable[0]
		equal(t, "pods", len(o.Pods), len(pods))
		equal(t, "nodes", len(o.Nodes.Or(nil)), len(nodes))
		for id, want := range pods {
			if !reflect.DeepEqual(o.Pods[id], want) {
				t.Errorf("%s:\ngot  %+v\nwant %+v", file, o.Pods[id], want)
			}
		}
		for name, want := range nodes {
			if !reflect.DeepEqual(o.Nodes.Or(nil)[name], want) {
				t.Errorf("%s:\ngot  %+v\nwant %+v", file, o.Nodes.Or(nil)[name], want)
			}
		}
	}
}

// A list of pods in which there is something else, whose kind comes after it.
func TestLean_PoolInAListOfPods(t *testing.T) {
	o := observe(t, open(t, folder(t,
		map[string]string{"all.json": `{"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": {"namespace": "default", "name": "web-0"}},
		{"spec": {"range": "10.0.0.0/24", "allocations": {"5": {"id": "c5", "podref": "default/a"}}}, "metadata": {"namespace": "kube-system", "name": "p"}, "kind": "IPPool", "apiVersion": "whereabouts.cni.cncf.io/v1alpha1"}]}`})))
	equal(t, "entries", len(poolNamed(t, o, "p").Allocations), 1)
	equal(t, "pods", len(o.Pods), 1)
}
