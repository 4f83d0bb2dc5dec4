package reconciler

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// What is found of some addresses alone, under the Lease, is what a full pass
// finds of them.
func TestWhatStandsIsWhatALookAtEverythingFinds(t *testing.T) {
	t.Parallel()
	kinds := map[judge.Kind]int{}
	for seed := range seeds(6000) {
		x, o, policy := amendedAtRandom(chance{rand.New(rand.NewPCG(seed, 4))})
		all := judged(o, policy).Findings
		m := &repairBatch{snapshot: snapshot{x: x}}
		x.IndexReservations()
		for i := range all {
			f := &all[i]
			if f.Repair == nil {
				continue
			}
			kinds[f.Kind]++
			still := m.stillFound([]*repairAttempt{{Finding: f, waited: true}})
			var found []judge.Finding
			for _, s := range still {
				found = append(found, *s.Finding)
			}
			if want := described([]judge.Finding{*f}); !slices.Equal(described(found), want) {
				t.Fatalf("seed %d: stands\n%v\nfound was\n%v", seed, described(found), want)
			}
		}
	}
	for _, kind := range []judge.Kind{judge.Unrecorded, judge.Misrecorded, judge.MissingReservation} {
		if kinds[kind] < int(seeds(5)) {
			t.Errorf("%d findings of kind %s: the scenes show too little", kinds[kind], kind)
		}
	}
}
