package usage_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// asking is a Pending pod for so long that asks for networks.
func asking(name, networks string, since time.Duration, edits ...PodEdit) Part {
	return Pod(name, append([]PodEdit{Phase("Pending"), func(p *corev1.Pod) {
		p.Annotations = map[string]string{"k8s.v1.cni.cncf.io/networks": networks}
		p.CreationTimestamp = metav1.NewTime(Now.Add(-since))
	}}, edits...)...)
}

func TestWhichPodsWait(t *testing.T) {
	full := All(net("a"), pool29(1, 2, 3, 4, 5, 6))
	slices3 := All(Node("w-1"), Node("w-2"), NAD("s", WhereaboutsConfig("10.0.0.0/28", "", `"node_slice_size":"/30"`)),
		Pool("w-1-10.0.0.4-30", "10.0.0.4/30", Alloc("1", "default/x", "b1", "net1"), Alloc("2", "default/y", "b2", "net1")),
		Pool("w-2-10.0.0.8-30", "10.0.0.8/30"))
	twoRanges := All(NAD("d", `{"ipam":{"type":"whereabouts","ipRanges":[{"range":"10.0.0.0/30"},{`+
		`"range":"fd00::/64"}]}}`),
		Pool("10.0.0.0-30", "10.0.0.0/30", Alloc("1", "default/x", "b1", "net1"), Alloc("2", "default/y", "b2", "net1")),
		Pool("fd00---64", "fd00::/64"))
	for _, c := range []struct {
		says  string
		waits bool
		parts []Part
	}{
		{"its pool is full", true, []Part{full, asking("p", "default/a", time.Minute)}},
		{"its pool is full, by the name alone", true, []Part{full, asking("p", "a", time.Minute)}},
		{"its pool is full, and is its default network's", true,
			[]Part{full, asking("p", "", time.Minute, func(p *corev1.Pod) {
				p.Annotations["v1.multus-cni.io/default-network"] = "default/a"
			})}},
		{"a snapshot has it twice, and differently", false, []Part{full, asking("p", "a", time.Minute), func(o *Observed) {
			o.Pods[types.NamespacedName{Namespace: "default", Name: "p"}].Contradiction = "it is there twice"
		}}},
		{"its pool has something left", false, []Part{net("a"), pool29(1, 2, 3, 4, 5), asking("p", "a", time.Minute)}},
		{"it is not known what its pool has", false, []Part{pool29(1, 2, 3, 4, 5, 6), asking("p", "a", time.Minute)}},
		{"it is young", false, []Part{full, asking("p", "a", usage.WaitsAfter-time.Second)}},
		{"it has no node", false, []Part{full, asking("p", "a", time.Minute, OnNode(""))}},
		{"it runs", false, []Part{full, asking("p", "a", time.Minute, Phase("Running"))}},
		{"it asks for another network", false, []Part{full, asking("p", "b", time.Minute)}},
		{"it asks for one of its namespace", false, []Part{full, asking("p", "other/a", time.Minute)}},
		{"it has its entry", false, []Part{full, asking("web-3", "a", time.Minute)}},
		{"it has one of its two entries", true, []Part{full, asking("web-3", "a,a", time.Minute)}},
		{"its part of the pool is full", true, []Part{net("a", `"range_end":"10.0.0.2"`), net("b"), pool29(1, 2),
			asking("p", "a", time.Minute)}},
		{"another's part of the pool is full", false, []Part{net("a", `"range_end":"10.0.0.2"`), net("b"), pool29(1, 2),
			asking("p", "b", time.Minute)}},
		{"its node's slice is full", true, []Part{slices3, asking("p", "s", time.Minute, OnNode("w-1"))}},
		{"another node's slice is full", false, []Part{slices3, asking("p", "s", time.Minute, OnNode("w-2"))}},
		{"one of its two ranges is full", true, []Part{twoRanges, asking("p", "d", time.Minute)}},
	} {
		t.Run(c.says, func(t *testing.T) {
			u := usage.Of(judged(append([]Part{Pod("bystander")}, c.parts...)...))
			waits := 0
			for _, p := range u.All {
				for _, w := range p.Waiting {
					if w.Name != "p" && w.Name != "web-3" || w.Namespace != "default" {
						t.Errorf("%s waits for %s", w, p.Ref())
					}
					waits++
				}
			}
			if waits != map[bool]int{true: 1}[c.waits] {
				t.Errorf("it waits for %d pools", waits)
			}
		})
	}
}

func TestWhoHasAPoolAndWhatIsFree(t *testing.T) {
	controller := func(kind, name string) PodEdit {
		return func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "Other", Name: "x"}, {Kind: kind, Name: name,
				Controller: ptr.To(true)}}
		}
	}
	u := usage.Of(judged(net("a"), Pool("10.0.0.0-29", "10.0.0.0/29", Alloc("1", "default/web-1", "b1", "net1"),
		Alloc("2", "default/web-2", "b2", "net1"),
		Alloc("4", "blue/gone", "b3", "net1"), Alloc("5", "default/web-1_a-b", "b4", "net1")),
		Pod("web-1", Carrying("10.0.0.1"), controller("ReplicaSet", "web")), Pod("web-2", Carrying("10.0.0.2"),
			controller("ReplicaSet", "web"))))
	p := theOnly(t, u)
	for _, c := range []struct{ what, got, want string }{
		{"namespaces", fmt.Sprint(p.ByNamespace()), "[{default 3} {blue 1}]"},
		{"workloads", fmt.Sprint(u.ByWorkload(p)), "[{default/ReplicaSet/web 2} {blue/Pod/gone 1} {default/Pod/web-1 1}]"},
		{"free addresses", fmt.Sprint(p.FreeAddresses.Ranges()), "[10.0.0.3-10.0.0.3 10.0.0.6-10.0.0.6]"},
		{"definitions", fmt.Sprint(len(p.Definitions), p.Definitions[0], p.Definitions[0].Usable.Ranges()),
			"1 default/a [10.0.0.1-10.0.0.6]"},
		{"stale", fmt.Sprint(len(p.StaleEntries), " ", p.StaleEntries[0].Address()), "2 10.0.0.4"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", c.what, c.got, c.want)
		}
	}
}

func TestAPoolIsFoundByNameRangeAndAddress(t *testing.T) {
	u := usage.Of(judged(pool29(1), Pool("red-10.0.0.0-29", "10.0.0.0/29"), Pool("fd00---64", "fd00::/64")))
	for text, want := range map[string]int{
		"kube-system/10.0.0.0-29": 1, "10.0.0.0-29": 1, "10.0.0.0/29": 2, "10.0.0.3/29": 2, "10.0.0.5": 2,
		"fd00::/64": 1, "fd00:0::5": 1, "other/10.0.0.0-29": 0, "10.0.0.0/28": 0, "10.0.0.9": 0, "": 0,
	} {
		if got := len(u.Find(text)); got != want {
			t.Errorf("%q finds %d pools, want %d", text, got, want)
		}
	}
}
