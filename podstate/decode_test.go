package podstate_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/randfill"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// filler fills every field of an object, and often sets the fields that rules read.
func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(.3).NumElements(0, 3).MaxDepth(14).Funcs(
		func(m *metav1.TypeMeta, _ randfill.Continue) { *m = metav1.TypeMeta{} }, // as in a typed list
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(1780000000+c.Int63n(1e6), 0) },
		func(t *metav1.MicroTime, c randfill.Continue) {
			*t = metav1.NewMicroTime(time.Unix(1780000000+c.Int63n(1e6), 0))
		},
		func(f *metav1.FieldsV1, c randfill.Continue) {
			*f = *metav1.NewFieldsV1(`{"f:spec":{"f:renewTime":{}}}`)
		},
		func(p *corev1.PodPhase, c randfill.Continue) {
			*p = []corev1.PodPhase{"", corev1.PodPending, corev1.PodRunning, corev1.PodFailed, corev1.PodSucceeded,
				corev1.PodUnknown}[c.Intn(6)]
		},
		func(p *corev1.PodCondition, c randfill.Continue) {
			c.FillNoCustom(p)
			if c.Bool() {
				p.Type, p.Status = corev1.PodReady, []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse}[c.Intn(2)]
			}
		},
		func(p *corev1.NodeCondition, c randfill.Continue) {
			c.FillNoCustom(p)
			if c.Bool() {
				p.Type, p.Status = corev1.NodeReady, []corev1.ConditionStatus{corev1.ConditionTrue,
					corev1.ConditionFalse}[c.Intn(2)]
			}
		},
		func(p *corev1.Taint, c randfill.Continue) {
			c.FillNoCustom(p)
			if c.Bool() {
				p.Key = corev1.TaintNodeOutOfService
			}
		},
		func(p *corev1.Container, c randfill.Continue) {
			p.Name, p.Image = []string{"a", "b"}[c.Intn(2)], "image"
		},
		func(p *corev1.EphemeralContainerCommon, c randfill.Continue) { p.Name = []string{"a", "b"}[c.Intn(2)] },
		func(p *corev1.ContainerStatus, c randfill.Continue) {
			p.Name, p.Image = []string{"a", "b"}[c.Intn(2)], "image"
			c.Fill(&p.State)
			c.Fill(&p.LastTerminationState)
		},
		func(p *corev1.PodIP, c randfill.Continue) { p.IP = []string{"10.0.0.5", "fd00::5", "bad"}[c.Intn(3)] },
		func(m *map[string]string, c randfill.Continue) {
			*m = map[string]string{"note": "x", "kubernetes.io/os": "linux"}
			if c.Bool() {
				(*m)["k8s.v1.cni.cncf.io/network-status"] = `[{"name":"default/wb","interface":"net1","ips":["10.0.0.5"]}]`
			}
			if c.Bool() {
				(*m)[corev1.MirrorPodAnnotationKey] = "mirror"
			}
			if c.Bool() {
				(*m)["kubevirt.io/created-by"], (*m)["kubevirt.io/migrationJobUID"] = "vmi-1", "migration-1"
			}
		},
		func(r *metav1.OwnerReference, c randfill.Continue) {
			c.FillNoCustom(r)
			if c.Bool() {
				isController := true
				*r = metav1.OwnerReference{APIVersion: "kubevirt.io/v1", Kind: "VirtualMachineInstance", Name: "vm",
					UID: "vmi-1", Controller: &isController}
			}
		},
	)
}

// answer returns a LIST as the API server sends it, in protobuf or JSON.
func answer(t testing.TB, list runtime.Object, inProtobuf bool) (body []byte) {
	t.Helper()
	var err error
	if inProtobuf {
		var out strings.Builder
		err = protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(list, &out)
		body = []byte(out.String())
	} else {
		body, err = json.Marshal(list)
	}
	check(t, err)
	return body
}

func sameRead[T any](t *testing.T, want, got []T, err error) {
	t.Helper()
	check(t, err)
	if len(got) != len(want) {
		t.Fatalf("%d of %d were read", len(got), len(want))
	}
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Fatalf("got  %+v\nwant %+v", got[i], want[i])
		}
	}
}

var listMeta = metav1.ListMeta{ResourceVersion: "77", Continue: "more"}

