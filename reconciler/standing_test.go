package reconciler

import (
	"slices"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// What is found of some addresses alone, under the Lease, is what a full pass finds of them.
func TestARecheckOfFindingsFindsWhatAFullPassFinds(t *testing.T) {
	t.Parallel()
	kinds := map[judge.Kind]int{}
	for seed := range Seeds(6000) {
		x, o, policy := ChangedIndex(NewRandom(seed, 4))
		all := Judged(o, policy).Findings
		m := repairs{&executor{liveIndex: &liveIndex{x: x}}}
		for i := range all {
			f := &all[i]
			if f.Repair == nil {
				continue
			}
			kinds[f.Kind]++
			still := m.judge([]*change{{finding: f, repairTerms: repairTerms{waited: true}}})
			var found []judge.Finding
			for _, s := range still {
				found = append(found, *s.finding)
			}
			if want := DescribeFindings([]judge.Finding{*f}); !slices.Equal(DescribeFindings(found), want) {
				t.Fatalf("seed %d: stands\n%v\nfound was\n%v", seed, DescribeFindings(found), want)
			}
		}
	}
	t.Log(kinds)
	for _, kind := range []judge.Kind{judge.Unrecorded, judge.Misrecorded, judge.MissingReservation} {
		if kinds[kind] < int(Seeds(5)) {
			t.Errorf("%d findings of kind %s: the random clusters have too few", kinds[kind], kind)
		}
	}
}
