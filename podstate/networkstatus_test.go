package podstate_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/podstate"
)

func TestNetworkStatus(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       podstate.NetworkStatus
		addresses  []string // of all interfaces
	}{
		{"empty", "", podstate.StatusMissing, nil},
		{"white space", " \n\t", podstate.StatusMissing, nil},
		{"an empty list", "[]", podstate.StatusMissing, nil},
		{"null", "null", podstate.StatusMissing, nil},
		{"cut off (A4)", `[{"ips":["10.0.0.5"]`, podstate.StatusUnreadable, nil},
		{"garbage", "not json", podstate.StatusUnreadable, nil},
		{"an object instead of a list", `{"ips":["10.0.0.5"]}`, podstate.StatusUnreadable, nil},
		{"a good list with something behind it", `[{"ips":["10.0.0.5"]}] x`, podstate.StatusUnreadable, nil},
		{"one entry", `[{"name":"default/macvlan","interface":"net1","ips":["10.0.0.5"]}]`, podstate.StatusReadable,
			[]string{"10.0.0.5"}},
		{"an entry without addresses", `[{"name":"default/bridge","interface":"net1"}]`, podstate.StatusReadable, nil},
		{"null for addresses", `[{"name":"default/bridge","ips":null}]`, podstate.StatusReadable, nil},
		{"an empty entry", `[{}]`, podstate.StatusReadable, nil},
		{"fields that are not known", `[{"ips":["10.0.0.5"],"mac":"a:b","dns":{},"later":[1]}]`, podstate.StatusReadable,
			[]string{"10.0.0.5"}},
		{"one bad entry among good ones", `[{"ips":["10.0.0.5"]},"x",{"ips":["10.0.0.6"]}]`, podstate.StatusUnreadable,
			[]string{"10.0.0.5", "10.0.0.6"}},
		{"null among good ones", `[{"ips":["10.0.0.5"]},null]`, podstate.StatusUnreadable, []string{"10.0.0.5"}},
		{"a field of the wrong type", `[{"ips":"10.0.0.5"},{"ips":["10.0.0.6"]}]`, podstate.StatusUnreadable,
			[]string{"10.0.0.6"}},
		{"a name that is no text", `[{"ips":["10.0.0.7"]},{"name":7}]`, podstate.StatusUnreadable, []string{"10.0.0.7"}},
		{"one bad address among good ones", `[{"ips":["10.0.0.5","10.0.0.256","10.0.0.7"]}]`, podstate.StatusUnreadable,
			[]string{"10.0.0.5", "10.0.0.7"}},
		{"names in any case, the last of two", `[{"ips":["10.0.0.4"],"IPs":["10.0.0.5"]}]`, podstate.StatusReadable,
			[]string{"10.0.0.5"}},
		{"null for an address", `[{"ips":[null,"10.0.0.5"]}]`, podstate.StatusUnreadable, []string{"10.0.0.5"}},
		{"129 addresses", `[{"ips":[` + strings.Repeat(`"10.0.0.5",`, 128) + `"10.0.0.5"]}]`, podstate.StatusUnreadable,
			slices.Repeat([]string{"10.0.0.5"}, 128)},
		{"65 entries without any", "[" + strings.Repeat("{},", 64) + "{}]", podstate.StatusUnreadable, nil},
		{"an empty address", `[{"ips":[""]}]`, podstate.StatusUnreadable, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := podstate.ReadPod(pod(status(c.text)))
			equal(t, "status", p.Status, c.want)
			var got []string
			for _, i := range p.Interfaces {
				for _, a := range i.Addresses {
					got = append(got, a.String())
				}
			}
			if len(got) != len(c.addresses) {
				t.Fatalf("addresses %v; want %v", got, c.addresses)
			}
			for i := range got {
				equal(t, "address", got[i], c.addresses[i])
			}
		})
	}
}

// A7: addresses are compared as addresses in any spelling.
func TestNetworkStatus_SpellingsOfAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.5":    "10.0.0.5",
		"10.0.0.5/24": "10.0.0.5",
		" 10.0.0.5 ":  "10.0.0.5",
		"2001:DB8::A": "2001:db8::a",
		"2001:0db8:0000:0000:0000:0000:0000:000a": "2001:db8::a",
		"2001:db8::a/64":     "2001:db8::a",
		"::ffff:10.0.0.5":    "10.0.0.5",
		"::ffff:a00:5":       "10.0.0.5",
		"fe80::1%eth0":       "fe80::1",
		"2001:db8::10.0.0.5": "2001:db8::a00:5",
	} {
		p := podstate.ReadPod(pod(status(`[{"ips":["` + text + `"]}]`)))
		if p.Status != podstate.StatusReadable || len(p.Interfaces) != 1 {
			t.Errorf("%q: status %v, %d interfaces", text, p.Status, len(p.Interfaces))
			continue
		}
		sameAddrs(t, text, p.Interfaces[0].Addresses, want)
	}
}

