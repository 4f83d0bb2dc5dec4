package podstate_test

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

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
		if _, there := o.Annotations[v1alpha1.RestoreAnnotation]; !there && r.RestoreDetectedAt.After(renewed) {
			t.Fatalf("a restore is dated %s, after the Lease was written", r.RestoreDetectedAt)
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
