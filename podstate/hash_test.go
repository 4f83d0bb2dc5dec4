package podstate_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// whole returns a report in which every field is set.
func whole() *v1alpha1.SandboxReport {
	addresses := func() []v1alpha1.Address {
		return []v1alpha1.Address{{IP: "10.0.0.5", IfName: "net1", Network: "wb", Range: "10.0.0.0/24", NetworkName: "blue",
			Unattributed: true}}
	}
	return &v1alpha1.SandboxReport{
		TypeMeta:   metav1.TypeMeta{APIVersion: "ip-reconcile.dev/v1alpha1", Kind: "SandboxReport"},
		ObjectMeta: metav1.ObjectMeta{Name: "worker-1", ResourceVersion: "7"},
		BootID:     "boot-1",
		Runtime:    v1alpha1.Runtime{Name: "containerd", Version: "2.4.2"},
		ObservedAt: at(0),
		Sandboxes: []v1alpha1.Sandbox{{ID: "c1", Namespace: "default", Name: "a", UID: "u1", Attempt: 1,
			State: v1alpha1.SandboxReady, NetworkClosed: ptr(false), CreatedAt: at(-time.Hour), Addresses: addresses(),
			Interfaces: []string{"eth0"}, MayCarry: []v1alpha1.Network{{Range: "10.0.0.0/24", NetworkName: "blue"}}}},
		Attachments: []v1alpha1.Attachment{{ID: "c2", Since: at(-time.Minute), NetworkClosed: ptr(true), Namespace: "default",
			Name: "b", UID: "u2", Addresses: addresses(), AddressesUnread: true,
			MayCarry: []v1alpha1.Network{{Range: "10.0.0.0/24", NetworkName: "blue"}}}},
		Gone: []v1alpha1.Gone{{ID: "c3", UID: "u3", Since: at(-time.Hour)}},
	}
}

// leaves calls visit for each value below v that has no fields. An unknown kind fails the test, so that no new
// field is missed.
func leaves(t *testing.T, path string, v reflect.Value, visit func(path string, v reflect.Value)) {
	t.Helper()
	switch v.Interface().(type) {
	case metav1.Time:
		visit(path, v)
		return
	case metav1.TypeMeta, metav1.ObjectMeta:
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			leaves(t, path+"."+v.Type().Field(i).Name, v.Field(i), visit)
		}
	case reflect.Slice:
		if v.Len() == 0 {
			t.Fatalf("%s is empty: the walk does not see what is in it", path)
		}
		visit(path, v)
		for i := range v.Len() {
			leaves(t, fmt.Sprintf("%s[%d]", path, i), v.Index(i), visit)
		}
	case reflect.Pointer:
		if v.IsNil() {
			t.Fatalf("%s is nil: the walk does not see what is in it", path)
		}
		visit(path, v)
		leaves(t, "*"+path, v.Elem(), visit)
	case reflect.String, reflect.Bool, reflect.Uint32, reflect.Int32:
		visit(path, v)
	default:
		t.Fatalf("%s is of kind %v, which this walk does not know", path, v.Kind())
	}
}

func TestHash_EveryField(t *testing.T) {
	o := whole()
	before, seen := podstate.Hash(o), 0
	leaves(t, "report", reflect.ValueOf(o).Elem(), func(path string, v reflect.Value) {
		seen++
		old := reflect.New(v.Type()).Elem()
		old.Set(v)
		switch value := v.Interface().(type) {
		case metav1.Time:
			v.Set(reflect.ValueOf(metav1.NewTime(value.Add(time.Second))))
		case bool:
			v.SetBool(!value)
		case uint32:
			v.SetUint(uint64(value) + 1)
		case int32:
			v.SetInt(int64(value) + 1)
		default:
			switch v.Kind() {
			case reflect.String:
				v.SetString(v.String() + "x")
			default: // a slice or a pointer becomes nil
				v.SetZero()
			}
		}
		if podstate.Hash(o) == before {
			t.Errorf("the hash does not change with %s", path)
		}
		v.Set(old)
		if podstate.Hash(o) != before {
			t.Fatalf("the hash does not come back with %s", path)
		}
	})
	if seen < 30 {
		t.Errorf("only %d values were met", seen)
	}
}

// The API server and others change the metadata.
func TestHash_IgnoresMetadata(t *testing.T) {
	o := whole()
	want := podstate.Hash(o)
	o.TypeMeta = metav1.TypeMeta{}
	o.ObjectMeta = metav1.ObjectMeta{
		Name: "other", UID: types.UID("u"), ResourceVersion: "8", Generation: 3, CreationTimestamp: at(0),
		Labels: map[string]string{"a": "b"}, Annotations: map[string]string{v1alpha1.RestoreAnnotation: "x"},
		ManagedFields: []metav1.ManagedFieldsEntry{fields("agent", reportFields, 0)},
	}
	equal(t, "hash", podstate.Hash(o), want)
}
