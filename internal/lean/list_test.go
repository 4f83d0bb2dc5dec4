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
