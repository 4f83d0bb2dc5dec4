//go:build !slow && !cluster

package sim

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// A seed is of little use if it gives another history each time. Only two orders are random: that of the
// product's maps, and Go's choice among what is ready.
func TestSim_SameSeedSameHistory(t *testing.T) {
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

// A restore brings back an entry whose address an overlapping range of the network has assigned since. The entry stays
// while that address is in use: that is no leak.
func TestSim_AllocationUsedByAnotherRangeMayStay(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	out := (&Player{}).Play(t, &Plan{
		Seed: 1693967763, Nodes: 1, Pods: 2, Nets: 2, Apart: 1, Agents: 1, Repair: true, Replicas: 2, Shared: 2, Long: true,
		Faults: 5,
		Every:  40 * time.Second, Confirm: 77 * time.Second, Window: 19 * time.Second, Warm: 6 * time.Second,
		Latency: 20 * time.Millisecond,
		Steps: []Step{
			{Gap: 535967 * time.Millisecond, OnWrite: 1, Kind: 2, A: 2, B: 6},
			{Gap: 3091 * time.Millisecond, OnWrite: 2, Kind: 28, A: 7, B: 3},
			{Gap: 7502 * time.Millisecond, Kind: 9, A: 2, B: 7},
			{Gap: 230892 * time.Millisecond, OnWrite: 1, Kind: 20, A: 4, B: 5},
			{Gap: 2789 * time.Millisecond, OnWrite: 1, Kind: 30, A: 1, B: 7},
			{Gap: 543709 * time.Millisecond, OnWrite: 2, Kind: 18, A: 6, B: 1},
		},
	})
	if out.Violation != "" {
		t.Error(out.Violation)
	}
	wroteBack := func(line string) bool {
		return strings.Contains(line, "the product writes back 10.0.0.2 of 10.0.0.0-25")
	}
	if !slices.ContainsFunc(out.Trace, wroteBack) {
		t.Error("the history no longer has the address used by the other range")
	}
}
