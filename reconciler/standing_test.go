package reconciler

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// What is found of some addresses alone, under the Lease, is what a look at everything
// finds of them.
func TestWhatStandsIsWhatALookAtEverythingFinds(t *testing.T) {
	t.Parallel()
	kinds := map[Kind]int{}
	for seed := range seeds(6000) {
		x, o, policy := amendedAtRandom(chance{rand.New(rand.NewPCG(seed, 4))})
		all := Judge(o, policy).Findings
		m := &repairs{basis: basis{x: x}}
		x.indexReservations()
		for i := range all {
			f := &all[i]
			if f.repair == nil {
				continue
			}
			kinds[f.Kind]++
			still := m.standing([]*mend{{Finding: f, waited: true}})
			var found []Finding
			for _, s := range still {
				found = append(found, *s.Finding)
			}
			if want := described([]Finding{*f}); !slices.Equal(described(found), want) {
				t.Fatalf("seed %d: stands\n%v\nfound was\n%v", seed, described(found), want)
			}
		}
	}
	for _, kind := range []Kind{Unrecorded, Misrecorded, MissingReservation} {
		if kinds[kind] < int(seeds(5)) {
			t.Errorf("%d findings of kind %s: the scenes show too little", kinds[kind], kind)
		}
	}
}
