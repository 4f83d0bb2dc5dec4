package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

// What only time can bring about is written straight to etcd here: the API
// server sets creation and deletion times itself and takes no others.

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
	// What is written past the API server is seen by it a moment later.
	want := p.CreationTimestamp.Add(-by).Unix()
	eventually(t, "the API server to see the older pod", func() bool {
		p.Pod = try(p.s.Client().CoreV1().Pods(p.Namespace).Get(context.Background(), p.Name, metav1.GetOptions{})).must(t)
		return p.CreationTimestamp.Unix() == want
	})
	return p
}

// rewrite changes an object of a built-in kind where it is stored.
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
