package kube_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// Something in between may answer the second check's read of the owner's pod with JSON, too.
func TestAnswer_NotThePod(t *testing.T) {
	other, nameless := pod("web-9"), pod("web-0")
	delete(nameless["metadata"].(map[string]any), "uid")
	for title, a := range map[string]answer{
		"an empty object":   object(map[string]any{}),
		"an empty pod":      object(map[string]any{"kind": "Pod", "apiVersion": "v1"}),
		"another pod":       object(other),
		"one without a UID": object(nameless),
	} {
		f := newFakeAPI(t)
		f.has(pool("8"), pod("web-0"), reservation().Object)
		f.answers[onePod] = a
		if live, err := f.cluster(t).GetLive(impatient(t), observed(), need); err == nil {
			t.Errorf("%s counts as the pod: %+v", title, live.Pods[types.NamespacedName{Namespace: "default", Name: "web-0"}])
		}
	}
}

// Nor does it say that nothing is paused.
func TestAnswer_NotTheNamespace(t *testing.T) {
	f := newFakeAPI(t)
	f.has(pool("8"), pod("web-0"), map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{
		"name": "kube-system", "resourceVersion": "2", "annotations": map[string]any{ippool.PausedAnnotation: "true"}}})
	f.answers[namespace] = object(map[string]any{})
	if o, err := f.cluster(t).List(impatient(t)); err == nil && !o.Paused && o.PauseUnknown == "" {
		t.Error("an empty object counts as a namespace that is not paused")
	}
}
