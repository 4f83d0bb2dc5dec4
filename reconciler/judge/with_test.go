package judge_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

func TestAnIndexWithChangesStandsForWhatThereIsNow(t *testing.T) {
	t.Parallel()
	for seed := range Seeds(3000) {
		x, o, policy := ChangedIndex(NewRandom(seed, 2))
		is, want := judge.Judge(x.Observation(), o.Past, policy), Judged(o, policy)
		if got, want := Describe(is), Describe(want); !slices.Equal(got, want) {
			t.Fatalf("seed %d: got\n%s\nwant\n%s", seed, Missing(got, want), Missing(want, got))
		}
	}
}

func TestWhatIsAskedForAloneIsJudgedAsWithAllTheRest(t *testing.T) {
	t.Parallel()
	for seed := range Seeds(3000) {
		c := NewRandom(seed, 3)
		x, o, policy := ChangedIndex(c)
		var asked []netip.Addr
		for range 1 + c.IntN(8) {
			asked = append(asked, netip.MustParseAddr(c.IP()))
		}
		var want []string
		all := Judged(o, policy)
		for _, it := range slices.Concat(all.Allocations, all.Reservations) {
			if slices.Contains(asked, it.Address()) && !slices.ContainsFunc(it.Related(), func(w *judge.Item) bool { return !slices.Contains(asked, w.Address()) }) {
				want = append(want, DescribeItem(it))
			}
		}
		got := Describe(x.JudgeAddresses(asked))
		if missing := Missing(want, got); len(missing) > 0 {
			t.Fatalf("seed %d: of %v got\n%s\nbut not\n%s", seed, asked, got, missing)
		}
	}
}