// A6: the default network counts like any other.
func TestNetworkStatus_Interfaces(t *testing.T) {
	p := podstate.ReadPod(pod(status(`[
		{"name":"cbr0","interface":"eth0","ips":["192.168.0.9"],"default":true,"dns":{}},
		{"name":"default/macvlan","interface":"net1","ips":["10.0.0.5","fd00::5"]}]`)))
	if len(p.Interfaces) != 2 {
		t.Fatalf("%d interfaces", len(p.Interfaces))
	}
	first, second := p.Interfaces[0], p.Interfaces[1]
	equal(t, "default", first.Default, true)
	equal(t, "network", first.Network, "cbr0")
	equal(t, "interface", first.Name, "eth0")
	sameAddrs(t, "addresses of the default network", first.Addresses, "192.168.0.9")
	equal(t, "default", second.Default, false)
	equal(t, "interface", second.Name, "net1")
	sameAddrs(t, "addresses", second.Addresses, "10.0.0.5", "fd00::5")
}

func TestInterface_NAD(t *testing.T) {
	for _, c := range []struct {
		network, namespace, name string
		ok                       bool
	}{
		{"default/macvlan", "default", "macvlan", true},
		{"macvlan", "", "", false},
		{"", "", "", false},
		{"/macvlan", "", "", false},
		{"default/", "", "", false},
	} {
		namespace, name, ok := podstate.Interface{Network: c.network}.NAD()
		if ok != c.ok || ok && (namespace != c.namespace || name != c.name) {
			t.Errorf("%q names %q/%q, %v", c.network, namespace, name, ok)
		}
	}
}

// Multus before version 4 wrote networks-status, for a while in addition.
func TestNetworkStatus_OldAnnotation(t *testing.T) {
	const old = `[{"ips":["10.0.0.4"]}]`
	for _, c := range []struct{ name, text, want string }{
		{"no new one", "", "10.0.0.4"},
		{"a new one", `[{"ips":["10.0.0.5"]}]`, "10.0.0.5"},
	} {
		p := podstate.ReadPod(pod(status(c.text),
			func(o *corev1.Pod) { o.Annotations["k8s.v1.cni.cncf.io/networks-status"] = old }))
		if p.Status != podstate.StatusReadable || len(p.Interfaces) != 1 {
			t.Fatalf("%s: status %v", c.name, p.Status)
		}
		sameAddrs(t, c.name, p.Interfaces[0].Addresses, c.want)
	}
	p := podstate.ReadPod(pod(status("garbage"),
		func(o *corev1.Pod) { o.Annotations["k8s.v1.cni.cncf.io/networks-status"] = old }))
	equal(t, "a new one that cannot be read is not mended by the old", p.Status, podstate.StatusUnreadable)
}

// Backup tools create a pod with the network-status of the pod that they saved. Only what its creator alone wrote, with
// the rest of the pod, is known to be such a copy.
func TestNetworkStatus_Copied(t *testing.T) {
	created := metav1.NewTime(time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC))
	const status = `"f:k8s.v1.cni.cncf.io/network-status":{}`
	manager := func(name, subresource string, after time.Duration, fields string) metav1.ManagedFieldsEntry {
		at := metav1.NewTime(created.Add(after))
		return metav1.ManagedFieldsEntry{Manager: name, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1",
			Time: &at, FieldsType: "FieldsV1", Subresource: subresource, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	both := `{"f:metadata":{"f:annotations":{` + status + `}},"f:spec":{"f:containers":{}}}`
	only := `{"f:metadata":{"f:annotations":{` + status + `}}}`
	kubelet := manager("kubelet", "status", time.Second, `{"f:status":{"f:conditions":{}}}`)
	velero := manager("velero-server", "", 0, both)
	for _, c := range []struct {
		name     string
		managers []metav1.ManagedFieldsEntry
		edit     func(*corev1.Pod)
		want     podstate.NetworkStatus
	}{
		{"created with it", []metav1.ManagedFieldsEntry{velero, kubelet}, nil, podstate.StatusMissing},
		{"Multus wrote it since", []metav1.ManagedFieldsEntry{velero, manager("multus", "status", time.Second, only)}, nil,
			podstate.StatusReadable},
		{"Multus wrote it since, and is listed first", []metav1.ManagedFieldsEntry{
			manager("multus", "status", time.Second, only), velero}, nil, podstate.StatusReadable},
		{"Multus wrote it in the same second", []metav1.ManagedFieldsEntry{
			manager("kube-controller-manager", "", 0, `{"f:spec":{"f:containers":{}}}`), manager("multus", "status", 0, only)},
			nil, podstate.StatusReadable},
		{"somebody patched it in the same second", []metav1.ManagedFieldsEntry{manager("any", "", 0, only)}, nil,
			podstate.StatusReadable},
		{"its creator wrote it later", []metav1.ManagedFieldsEntry{manager("any", "", time.Second, both)}, nil,
			podstate.StatusReadable},
		{"without managedFields", nil, nil, podstate.StatusReadable},
		{"without times", []metav1.ManagedFieldsEntry{{Manager: "any", FieldsV1: metav1.NewFieldsV1(both)}}, nil,
			podstate.StatusReadable},
		{"without fields", []metav1.ManagedFieldsEntry{{Manager: "any", Time: &created}}, nil, podstate.StatusReadable},
		{"the pod has an address", []metav1.ManagedFieldsEntry{velero},
			func(p *corev1.Pod) { p.Status.PodIP = "10.244.0.9" }, podstate.StatusReadable},
		{"the pod has addresses", []metav1.ManagedFieldsEntry{velero},
			func(p *corev1.Pod) { p.Status.PodIPs = []corev1.PodIP{{IP: "10.244.0.9"}} }, podstate.StatusReadable},
		{"its sandbox is ready", []metav1.ManagedFieldsEntry{velero}, func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue}}
		}, podstate.StatusReadable},
		{"its sandbox is not ready", []metav1.ManagedFieldsEntry{velero}, func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse}}
		}, podstate.StatusMissing},
		{"the pod runs", []metav1.ManagedFieldsEntry{velero}, func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning },
			podstate.StatusReadable},
		{"the pod is being deleted", []metav1.ManagedFieldsEntry{velero},
			func(p *corev1.Pod) { p.DeletionTimestamp = &created }, podstate.StatusReadable},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0", CreationTimestamp: created,
				ManagedFields: c.managers, Annotations: map[string]string{
					"k8s.v1.cni.cncf.io/network-status": `[{"name":"default/wb","interface":"net1","ips":["10.0.0.5"]}]`}},
				Spec:   corev1.PodSpec{NodeName: "worker-1"},
				Status: corev1.PodStatus{Phase: corev1.PodPending}}
			if c.edit != nil {
				c.edit(o)
			}
			text, err := json.Marshal(o)
			check(t, err)
			var listed *podstate.Pod
			list := fmt.Appendf(nil, `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[%s]}`, text)
			if _, err := podstate.DecodePods(list, func(p *podstate.Pod) { listed = p }); err != nil {
				t.Fatal(err)
			}
			for how, p := range map[string]*podstate.Pod{"read": podstate.ReadPod(o), "listed": listed} {
				if p.Status != c.want || (len(p.Interfaces) == 1) != (c.want == podstate.StatusReadable) {
					t.Errorf("%s: got %s with %v, want %s", how, p.Status, p.Interfaces, c.want)
				}
			}
		})
	}
}

