package sim

import (
	"slices"
	"testing"
)

// A seed is worth little if it gives another history each time.
func TestASeedGivesTheSameHistoryAgain(t *testing.T) {
	var p Player
	differ := 0
	const seeds = 40
	for n := range uint64(seeds) {
		first, second := p.Play(t, NewPlan(n)), p.Play(t, NewPlan(n))
		if !slices.Equal(first.Trace, second.Trace) {
			differ++
			for i := range min(len(first.Trace), len(second.Trace)) {
				if first.Trace[i] != second.Trace[i] {
					t.Logf("seed %d, serve %v, line %d:\n%s\n%s", n, NewPlan(n).Serve, i, first.Trace[i], second.Trace[i])
					break
				}
			}
		}
	}
	t.Logf("%d of %d differ", differ, seeds)
}
