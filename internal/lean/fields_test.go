package lean

import (
	"bytes"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func message(t *testing.T) []byte {
	t.Helper()
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: "default",
		Labels: map[string]string{"a": "b"}}, Spec: corev1.PodSpec{NodeName: "worker-1"}}
	text, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestAppendProto(t *testing.T) {
	lean, err := Fields{F(1, "", F(1, ""), F(11, ""))}.AppendProto([]byte("before"), message(t))
	if err != nil {
		t.Fatal(err)
	}
	lean, found := bytes.CutPrefix(lean, []byte("before"))
	var pod corev1.Pod
	if err := pod.Unmarshal(lean); err != nil || !found {
		t.Fatal(err, found)
	}
	if pod.Name != "web-0" || pod.Labels["a"] != "b" || pod.Namespace != "" || pod.Spec.NodeName != "" {
		t.Errorf("%+v", pod)
	}
}

func TestAppendProto_Truncated(t *testing.T) {
	whole := message(t)
	for _, f := range []Fields{{}, {F(1, ""), F(2, ""), F(3, "")}, {F(1, "", F(1, ""))}} {
		if _, err := f.AppendProto(nil, whole[:len(whole)-1]); err == nil {
			t.Errorf("%v: no error", f)
		}
	}
	// Also within a message.
	if _, err := (Fields{F(1, "", F(1, ""))}).AppendProto(nil, []byte{0x0a, 0x02, 0x0a, 0x05}); err == nil {
		t.Error("no error")
	}
}
