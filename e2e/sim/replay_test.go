//go:build !slow && !cluster

package sim

import (
	"runtime"
	"slices"
	"testing"
)

// A seed is worth little if it gives another history each time. What is left to chance is the
// order in which the product takes what is in its maps, and Go what is ready at once.
func TestASeedGivesTheSameHistoryAgain(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // as a worker has
	var p Player
	var differ []uint64
	const seeds = 30
	for n := range uint64(seeds) {
		first, second := p.Play(t, NewPlan(n)), p.Play(t, NewPlan(n))
		if !slices.Equal(first.Trace, second.Trace) {
			differ = append(differ, n)
		}
	}
	t.Logf("of %d histories %d went another way when they were played again: %d", seeds, len(differ), differ)
	if len(differ) > seeds/3 {
		t.Errorf("too many for a failure to be played again")
	}
}
