package snapshot_test

import (
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler/snapshot"
)

func open2(t *testing.T, files map[string]string) (*snapshot.Snapshot, error) {
	t.Helper()
	return snapshot.Open(folder(t, files), noon, home)
}

// The error names the file and its defect. A part of a snapshot is never judged.
func TestRefuse_IncompleteFolder(t *testing.T) {
	for _, c := range []struct {
		name, file, text string
		says             []string
	}{
		{"broken YAML", "x.yaml", "kind: [", []string{"x.yaml", "is not YAML"}},
		{"a tab for indentation", "x.yaml", "kind:\n\tname: x", []string{"x.yaml", "is not YAML"}},
		{"a broken second document", "x.yaml", "kind: Pod\nmetadata: {name: x}\n---\n}", []string{"x.yaml", "is not YAML"}},
		{"a list", "x.yaml", "- kind: Pod", []string{"x.yaml", "not a Kubernetes object"}},
		{"a List with an item that is none", "x.yaml", "kind: List\nitems:\n- kind: Pod\n  metadata: {name: x}\n- text",
			[]string{"x.yaml", "items[1]", "not a Kubernetes object"}},
		{"a key twice", "x.yaml",
			"kind: IPPool\nmetadata: {name: x}\nspec:\n  allocations:\n    \"5\": {id: a}\n    \"5\": {id: b}\n",
			[]string{"x.yaml", "line 6", `"5"`, "twice"}},
		{"a key twice, once quoted", "x.yaml", "kind: IPPool\nspec:\n  allocations:\n    5: {id: a}\n    \"5\": {id: b}\n",
			[]string{"x.yaml", "line 5", "twice"}},
		{"a key twice in a List", "x.yaml", "kind: List\nitems:\n- kind: Pod\n  kind: Node\n",
			[]string{"x.yaml", "line 4", `"kind"`, "twice"}},
		{"objects glued without ---", "x.yaml", "apiVersion: v1\nkind: Pod\napiVersion: v1\nkind: Node\n",
			[]string{"x.yaml", "line 3", "twice: is a line --- missing between two objects?"}},
		{"an alias of itself", "x.yaml", "a: &a\n  b: *a\nkind: Pod\n", []string{"x.yaml"}},
		{"a zip archive called .yaml", "x.yaml", "PK\x03\x04\x14\x00", []string{"x.yaml is a zip archive", "unzip "}},
		{"UTF-16 without a mark", "x.yaml", "k\x00i\x00n\x00d\x00:\x00", []string{"x.yaml is in UTF-16", "UTF-16LE"}},
		{"an empty file of pods", "pods.yaml", "\n", []string{"pods.yaml is empty"}},
		{"broken JSON", "x.json", `{"kind":`, []string{"x.json", "is not JSON"}},
		{"YAML in a file called .json", "x.json", `kind: Pod`, []string{"x.json", "is not JSON"}},
		{"a JSON array", "x.json", `[{"kind":"Pod"}]`, []string{"x.json", "one JSON object", "List"}},
		{"something behind a JSON object", "x.json", `{"kind":"Pod"} }`, []string{"x.json"}},
		{"a JSON List with an item that is none", "x.json", `{"kind":"List","items":[{"kind":"Pod"},5]}`,
			[]string{"x.json", "items[1]", "not a Kubernetes object"}},
		{"a key twice in JSON", "x.json",
			`{"kind":"IPPool","spec":{"range":"10.0.0.0/24","allocations":{"5":{"id":"a"},"5":{"id":"b"}}}}`, []string{"x.json",
				"duplicate field"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := open2(t, map[string]string{"pool.yaml": onePool, c.file: c.text})
			if err == nil {
				t.Fatal("it is accepted")
			}
			for _, word := range c.says {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q does not say %q", err, word)
				}
			}
		})
	}
}

