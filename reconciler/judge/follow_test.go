package judge_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// carriedIn are the addresses that the changed objects carry in what was judged.
func carriedIn(j *judge.Judgement, changes *judge.Live) map[netip.Addr]bool {
	found := map[netip.Addr]bool{}
	for name := range changes.Pods {
		if p := j.Observation.Pods[name]; p != nil && p.Node != "" {
			for _, i := range p.Interfaces {
				namespace, network, _ := strings.Cut(i.Network, "/")
				nad := j.Observation.NADs[types.NamespacedName{Namespace: namespace, Name: network}]
				if nad != nil && nad.Problem == "" && len(nad.Networks) == 0 {
					continue // it is not of whereabouts
				}
				for _, addr := range i.Addresses {
					found[addr] = true
				}
			}
		}
	}
	for _, r := range j.Observation.Reports {
		if _, changed := changes.Reports[r.Name]; changed {
			var carried []v1alpha1.Address
			for _, s := range r.Sandboxes {
				carried = append(carried, s.Addresses...)
			}
			for _, a := range r.Attachments {
				carried = append(carried, a.Addresses...)
			}
			for _, a := range carried {
				if addr, ok := podstate.ParseAddress(a); ok {
					found[addr] = true
				}
			}
		}
	}
	return found
}

// becameStale are the items that one judgement has as Stale and an earlier one has not.
func becameStale(before, after *judge.Judgement) []*judge.Item {
	was := map[judge.ID]bool{}
	for _, it := range before.StaleItems() {
		was[it.ID()] = true
	}
	return slices.DeleteFunc(after.StaleItems(), func(it *judge.Item) bool { return was[it.ID()] })
}

// Whatever the changes and their order: what is followed is judged as by a pass at
// everything, and nothing is left out that has become stale at an address which a
// changed object carries, or because its own record was changed.
func TestWhatIsFollowedIsJudgedAsByAFullPass(t *testing.T) {
	t.Parallel()
	followed := 0
	for seed := range Seeds(4000) {
		c := NewRandom(seed, 5)
		o, policy := ObserveDistinct(c.Cluster()), c.Policy()
		last := Judged(o, policy)
		for step := range 4 {
			changes, now := c.Changes(o)
			before := Judged(o, policy)
			all := Judged(now, policy)
			got := last.Follow(changes)
			if wrong := Missing(Describe(got), Describe(all)); len(wrong) > 0 {
				t.Fatalf("seed %d, step %d: judged\n%s\nwhich everything has as\n%s", seed, step, wrong, Describe(all))
			}
			if got.Total != len(all.Allocations) {
				t.Fatalf("seed %d, step %d: %d in all, want %d", seed, step, got.Total, len(all.Allocations))
			}
			if now.Now.After(o.Now) { // what time alone changes is due, and no change
				o = now
				continue
			}
			for name, r := range changes.Reports {
				if old := ReportOf(&Observed{Observation: before.Observation}, name); old != nil && r != nil && old.SandboxReport == r.SandboxReport && old.Fresh(before.Observation.Now) == r.Fresh(now.Now) {
					delete(changes.Reports, name) // it was renewed, and says what it said
				}
			}
			was, is := carriedIn(before, changes), carriedIn(all, changes)
			there := map[judge.ID]bool{}
			for _, it := range slices.Concat(before.Allocations, before.Reservations) {
				there[it.ID()] = true
			}
			judged := Describe(got)
			for _, it := range becameStale(before, all) {
				if (was[it.Address()] || is[it.Address()] || !there[it.ID()]) && !ambiguous(all, it.Address()) && !slices.Contains(judged, DescribeItem(it)) {
					t.Fatalf("seed %d, step %d: left out %s", seed, step, DescribeItem(it))
				}
			}
			followed += len(becameStale(before, got))
			o = now
		}
	}
	if followed < int(Seeds(100)) {
		t.Errorf("only %d became stale where they were followed", followed)
	}
}

// ambiguous reports whether an address is in a pool in which another has its key.
func ambiguous(j *judge.Judgement, addr netip.Addr) bool {
	return slices.ContainsFunc(j.Observation.Pools, func(p *ippool.Pool) bool {
		return p.Problem == "" && p.Range.Prefix().Contains(addr) && p.Range.AmbiguousKeys()
	})
}

// BenchmarkFollow is one pod of many that goes and comes, from the change to the
// verdict on all that it touches.
func BenchmarkFollow(b *testing.B) {
	for _, n := range []int{10_000, 250_000} {
		b.Run(fmt.Sprint("n=", n), func(b *testing.B) {
			if n > 10_000 && testing.Short() {
				b.Skip()
			}
			o := cluster(n, true)
			last := Judged(o, judge.Policy{})
			a := o.Pools[0].Allocations[17]
			name := types.NamespacedName{Namespace: a.Owner.Namespace, Name: a.Owner.Name}
			states := []*podstate.Pod{nil, o.Pods[name]}
			want := []judge.Reason{judge.PhantomPod, judge.SandboxReady}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				j := last.Follow(&judge.Live{Pods: map[types.NamespacedName]*podstate.Pod{name: states[i%2]}})
				if len(j.Allocations) != 1 || j.Allocations[0].Reason != want[i%2] {
					b.Fatal(Describe(j))
				}
			}
		})
	}
}

// BenchmarkFollowPool is one entry of a pool of 5,000 that goes and comes.
func BenchmarkFollowPool(b *testing.B) {
	o := cluster(10_000, true)
	last := Judged(o, judge.Policy{})
	p := o.Pools[0]
	name := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
	less := *p
	less.Allocations = slices.Delete(slices.Clone(p.Allocations), 17, 18)
	states := []*ippool.Pool{&less, p}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if j := last.Follow(&judge.Live{Pools: map[types.NamespacedName]*ippool.Pool{name: states[i%2]}}); len(j.Allocations) != i%2 {
			b.Fatal(Describe(j))
		}
	}
}