// Leaving out fields before decoding does not change the result.
func TestDecode_SameAsObjects(t *testing.T) {
	for seed := range int64(40) {
		for _, inProtobuf := range []bool{true, false} {
			pods := &corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, ListMeta: listMeta,
				Items: make([]corev1.Pod, 5)}
			nodes := &corev1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}, ListMeta: listMeta,
				Items: make([]corev1.Node, 3)}
			leases := &coordinationv1.LeaseList{TypeMeta: metav1.TypeMeta{Kind: "LeaseList",
				APIVersion: "coordination.k8s.io/v1"}, ListMeta: listMeta, Items: make([]coordinationv1.Lease, 3)}
			f := filler(seed)
			var wantPods, gotPods []*podstate.Pod
			for i := range pods.Items {
				f.Fill(&pods.Items[i])
				pods.Items[i].Namespace, pods.Items[i].Name = "default", fmt.Sprint("web-", i)
				wantPods = append(wantPods, podstate.ReadPod(&pods.Items[i]))
			}
			var wantNodes, gotNodes []*podstate.Node
			for i := range nodes.Items {
				f.Fill(&nodes.Items[i])
				nodes.Items[i].Name = fmt.Sprint("worker-", i)
				wantNodes = append(wantNodes, podstate.ReadNode(&nodes.Items[i]))
			}
			report := &v1alpha1.SandboxReport{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}}
			var wantLeases, gotLeases []*podstate.Report
			for i := range leases.Items {
				f.Fill(&leases.Items[i])
				leases.Items[i].Name = fmt.Sprint("worker-", i)
				wantLeases = append(wantLeases, podstate.ReadReport(report, &leases.Items[i]))
			}
			body := answer(t, pods, inProtobuf)
			meta, err := podstate.DecodePods(body, func(p *podstate.Pod) { gotPods = append(gotPods, p) })
			sameRead(t, wantPods, gotPods, err)
			if meta.Continue != "more" || meta.ResourceVersion != "77" {
				t.Fatalf("%+v", meta)
			}
			body = answer(t, nodes, inProtobuf)
			_, err = podstate.DecodeNodes(body, func(n *podstate.Node) { gotNodes = append(gotNodes, n) })
			sameRead(t, wantNodes, gotNodes, err)
			body = answer(t, leases, inProtobuf)
			_, err = podstate.DecodeLeases(body, func(l *coordinationv1.Lease) {
				gotLeases = append(gotLeases, podstate.ReadReport(report, l))
			})
			sameRead(t, wantLeases, gotLeases, err)
			var heads []string
			_, err = podstate.DecodeHeads(body, func(o *metav1.PartialObjectMetadata) {
				heads = append(heads, fmt.Sprint(o.Namespace, o.Name, o.UID, o.ResourceVersion))
			})
			var wantHeads []string
			for i := range leases.Items {
				o := &leases.Items[i]
				wantHeads = append(wantHeads, fmt.Sprint(o.Namespace, o.Name, o.UID, o.ResourceVersion))
			}
			sameRead(t, wantHeads, heads, err)
		}
	}
}

// An invalid or truncated answer is never a shorter list.
func TestDecode_InvalidAnswers(t *testing.T) {
	body := answer(t, &corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"},
		Items: []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}}}, true)
	single := answer(t, &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}}, true)
	none := func(*podstate.Pod) {}
	if _, err := podstate.DecodePods(body, none); err != nil {
		t.Fatal(err)
	}
	for n := range body {
		read := 0 // the envelope may lack its last fields
		if _, err := podstate.DecodePods(body[:n], func(*podstate.Pod) { read++ }); err == nil && read != 1 {
			t.Errorf("%d of %d bytes are taken for a list of %d", n, len(body), read)
		}
	}
	for _, text := range []string{string(single), "k8s\x00", "k8s\x00{}", "k8s\x00\n\r2\x0200\x12\a000List",
		`{"kind": "Status", "items": []}`, `{"items": []}`, `{"kind": "PodList"}`, `{}`, ``, `<html>`, `[]`,
		`{"kind": "Table", "rows": [], "items": []}`, `{"kind": "NodeList", "items": []}`,
		`{"kind": "PartialObjectMetadataList", "items": []}`, `{"type": "ADDED", "object": {"kind": "Pod"}}`,
		`{"kind": "PodList", "items": [null]}`, `{"kind": "PodList", "items": [{}]}`,
		`{"kind": "PodList", "items": [{"metadata": {"name": "a"}}]}`,
		`{"kind": "PodList", "items": [{"kind": "Node", "metadata": {"namespace": "default", "name": "a"}}]}`,
		`{"kind": "PodList", "items": [{"kind": "PodList", "metadata": {"namespace": "default", "name": "a"}}]}`,
		`{"kind": "List", "items": [{"metadata": {"namespace": "default", "name": "a"}}]}`,
		`{"kind": "PodList", "items": [{"metadata": {"namespace": "default", "name": "a"}, "spec": 5}]}`,
	} {
		if _, err := podstate.DecodePods([]byte(text), none); err == nil {
			t.Errorf("%q is taken for a list", text)
		}
	}
}

