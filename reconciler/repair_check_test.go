package reconciler

import (
	"slices"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// The second check of some addresses finds the same as a full pass.
func TestRepairs_SecondCheckFindsTheSame(t *testing.T) {
	t.Parallel()
	kinds := map[findings.Kind]int{}
	for seed := range Seeds(6000) {
		x, o, policy := ChangedIndex(NewRandom(seed, 4))
		all := Judged(o, policy).Findings
		rules := &repairRules{r: &Reconciler{}, live: &liveFacts{}}
		for i := range all {
			f := &all[i]
			if f.Repair == nil {
				continue
			}
			kinds[f.Kind]++
			stand := rules.findAgain(x, []*apply.Repair{{Finding: f, IsDue: true}})
			var found []findings.Finding
			for _, s := range stand {
				found = append(found, *s.Finding)
			}
			if want := DescribeFindings([]findings.Finding{*f}); !slices.Equal(DescribeFindings(found), want) {
				t.Fatalf("seed %d: stands\n%v\nfound was\n%v", seed, DescribeFindings(found), want)
			}
		}
	}
	t.Log(kinds)
	for _, kind := range []findings.Kind{findings.Unrecorded, findings.Misrecorded, findings.MissingReservation} {
		if kinds[kind] < int(Seeds(5)) {
			t.Errorf("%d findings of kind %s: the random clusters have too few", kinds[kind], kind)
		}
	}
}