func TestRefuse_WithoutIPPool(t *testing.T) {
	for title, files := range map[string]map[string]string{
		"an empty folder":        {},
		"no YAML or JSON at all": {"a.txt": "x"},
		"a pod only":             {"pod.yaml": "kind: Pod\nmetadata: {name: a}\n"},
		"an empty List":          {"pools.yaml": "kind: List\napiVersion: v1\nitems: []\n"},
		"an empty file":          {"pools.yaml": ""},
	} {
		_, err := open2(t, files)
		if err == nil || !strings.Contains(err.Error(), "no IPPool") ||
			!strings.Contains(err.Error(), "kubectl get ippools") || !strings.Contains(err.Error(), ",pods,nodes -A") {
			t.Errorf("%s: %v", title, err)
		}
	}
}

// Nothing of these is judged: each has an object, or a list, of which something is missing.
func TestRefuse_WhatIsNotWhole(t *testing.T) {
	const inJSON = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"default"}}`
	const withoutKind = `{"metadata":{"name":"a","namespace":"default"},"spec":{"nodeName":"w1"}}`
	list := func(head, items string) string { return `{"apiVersion":"v1",` + head + `,"items":[` + items + `]}` }
	inYAML := "apiVersion: v1\nitems:\n- " + indentedBy2(runningPodAt("1"))
	for name, c := range map[string]struct{ file, text, says string }{
		"a page that continues": {"x.json", list(`"kind":"PodList","metadata":{"continue":"eyJ2"}`, inJSON), "incomplete"},
		"a page without the rest": {"x.json", list(`"kind":"List","metadata":{"remainingItemCount":1}`, inJSON),
			"remainingItemCount"},
		"a page in a List": {"x.json", list(`"kind":"List"`, list(`"kind":"PodList","metadata":{"continue":"x"}`, "")),
			"the PodList is incomplete"},
		"a page in YAML": {"x.yaml", inYAML + "kind: PodList\nmetadata:\n  remainingItemCount: 7\n", "incomplete"},
		"a page of another kind": {"x.json", list(`"kind":"SecretList","metadata":{"continue":"x"}`, ""),
			"the SecretList is incomplete"},
		"YAML without its kind":           {"x.yaml", inYAML, "the file is cut"},
		"YAML cut in its kind":            {"x.yaml", inYAML + "kind: PodLi", "the file is cut"},
		"YAML cut behind Pod":             {"x.yaml", inYAML + "kind: Pod", "the file is cut"},
		"YAML cut behind the word kind":   {"x.yaml", inYAML + "kind:", "the file is cut"},
		"YAML cut between two documents":  {"x.yaml", onePool + "---\n" + inYAML, "the file is cut"},
		"a list without items":            {"x.json", `{"kind":"PodList","apiVersion":"v1"}`, "has no items"},
		"a List whose items are no array": {"x.json", `{"kind":"List","items":{}}`, "has no items"},
		"Lists in Lists in Lists": {"x.json", strings.Repeat(`{"kind":"List","items":[`, 6) + inJSON +
			strings.Repeat(`]}`, 6), "Lists in more than"},
		"a Node without its name": {"x.json", `{"apiVersion":"v1","kind":"Node","metadata":{}}`, "a Node has no name"},
		"a pod without its namespace": {"x.json", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}`,
			"a Pod has no name or namespace"},
		"a pod without its kind":       {"x.json", withoutKind, "default/a has no kind"},
		"pods without their kind":      {"x.json", withoutKind + "\n" + withoutKind, "default/a has no kind"},
		"an item without its kind":     {"x.json", list(`"kind":"List"`, inJSON+","+withoutKind), "items[1] of a List"},
		"an array of items":            {"x.json", "[" + withoutKind + "]", "must hold one JSON object"},
		"an array of YAML":             {"x.yaml", "- metadata: {name: a}\n  spec: {}\n", "must hold one JSON object"},
		"a pool without an apiVersion": {"x.yaml", "kind: IPPool\nmetadata: {name: a}\nspec: {}\n", "has no apiVersion"},
		"a Table":                      {"x.json", `{"kind":"Table","apiVersion":"meta.k8s.io/v1","rows":[]}`, "a Table"},
		"metadata alone": {"x.json", `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a"}}`,
			"a PartialObjectMetadata"},
		"a list of metadata": {"x.json", list(`"kind":"PartialObjectMetadataList"`, withoutKind), "a PartialObjectMetadata"},
		"watch events":       {"x.json", `{"type":"ADDED","object":` + inJSON + `}`, "a watch event of a Pod"},
		"a pod that is called another kind, too": {"x.json", strings.Replace(inJSON, "{", `{"kind":"ConfigMap",`, 1),
			`duplicate field "kind"`},
		"another kind that is called a pod, too": {"x.json", inJSON[:len(inJSON)-1] + `,"kind":"ConfigMap"}`,
			`duplicate field "kind"`},
		"a pod of two groups": {"x.json", inJSON[:len(inJSON)-1] + `,"apiVersion":"example.com/v1"}`,
			`duplicate field "apiVersion"`},
		"an item of two kinds": {"x.json", list(`"kind":"List"`, inJSON[:len(inJSON)-1]+`,"kind":"ConfigMap"}`),
			`duplicate field "kind"`},
		"a list of two kinds": {"x.json", list(`"kind":"ConfigMapList","kind":"PodList"`, inJSON), `duplicate field "kind"`},
		"a page with two tokens": {"x.json", list(`"kind":"PodList","metadata":{"continue":"eyJ2","continue":""}`, inJSON),
			`duplicate field "continue"`},
		"a page with two metadata": {"x.json", list(`"kind":"PodList","metadata":{"continue":"eyJ2"},"metadata":`+
			`{"continue":""}`, inJSON), `duplicate field "metadata"`},
		"a list with an item of another kind": {"x.json", list(`"kind":"PodList"`,
			strings.Replace(inJSON, "Pod", "ConfigMap", 1)), "ConfigMap default/a is of another kind than its list"},
		"a list with an item without anything": {"x.json", list(`"kind":"PodList"`, "{}"), "a Pod has no name or namespace"},
		"a list with items twice": {"x.json", list(`"kind":"PodList","items":[]`, inJSON),
			`duplicate field "items"`},
		"an API error in place of pods": {"pods.json", `{"kind":"Status","apiVersion":"v1","status":"Failure"}`,
			"no Kubernetes object"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t, map[string]string{"pool.yaml": onePool, c.file: c.text})
			_, err := openAt(dir)
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.file) {
				t.Errorf("the error does not say %q of %s: %v", c.says, c.file, err)
			}
		})
	}
}

