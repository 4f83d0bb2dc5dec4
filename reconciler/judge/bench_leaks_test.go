package judge_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// leaks makes so many pods of a cluster, and what reports say of them, not be there.
func leaks(o *Observed, n int, each func(i int, a *ippool.Allocation)) {
	gone := map[string]bool{}
	left := n
	for _, p := range o.Pools {
		for i := range p.Allocations {
			if left == 0 {
				break
			}
			left--
			a := &p.Allocations[i]
			gone[a.ContainerID] = true
			if each != nil {
				each(i, a)
			}
			delete(o.Pods, types.NamespacedName{Namespace: a.Owner.Namespace, Name: a.Owner.Name})
		}
	}
	for _, r := range o.Reports {
		var kept []v1alpha1.Sandbox
		for _, b := range r.Sandboxes {
			if !gone[b.ID] {
				kept = append(kept, b)
			}
		}
		r.Sandboxes = kept
	}
}

// BenchmarkLeaksAmong judges 1,000 leaks among 10,000 pods on 200 nodes, where
// something is everywhere.
func BenchmarkLeaksAmong(b *testing.B) {
	for _, c := range leaksAmong() {
		b.Run(c.says, func(b *testing.B) {
			o := cluster(10_000, false)
			c.make(o)
			b.ReportAllocs()
			for b.Loop() {
				j := Judged(o, judge.Policy{})
				if j.Summary().Allocations != 10_000 {
					b.Fatal(j.Summary())
				}
			}
		})
	}
}

type leakCase struct {
	says string
	make func(*Observed)
}

func leaksAmong() []leakCase {
	return []leakCase{
		{"nothing", func(o *Observed) { leaks(o, 1000, nil) }},
		{"an unread sandbox on each node", func(o *Observed) {
			leaks(o, 1000, nil)
			for _, r := range o.Reports {
				for i := range r.Sandboxes[:1] {
					r.Sandboxes[i].AddressesUnread = true
				}
			}
		}},
		{"unread sandboxes alone", func(o *Observed) {
			leaks(o, 1000, nil)
			for _, r := range o.Reports {
				for i := range r.Sandboxes {
					r.Sandboxes[i].AddressesUnread = true
				}
			}
		}},
		{"500 definitions of a sliced network", func(o *Observed) {
			leaks(o, 1000, nil)
			for i := range 500 {
				u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"config": WhereaboutsConfig("192.168.0.0/16", "slow", `"node_slice_size":"/24"`)}}}
				u.SetNamespace(fmt.Sprint("team-", i))
				u.SetName("slow")
				o.NADs[types.NamespacedName{Namespace: u.GetNamespace(), Name: "slow"}] = ippool.ReadNAD(u)
			}
		}},
		{"each seen on another node that is gone", func(o *Observed) {
			before := o.Copy()
			before.Now = o.Now.Add(-time.Hour)
			before.Pods = map[types.NamespacedName]*podstate.Pod{}
			for k, v := range o.Pods {
				before.Pods[k] = v
			}
			n := 0
			leaks(o, 1000, func(i int, a *ippool.Allocation) {
				k := types.NamespacedName{Namespace: a.Owner.Namespace, Name: a.Owner.Name}
				p := *before.Pods[k]
				p.Node = fmt.Sprint("gone-", n%1000)
				n++
				before.Pods[k] = &p
			})
			past := reconciler.NewHistory()
			before.Past = past
			past.Remember(Judged(before, judge.Policy{}))
			o.Past = past
		}},
		{"1,000 pods that carry one address", func(o *Observed) {
			leaks(o, 1000, nil)
			addr := o.Pools[0].Allocations[0].Address
			i := 0
			for _, p := range o.Pods {
				if i++; i > 1000 {
					break
				}
				p.Interfaces[1].Addresses = append(p.Interfaces[1].Addresses[:1:1], addr)
			}
			for _, r := range o.Reports {
				for i := range r.Sandboxes {
					r.Sandboxes[i].Addresses = nil
				}
			}
		}},
	}
}

// BenchmarkDefinitions indexes what a tenant's definitions say beside pools of node slices: it takes
// no longer for each pool.
func BenchmarkDefinitions(b *testing.B) {
	for _, pools := range []int{50, 500} {
		b.Run(fmt.Sprint("pools=", pools), func(b *testing.B) {
			parts := []Part{NAD("wb", WhereaboutsConfig("10.0.0.0/8", "", `"node_slice_size":"/26"`))}
			for i := range pools {
				node := fmt.Sprint("node-", i)
				parts = append(parts, Node(node), Pool(fmt.Sprintf("%s-10.%d.%d.0-26", node, i/256, i%256), fmt.Sprintf("10.%d.%d.0/26", i/256, i%256)))
			}
			var more []string
			for i := range 249 {
				more = append(more, fmt.Sprintf(`{"range":"172.16.%d.0/24"}`, i))
			}
			for i := range 2000 {
				parts = append(parts, NAD(fmt.Sprint("many-", i), WhereaboutsConfig("192.168.0.0/16", "", `"node_slice_size":"/24"`, `"ipRanges":[`+strings.Join(more, ",")+`]`)))
			}
			o := Observe(parts...)
			for b.Loop() {
				Judged(o, judge.Policy{})
			}
		})
	}
}
