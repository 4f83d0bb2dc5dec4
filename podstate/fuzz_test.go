package podstate_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// FuzzANetworkStatusIsReadAsEncodingJSONReadsIt also bounds what is kept of it: more than
// that makes it unreadable, and never another status.
func FuzzANetworkStatusIsReadAsEncodingJSONReadsIt(f *testing.F) {
	for _, text := range []string{
		`[{"name":"cbr0","interface":"eth0","ips":["10.244.0.9"],"default":true},{"name":"default/wb","interface":"net1","ips":["10.0.0.5","fd00::5/64"],"mac":"02:42","dns":{}}]`,
		`[{"ips":["10.0.0.5"]}] x`, `[{"IPS":null,"\u0069ps":[null]}]`, `[{"ips":["::ffff:10.0.0.9","fe80::1%eth0"," 10.0.0.5 "]},null,5]`, ` null `, `[]`, `{}`, "[{\"name\":\"\xff\"}]",
		`[{"ips":[` + strings.Repeat(`"10.0.0.5",`, 70) + `"10.0.0.6"]}]`, "[" + strings.Repeat("{},", 70) + `{"ips":["10.0.0.5"]}]`, strings.Repeat("[", 12000),
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p := podstate.ReadPod(pod(status(text)))
		status, interfaces := statusFrom(text)
		kept, empty := 0, 0
		for _, i := range p.Interfaces {
			if kept += len(i.Addresses); len(i.Addresses) == 0 {
				empty++
			}
		}
		if kept > 128 || empty > 64 {
			t.Fatalf("%d addresses and %d entries without any are kept", kept, empty)
		}
		all, none := 0, 0
		for _, i := range interfaces {
			if all += len(i.Addresses); len(i.Addresses) == 0 {
				none++
			}
		}
		if all > 128 || none > 64 {
			if p.Status != podstate.StatusUnreadable {
				t.Fatalf("status %v with %d addresses and %d entries without any", p.Status, all, none)
			}
			return
		}
		if p.Status != status || !reflect.DeepEqual(p.Interfaces, interfaces) {
			t.Fatalf("%q\ngot  %v %+v\nwant %v %+v", text, p.Status, p.Interfaces, status, interfaces)
		}
	})
}

// FuzzAListOfPodsIsReadAsItsObjectsAre: protobuf and JSON as the API server sends them. What
// whole objects cannot be made of is an error or the same without what nobody reads.
func FuzzAListOfPodsIsReadAsItsObjectsAre(f *testing.F) {
	for seed := range int64(3) {
		pods := &corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, ListMeta: listMeta, Items: make([]corev1.Pod, 2)}
		for i := range pods.Items {
			filler(seed).Fill(&pods.Items[i])
		}
		f.Add(answer(f, pods, true))
		f.Add(answer(f, pods, false))
	}
	f.Add([]byte(`{"kind":"PodList","items":[{"status":{"podIPs":[{"ip":"10.0.0.5"}]}},{}]}`))
	f.Add([]byte("k8s\x00"))
	f.Fuzz(func(t *testing.T, body []byte) {
		var got []*podstate.Pod
		_, err := podstate.DecodePods(body, func(p *podstate.Pod) { got = append(got, p) })
		var list corev1.PodList
		if envelope, inProtobuf := bytes.CutPrefix(body, []byte("k8s\x00")); inProtobuf {
			var unknown runtime.Unknown
			if unknown.Unmarshal(envelope) != nil || unknown.Raw == nil || !strings.HasSuffix(unknown.Kind, "List") || list.Unmarshal(unknown.Raw) != nil {
				return
			}
		} else {
			var head struct {
				Kind  string          `json:"kind"`
				Items json.RawMessage `json:"items"`
			}
			if isList := kjson.UnmarshalCaseSensitivePreserveInts(body, &head) == nil && strings.HasSuffix(head.Kind, "List") && head.Items != nil; !isList {
				if err == nil {
					t.Fatalf("%d pods are read of no list: %q", len(got), body)
				}
				return
			}
			if kjson.UnmarshalCaseSensitivePreserveInts(body, &list) != nil {
				return // something is wrong in what nobody reads, or in what makes it an error
			}
		}
		if err != nil || len(got) != len(list.Items) {
			t.Fatalf("%d of %d pods, %v, of %q", len(got), len(list.Items), err, body)
		}
		for i := range got {
			if want := podstate.ReadPod(&list.Items[i]); !reflect.DeepEqual(got[i], want) {
				t.Fatalf("got  %+v\nwant %+v", got[i], want)
			}
		}
	})
}

