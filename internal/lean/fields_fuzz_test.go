package lean

import (
	"bytes"
	"reflect"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
)

// FuzzAppendProto compares a reduced message with the whole one, as a decoder of pods reads them.
func FuzzAppendProto(f *testing.F) {
	whole, err := (&corev1.Pod{Spec: corev1.PodSpec{NodeName: "worker-1", Containers: []corev1.Container{{Name: "a",
		Image: "b"}}}, Status: corev1.PodStatus{PodIP: "10.0.0.5"}}).Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add([]byte{0x0a, 0x80, 0x00})
	f.Add([]byte{0x12, 0x00, 0x12, 0x02, 0x12, 0x00})
	f.Add(protowire.AppendTag(nil, 3, protowire.StartGroupType))
	f.Add(bytes.Repeat([]byte{0x0b}, 20_000)) // nested groups
	kept := Fields{F(1, "", F(1, ""), F(12, "")), F(2, "", F(2, "", F(1, "")), F(10, "")), F(3, "", F(6, ""))}
	f.Fuzz(func(t *testing.T, message []byte) {
		lean, err := kept.AppendProto(nil, message)
		if err != nil {
			var pod corev1.Pod
			if pod.Unmarshal(message) == nil && wellFormed(message) {
				t.Fatalf("%v of a message that a decoder reads: %x", err, message)
			}
			return
		}
		if len(lean) > len(message) {
			t.Fatalf("%d bytes are left of %d", len(lean), len(message))
		}
		if again, err := kept.AppendProto(nil, lean); err != nil || !bytes.Equal(again, lean) {
			t.Fatalf("%x is left, and then %x, %v", lean, again, err)
		}
		var all, some corev1.Pod
		if all.Unmarshal(message) != nil {
			return
		}
		if err := some.Unmarshal(lean); err != nil {
			t.Fatalf("what is left of %x cannot be decoded: %v", message, err)
		}
		want := corev1.Pod{Spec: corev1.PodSpec{NodeName: all.Spec.NodeName},
			Status: corev1.PodStatus{PodIP: all.Status.PodIP}}
		want.Name, want.Annotations = all.Name, all.Annotations
		for _, c := range all.Spec.Containers {
			want.Spec.Containers = append(want.Spec.Containers, corev1.Container{Name: c.Name})
		}
		if !reflect.DeepEqual(some, want) {
			t.Fatalf("%x is read as %+v\nwant %+v", message, some, want)
		}
	})
}

// wellFormed reports whether a message consists of fields without bytes.
func wellFormed(message []byte) bool {
	for len(message) > 0 {
		_, kind, n := protowire.ConsumeField(message)
		if n < 0 || kind == protowire.BytesType {
			return false // the content may be invalid
		}
		message = message[n:]
	}
	return true
}
