package reconciler

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// byPlaceInTruth are the verdicts of a truth, by what does not depend on names.
func (w *truth) byPlaceInTruth() map[string]*judge.Item {
	pools := map[string]string{}
	for _, p := range w.pools() {
		pools[p.name] = p.index
	}
	reservations := map[string]string{}
	for name, r := range w.reserved {
		reservations[name] = fmt.Sprint("reservation of ", r.pool.index, " ", r.ip)
	}
	j, found := Judged(Observe(w.parts()...), judge.Policy{}), map[string]*judge.Item{}
	for _, it := range j.Allocations {
		found[fmt.Sprint(pools[it.Pool.Name], " ", it.Address())] = it
	}
	for _, it := range j.Reservations {
		found[reservations[it.Reservation.Name]] = it
	}
	return found
}

func underTwoNamings(rt *rapid.T, called names, check func(place string, first, second *judge.Item, say func(format string, args ...any))) {
	p := plots(16).Draw(rt, "plot")
	one, other := newTruth(p, apart), newTruth(p, called)
	one.run(p)
	other.run(p)
	first, second := one.byPlaceInTruth(), other.byPlaceInTruth()
	if len(first) != len(second) {
		rt.Fatalf("%d and %d items: the names decide what happens", len(first), len(second))
	}
	for place, it := range first {
		check(place, it, second[place], func(format string, args ...any) {
			rt.Fatalf("%s: "+format+"\nwhat happened:\n%s\nor:\n%s\nwhat is seen:\n%s\nor:\n%s", append(append([]any{place}, args...),
				strings.Join(one.log, "\n"), strings.Join(other.log, "\n"), describeCluster(Observe(one.parts()...)), describeCluster(Observe(other.parts()...)))...)
		})
	}
}

// What nodes and networks are called says nothing of what they are.
func TestRenamingNetworksAndNodesChangesNoVerdict(t *testing.T) {
	manyTimes(t, 8, func(rt *rapid.T) {
		underTwoNamings(rt, otherwise, func(place string, first, second *judge.Item, say func(string, ...any)) {
			if second == nil || first.Verdict != second.Verdict || first.Reason != second.Reason || first.Proven != second.Proven {
				say("it was %s: %s, and renamed it is %s: %s", sayOutcome(first), first.Message(), sayOutcome(second), second.Message())
			}
		})
	})
}

// A node that is called as a network is, and the like, may make a pool's name mean
// more, so that more claims its addresses, and of a slice that more nodes are asked;
// nothing is free for that.
func TestNamesThatCollideFreeNothing(t *testing.T) {
	manyTimes(t, 8, func(rt *rapid.T) {
		underTwoNamings(rt, colliding, func(place string, first, second *judge.Item, say func(string, ...any)) {
			switch {
			case second == nil || first.Verdict != judge.Stale && second.Verdict == judge.Stale || second.Proven && !first.Proven:
				say("it was %s: %s, and with names that collide it is %s: %s", sayOutcome(first), first.Message(), sayOutcome(second), second.Message())
			case strings.Contains(place, ".-1") && first.Verdict == judge.Stale && second.Verdict != judge.Stale && second.Reason != judge.ClaimedByOther && second.Reason != judge.Malformed:
				say("it was %s: %s, and with names that collide it is held for no reason of theirs: %s: %s", sayOutcome(first), first.Message(), sayOutcome(second), second.Message())
			}
		})
	})
}
