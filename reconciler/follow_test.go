package reconciler

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// carriedIn are the addresses that the changed objects carry in what was judged.
func carriedIn(j *Judgement, changes *Live) map[netip.Addr]bool {
	found := map[netip.Addr]bool{}
	for name := range changes.Pods {
		if p := j.Observation.Pods[name]; p != nil {
			j.x.claims(p, func(addr netip.Addr, _ *ippool.NAD) { found[addr] = true })
		}
	}
	for _, r := range j.Observation.Reports {
		if _, changed := changes.Reports[r.Name]; changed {
			addressesOf(r, func(addr netip.Addr) { found[addr] = true })
		}
	}
	return found
}

// becameStale are the items that one judgement has as Stale and an earlier one has not.
func becameStale(before, after *Judgement) []*Item {
	was := map[ID]bool{}
	for _, it := range before.stale() {
		was[it.ID()] = true
	}
	return slices.DeleteFunc(after.stale(), func(it *Item) bool { return was[it.ID()] })
}

// Whatever the changes and their order: what is followed is judged as by a look at
// everything, and nothing is left out that has become stale at an address which a
// changed object carries, or because its own record was changed.
func TestWhatIsFollowedIsJudgedAsByALookAtEverything(t *testing.T) {
	t.Parallel()
	followed := 0
	for seed := range seeds(4000) {
		c := chance{rand.New(rand.NewPCG(seed, 5))}
		o, policy := sceneOf(c.scene()), c.policy()
		last := Judge(o, policy)
		for step := range 4 {
			changes, now := c.changes(o)
			before := Judge(o, policy)
			all := Judge(now, policy)
			got := last.x.follow(changes)
			if wrong := differing(account(got), account(all)); len(wrong) > 0 {
				t.Fatalf("seed %d, step %d: judged\n%s\nwhich everything has as\n%s", seed, step, wrong, account(all))
			}
			if got.Total != len(all.Allocations) {
				t.Fatalf("seed %d, step %d: %d in all, want %d", seed, step, got.Total, len(all.Allocations))
			}
			if now.Now.After(o.Now) { // what time alone changes is due, and no change
				o = now
				continue
			}
			for name, r := range changes.Reports {
				if old := before.x.byNode[name]; old != nil && r != nil && old.SandboxReport == r.SandboxReport && old.fresh == r.Fresh(now.Now) {
					delete(changes.Reports, name) // it was renewed, and says what it said
				}
			}
			was, is := carriedIn(before, changes), carriedIn(all, changes)
			there := map[ID]bool{}
			for _, it := range slices.Concat(before.Allocations, before.Reservations) {
				there[it.ID()] = true
			}
			judged := account(got)
			for _, it := range becameStale(before, all) {
				if (was[it.Address()] || is[it.Address()] || !there[it.ID()]) && !ambiguous(all.x, it.Address()) && !slices.Contains(judged, accountOf(it)) {
					t.Fatalf("seed %d, step %d: left out %s", seed, step, accountOf(it))
				}
			}
			followed += len(becameStale(before, got))
			o = now
		}
	}
	if followed < int(seeds(100)) {
		t.Errorf("only %d became stale where they were followed", followed)
	}
}

// ambiguous reports whether an address is in a pool in which another has its key.
func ambiguous(x *index, addr netip.Addr) bool {
	return slices.ContainsFunc(x.poolsAt(addr), func(p *pool) bool { return p.Range.AmbiguousKeys() })
}

func TestAChangeFollowedDoesNotRipenWhatAnotherLookContradicted(t *testing.T) {
	h := NewHistory()
	pool := aPool("10.0.0.0-24", "10.0.0.0/24", alloc{"5", "default/web-1", "box-1", "net1"}, alloc{"6", "default/web-2", "box-2", "net1"})
	web := aPod("web-1", attached("default/wb", "net1", "10.0.0.5"))
	name := types.NamespacedName{Namespace: "default", Name: "web-1"}
	carries := observe(pool, web).Pods[name]
	o := observe(pool)
	o.Past = h
	j := Judge(o, Policy{})
	h.Remember(j)
	seen := func(p *podstate.Pod, after time.Duration) *Judgement {
		got := j.x.follow(&Live{Now: o.Now.Add(after), Pods: map[types.NamespacedName]*podstate.Pod{name: p}})
		h.noteAll(got)
		return got
	}
	seen(carries, time.Minute)
	gone := seen(nil, 2*time.Minute)
	if len(gone.Allocations) != 1 || gone.Allocations[0].Verdict != Stale {
		t.Fatalf("judged %s", account(gone))
	}
	if ripe := h.ripe(gone.Allocations[0], gone.Observation, 5*time.Minute); ripe.Before(o.Now.Add(7 * time.Minute)) {
		t.Errorf("ripe after %s", ripe.Sub(o.Now))
	}
	if ripe := h.ripe(j.Allocations[1], gone.Observation, 5*time.Minute); !ripe.Equal(o.Now.Add(5 * time.Minute)) {
		t.Errorf("what was not touched is ripe after %s", ripe.Sub(o.Now))
	}
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
			last := Judge(o, Policy{})
			a := o.Pools[0].Allocations[17]
			name := types.NamespacedName{Namespace: a.Owner.Namespace, Name: a.Owner.Name}
			states := []*podstate.Pod{nil, o.Pods[name]}
			want := []Reason{PhantomPod, SandboxReady}
			last.x.follow(&Live{}) // the first makes the reservations be found by name
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				j := last.x.follow(&Live{Pods: map[types.NamespacedName]*podstate.Pod{name: states[i%2]}})
				if len(j.Allocations) != 1 || j.Allocations[0].Reason != want[i%2] {
					b.Fatal(account(j))
				}
			}
		})
	}
}

// BenchmarkFollowPool is one entry of a pool of 5,000 that goes and comes.
func BenchmarkFollowPool(b *testing.B) {
	o := cluster(10_000, true)
	last := Judge(o, Policy{})
	p := o.Pools[0]
	name := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
	less := *p
	less.Allocations = slices.Delete(slices.Clone(p.Allocations), 17, 18)
	states := []*ippool.Pool{&less, p}
	last.x.follow(&Live{})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if j := last.x.follow(&Live{Pools: map[types.NamespacedName]*ippool.Pool{name: states[i%2]}}); len(j.Allocations) != i%2 {
			b.Fatal(account(j))
		}
	}
}