// FuzzReport_FreshOnlyForItsContent checks that only a Lease with the report's hash makes a report fresh.
func FuzzReport_FreshOnlyForItsContent(f *testing.F) {
	f.Add([]byte(`{"metadata":{"name":"worker-1"},"observedAt":"2026-11-20T11:59:50Z","sandboxes":`+
		`[{"id":"a","state":"Ready","createdAt":"2026-11-20T11:59:00Z"}],`+
		`"attachments":[{"id":"b","since":"2026-11-20T11:40:00Z"}]}`), "", "2026-11-20T10:00:00Z")
	f.Add([]byte(`{"observedAt":null,"gone":[{"id":"","since":"0001-01-01T00:00:00Z"}],`+
		`"metadata":{"annotations":{"ip-reconcile.dev/etcd-restored":"x"}}}`), "hash", "9999-12-31T23:59:59Z")
	f.Fuzz(func(t *testing.T, text []byte, hash, restored string) {
		o := &v1alpha1.SandboxReport{}
		if kjson.UnmarshalCaseSensitivePreserveInts(text, o) != nil {
			return
		}
		own := podstate.Hash(o)
		confirmed := lease(o)
		renewed := podstate.LeaseRenewTime(confirmed)
		if own != "" && !podstate.ReadReport(o, confirmed).IsFresh(renewed) {
			t.Fatal("it is not fresh with its own hash")
		}
		other := lease(o)
		other.Annotations = map[string]string{v1alpha1.HashAnnotation: hash, v1alpha1.RestoreAnnotation: restored}
		r := podstate.ReadReport(o, other)
		if fresh := r.IsFresh(renewed); fresh != (hash != "" && hash == own) {
			t.Fatalf("fresh %v by hash %q; the report's own is %q", fresh, hash, own)
		}
		if restored != "" && r.RestoreNonce != restored {
			t.Fatalf("the Lease's nonce is %q, read was %q", restored, r.RestoreNonce)
		}
		if r.NeedsRewrite(noon) && !o.ObservedAt.Time.Before(noon) {
			t.Fatal("an age has changed since it was observed later")
		}
	})
}

// FuzzPod_Annotations reads the annotations of Multus.
func FuzzPod_Annotations(f *testing.F) {
	for _, text := range []string{
		`[{"name":"cbr0","interface":"eth0","ips":["10.244.0.9"],"default":true},{"name":"default/wb","interface":"net1",` +
			`"ips":["10.0.0.5","fd00::5/64"],"mac":"02:42","dns":{}}]`,
		`[{"IPS":null,"\u0069ps":[null]}]`, `[{"ips":["::ffff:10.0.0.9","fe80::1%eth0"," 10.0.0.5 "]},null,5]`,
		"[{\"name\":\"\xff\"}]", strings.Repeat("[", 12000),
		`[{"ips":[` + strings.Repeat(`"10.0.0.5",`, 130) + `"10.0.0.6"]}]`, "[" + strings.Repeat("{},", 70) +
			`{"ips":["10.0.0.5"]}]`,
		"a,b/c@net1", `[{"name":"wb","namespace":"x"},{"name":"y"}]`, "a@b@c", "[null]", "{", strings.Repeat("a,", 70) +
			"b", "/", " , ",
	} {
		f.Add(text, "kube-system/x")
		f.Add("a", text)
	}
	f.Fuzz(func(t *testing.T, text, first string) {
		p := podstate.ReadPod(pod(status(text), func(o *corev1.Pod) {
			o.Status.Phase = corev1.PodPending
			o.Annotations["k8s.v1.cni.cncf.io/networks"], o.Annotations["v1.multus-cni.io/default-network"] = text, first
		}))
		reduced := pod(func(o *corev1.Pod) {
			o.Status.Phase = corev1.PodPending
			o.Annotations = podstate.ReducedAnnotations(map[string]string{"k8s.v1.cni.cncf.io/network-status": text,
				"k8s.v1.cni.cncf.io/networks": text, "v1.multus-cni.io/default-network": first}, "default", strings.Clone)
		})
		if again := podstate.ReadPod(reduced); !sameOfNetworks(again, p) {
			t.Fatalf("%+v after %q was reduced, %+v before", again, reduced.Annotations, p)
		}
		if len(p.RequestedNetworks) > 65 {
			t.Fatalf("%d networks", len(p.RequestedNetworks))
		}
		kept, empty := 0, 0
		for _, i := range p.Interfaces {
			if kept += len(i.Addresses); len(i.Addresses) == 0 {
				empty++
			}
		}
		if kept > 128 || empty > 64 || p.Status == podstate.StatusMissing && len(p.Interfaces) > 0 {
			t.Fatalf("%d addresses and %d entries without any are kept, status %v", kept, empty, p.Status)
		}
		if p.Status == podstate.StatusReadable && (strings.Count(text, "{") < len(p.Interfaces) ||
			!json.Valid([]byte(text))) {
			t.Fatalf("%d interfaces are read of %q", len(p.Interfaces), text)
		}
	})
}

func sameOfNetworks(a, b *podstate.Pod) bool {
	return a.Status == b.Status && slices.Equal(a.RequestedNetworks, b.RequestedNetworks) &&
		a.RequestedCount == b.RequestedCount && slices.Equal(a.Unattached, b.Unattached) &&
		slices.EqualFunc(a.Interfaces, b.Interfaces, func(a, b podstate.Interface) bool {
			return a.Network == b.Network && a.Name == b.Name && a.Default == b.Default && slices.Equal(a.Addresses, b.Addresses)
		})
}
