package lean

import (
	"bytes"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

func TestNextPage(t *testing.T) {
	pods := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "token"},
		Items: []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}}
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	var body bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(pods, &body); err != nil {
		t.Fatal(err)
	}
	last := `"kind":"IPPoolList","metadata":{"continue":"token","resourceVersion":"7"}}`
	for _, c := range []struct{ name, body, want string }{
		{"protobuf", body.String(), "token"},
		{"protobuf that breaks off", body.String()[:12], ""},
		{"custom resources", `{"items":[{"metadata":{"name":"a"}}],` + last, "token"},
		{"JSON that breaks off", `{"items":[{"metadata":{"name":"a"}}],` + last[:40], ""},
		{"the last page", `{"items":[],"kind":"IPPoolList","metadata":{"resourceVersion":"7"}}`, ""},
		{"metadata before the objects", `{"metadata":{"continue":"token"},"items":[{"metadata":{"name":"a"}}]}`, ""},
		{"no list", `<html>`, ""},
		{"nothing", "", ""},
	} {
		if got := NextPage([]byte(c.body)); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// A page says how many objects are not in it, in both encodings. It is the only sign of a list that is cut.
func TestList_RemainingItemCount(t *testing.T) {
	remaining := int64(3)
	pods := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7", RemainingItemCount: &remaining}}
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	var body bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(pods, &body); err != nil {
		t.Fatal(err)
	}
	inJSON := func(count string) string {
		return `{"kind":"PodList","items":[],"metadata":{"remainingItemCount":` + count + `}}`
	}
	for name, c := range map[string]struct {
		body string
		want int64
	}{
		"protobuf": {body.String(), 3}, "JSON": {inJSON("3"), 3}, "none": {inJSON("0"), 0}, "null": {inJSON("null"), 0},
		"a text": {inJSON(`"3"`), -1}, "no whole number": {inJSON("1e3"), -1},
	} {
		meta, err := List([]byte(c.body), "Pod", func([]byte, bool) error { return nil })
		got := int64(0)
		if meta.RemainingItemCount != nil {
			got = *meta.RemainingItemCount
		}
		if err != nil || got != c.want {
			t.Errorf("%s: got %d, %v; want %d", name, got, err, c.want)
		}
	}
}