// FuzzTheNetworksThatAPodAsksForAreBounded reads the annotations by which a Pending pod asks
// for networks.
func FuzzTheNetworksThatAPodAsksForAreBounded(f *testing.F) {
	for _, text := range []string{"a,b/c@net1", `[{"name":"wb","namespace":"x"},{"name":"y"}]`, "a@b@c", "[null]", "{", strings.Repeat("a,", 70) + "b", "/", " , "} {
		f.Add(text, "kube-system/x")
	}
	f.Fuzz(func(t *testing.T, networks, first string) {
		p := podstate.ReadPod(pod(func(o *corev1.Pod) {
			o.Status.Phase = corev1.PodPending
			o.Annotations = map[string]string{"k8s.v1.cni.cncf.io/networks": networks, "v1.multus-cni.io/default-network": first}
		}))
		if len(p.Selected) > 65 {
			t.Fatalf("%d networks", len(p.Selected))
		}
	})
}

// FuzzAReportIsFreshOnlyForItsOwnContent: of a report and a Lease of any content only the
// Lease that carries the report's hash makes it fresh.
func FuzzAReportIsFreshOnlyForItsOwnContent(f *testing.F) {
	f.Add([]byte(`{"metadata":{"name":"worker-1"},"observedAt":"2026-11-20T11:59:50Z","sandboxes":[{"id":"a","state":"Ready","createdAt":"2026-11-20T11:59:00Z"}],"attachments":[{"id":"b","since":"2026-11-20T11:40:00Z"}]}`), "", "2026-11-20T10:00:00Z")
	f.Add([]byte(`{"observedAt":null,"gone":[{"id":"","since":"0001-01-01T00:00:00Z"}],"metadata":{"annotations":{"ip-reconcile.dev/etcd-restored":"x"}}}`), "hash", "9999-12-31T23:59:59Z")
	f.Fuzz(func(t *testing.T, text []byte, hash, restored string) {
		o := &v1alpha1.SandboxReport{}
		if kjson.UnmarshalCaseSensitivePreserveInts(text, o) != nil {
			return
		}
		own := podstate.Hash(o)
		confirmed := lease(o)
		renewed := podstate.LeaseRenewed(confirmed)
		if own != "" && !podstate.ReadReport(o, confirmed).Fresh(renewed) {
			t.Fatal("it is not fresh by its own hash")
		}
		other := lease(o)
		other.Annotations = map[string]string{v1alpha1.HashAnnotation: hash, v1alpha1.RestoreAnnotation: restored}
		r := podstate.ReadReport(o, other)
		if fresh := r.Fresh(renewed); fresh != (hash != "" && hash == own) {
			t.Fatalf("fresh %v by hash %q; the report's own is %q", fresh, hash, own)
		}
		if _, there := o.Annotations[v1alpha1.RestoreAnnotation]; !there && r.RestoreSeen.After(renewed) {
			t.Fatalf("a restore is dated %s, after the Lease was written", r.RestoreSeen)
		}
		if next := r.NextAgeChange(noon); !next.IsZero() && next.Before(noon) {
			t.Fatalf("an age changes at %s, in the past", next)
		}
		if r.AgeChanged(noon) && !o.ObservedAt.Time.Before(noon) {
			t.Fatal("an age has changed since it was observed later")
		}
	})
}