func TestPod_Unattached(t *testing.T) {
	for _, c := range []struct {
		name, networks, status string
		want                   int
	}{
		{"all are there", "wb,red", `[{"name":"default/wb"},{"name":"default/red"}]`, 0},
		{"one is missing", "wb,red", `[{"name":"cbr0","default":true},{"name":"default/red"}]`, 1},
		{"both are missing", "wb, tenant/red@net2", `[{"name":"cbr0","default":true},{"name":"default/red"}]`, 2},
		{"an interface without a network", "wb", `[{"interface":"net1"}]`, 0},
		{"a default network without a name", "wb", `[{"default":true}]`, 1},
		{"no status", "wb", ``, 0},
		{"a status that cannot be read", "wb", `[null]`, 0},
		{"a selection that cannot be read", "{", `[{"name":"cbr0","default":true}]`, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := podstate.ReadPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Annotations: map[string]string{
				"k8s.v1.cni.cncf.io/networks": c.networks, "k8s.v1.cni.cncf.io/network-status": c.status}},
				Status: corev1.PodStatus{Phase: corev1.PodRunning}})
			if len(p.Unattached) != c.want {
				t.Errorf("got %v, want %d", p.Unattached, c.want)
			}
		})
	}
}

// A tenant may write 256 KiB of annotations into each pod, and a pass keeps all pods in memory.
func TestPod_MemoryOfHostileAnnotations(t *testing.T) {
	const length, pods = 256 << 10, 40
	for what, text := range map[string]string{
		"entries without anything": "[" + strings.Repeat("{},", length/3) + "{}]",
		"addresses":                `[{"ips":[` + strings.Repeat(`"1.1.1.1",`, length/10) + `"1.1.1.1"]}]`,
		"an address in each entry": "[" + strings.Repeat(`{"ips":["1.1.1.1"]},`, length/20) + "{}]",
		"interfaces":               "[" + strings.Repeat(`{"ips":[],"name":"a/b"},`, length/24) + "{}]",
		"nested lists":             strings.Repeat("[", length),
		"the field again":          `[{` + strings.Repeat(`"ips":["1.1.1.1"],`, length/18) + `"a":1}]`,
	} {
		var before, after runtime.MemStats
		kept := make([]*podstate.Pod, pods)
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range kept {
			kept[i] = podstate.ReadPod(pod(status(text), func(o *corev1.Pod) {
				o.Status.Phase = corev1.PodPending
				o.Annotations["k8s.v1.cni.cncf.io/networks"] = strings.Repeat("a,", length/2)
			}))
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / pods; each > 32<<10 {
			t.Errorf("%s: %d bytes are kept of a pod", what, each)
		}
		runtime.KeepAlive(kept)
	}
}
