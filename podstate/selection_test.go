package podstate_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/podstate"
)

func TestPod_RequestedNetworks(t *testing.T) {
	for _, c := range []struct{ networks, first, want string }{
		{"", "", "[]"},
		{"a", "", "[default/a]"},
		{"a,b", "", "[default/a default/b]"},
		{" a , x/b ", "", "[default/a x/b]"},
		{"a@net5,x/b@eth1", "", "[default/a x/b]"},
		{"a,a", "", "[default/a default/a]"},
		{`[{"name":"a"},{"name":"b","namespace":"x","interface":"net5","ips":["10.0.0.5"]}]`, "", "[default/a x/b]"},
		{`[]`, "", "[]"},
		{"", "d", "[kube-system/d]"},
		{"a", "x/d", "[x/d default/a]"},
		{"a", `[{"name":"d","namespace":"x"}]`, "[x/d default/a]"},
		{"a", "d,e", "[]"}, // Multus refuses the pod
		{"x/y/z", "", "[]"},
		{"a@b@c", "", "[]"},
		{"a,b.c", "", "[]"},
		{`[{"name":"b.c"}]`, "", "[default/b.c]"},
		{`[{"name":`, "", "[]"},
		{`{"name":"a"}`, "", "[]"},
		{`[null]`, "", "[]"},
		{strings.Repeat("a,", 64) + "a", "", "[]"},
	} {
		p := pod(func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodPending
			p.Annotations = map[string]string{"k8s.v1.cni.cncf.io/networks": c.networks,
				"v1.multus-cni.io/default-network": c.first}
		})
		if got := fmt.Sprint(podstate.ReadPod(p).RequestedNetworks); got != c.want {
			t.Errorf("%q and %q: %s, want %s", c.networks, c.first, got, c.want)
		}
	}
}

func TestPod_RequestedNetworksByPhase(t *testing.T) {
	for text, want := range map[string]string{`[{"name":"default/a"}]`: "[]", "garbage": "[default/a]",
		"": "[default/a]"} {
		p := pod(status(text), func(p *corev1.Pod) { p.Annotations["k8s.v1.cni.cncf.io/networks"] = "a" })
		if got := fmt.Sprint(podstate.ReadPod(p).RequestedNetworks); got != want {
			t.Errorf("%q: kept %v, want %v", text, got, want)
		}
	}
	p := pod(status("garbage"), func(p *corev1.Pod) {
		p.Annotations["k8s.v1.cni.cncf.io/networks"], p.Status.Phase = "a", corev1.PodFailed
	})
	if got := fmt.Sprint(podstate.ReadPod(p).RequestedNetworks); got != "[default/a]" {
		t.Errorf("of a finished pod: %v", got)
	}
}

func TestPod_Workload(t *testing.T) {
	owner := func(kind, name string, controller *bool) metav1.OwnerReference {
		return metav1.OwnerReference{Kind: kind, Name: name, Controller: controller}
	}
	for _, c := range []struct {
		owners []metav1.OwnerReference
		want   string
	}{
		{nil, ""},
		{[]metav1.OwnerReference{owner("Node", "w", nil), owner("Node", "x", ptr(false))}, ""},
		{[]metav1.OwnerReference{owner("Node", "w", nil), owner("ReplicaSet", "web-7d", ptr(true))}, "ReplicaSet/web-7d"},
	} {
		p := pod(func(p *corev1.Pod) { p.OwnerReferences = c.owners })
		if got := podstate.ReadPod(p).Workload; got != c.want {
			t.Errorf("%v: %q, want %q", c.owners, got, c.want)
		}
	}
}