func TestRead_ListsInLists(t *testing.T) {
	const item = `{"apiVersion":"v1","kind":"Node","metadata":{"name":"w1"}}`
	for name, text := range map[string]string{
		"two Lists": `{"kind":"List","items":[{"kind":"List","items":[` + item + `]},{"kind":"List","items":[]}]}`,
		"a typed one": `{"kind":"List","items":[{"apiVersion":"v1","kind":"NodeList",` +
			`"items":[{"metadata":{"name":"w1"}}]}]}`,
		"three deep":           `{"kind":"List","items":[{"kind":"List","items":[{"kind":"List","items":[` + item + `]}]}]}`,
		"null is an empty one": `{"kind":"List","items":[{"kind":"PodList","items":null},` + item + `]}`,
	} {
		o := observe(t, open(t, folder(t, map[string]string{"pool.yaml": onePool, "x.json": text})))
		if o.Nodes.Or(nil)["w1"] == nil || len(o.Unreadable)+len(o.Warnings) > 0 {
			t.Errorf("%s: nodes %v, unreadable %q, notes %q", name, o.Nodes, o.Unreadable, o.Warnings)
		}
	}
}

// A must-gather of OpenShift before 4.14 has no IPPool, and its definitions have no ending.
func TestRefuse_OldMustGather(t *testing.T) {
	_, err := open2(t, map[string]string{
		"network_logs/ippools": "Name:         10.0.0.0-24\nAPI Version:  whereabouts.cni.cncf.io/v1alpha1\n" +
			"Kind:         IPPool\n",
		"network_logs/net_attach_def": "apiVersion: v1\nitems:\n- apiVersion: k8s.cni.cncf.io/v1\n" +
			"  kind: NetworkAttachmentDefinition\n  metadata: {name: lan, namespace: apps}\nkind: List\n",
	})
	if err == nil || !strings.Contains(err.Error(), "network_logs/ippools has them as text alone") ||
		!strings.Contains(err.Error(), "kubectl get ippools.whereabouts.cni.cncf.io,") {
		t.Errorf("got %v", err)
	}
}
