package reconciler

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

func TestAnIndexThatWasAmendedJudgesAsOneBuiltFromWhatThereIsNow(t *testing.T) {
	for seed := range uint64(3000) {
		x, o, policy := amendedAtRandom(chance{rand.New(rand.NewPCG(seed, 2))})
		is, want := x.Judge(), judged(o, policy)
		if got, want := account(is), account(want); !slices.Equal(got, want) {
			t.Fatalf("seed %d: got\n%s\nwant\n%s", seed, differing(got, want), differing(want, got))
		}
		if got, want := fmt.Sprintf("%+v", described(is.Findings)), fmt.Sprintf("%+v", described(want.Findings)); got != want {
			t.Fatalf("seed %d: found\n%s\nwant\n%s", seed, got, want)
		}
		if due := is.Recheck; !due.Equal(want.Recheck) {
			t.Fatalf("seed %d: due %s, want %s", seed, due, want.Recheck)
		}
	}
}

func TestWhatIsAskedForAloneIsJudgedAsWithAllTheRest(t *testing.T) {
	for seed := range uint64(3000) {
		c := chance{rand.New(rand.NewPCG(seed, 3))}
		x, o, policy := amendedAtRandom(c)
		var asked []netip.Addr
		for range 1 + c.IntN(8) {
			asked = append(asked, netip.MustParseAddr(c.ip()))
		}
		var want []string
		all := judged(o, policy)
		for _, it := range slices.Concat(all.Allocations, all.Reservations) {
			if slices.Contains(asked, it.Address()) && !slices.ContainsFunc(it.Related(), func(w *judge.Item) bool { return !slices.Contains(asked, w.Address()) }) {
				want = append(want, accountOf(it))
			}
		}
		got := account(x.JudgeAddresses(asked))
		if missing := differing(want, got); len(missing) > 0 {
			t.Fatalf("seed %d: of %v got\n%s\nbut not\n%s", seed, asked, got, missing)
		}
	}
}
