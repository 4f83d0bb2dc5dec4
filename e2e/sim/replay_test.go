//go:build !slow && !cluster

package sim

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A history is a function of its seed: after other histories, beside them, and in another process. Only Go's choice
// among timers and channels that are ready at the same time is random, which shows in one history of two hundred.
func TestSim_SameSeedSameHistory(t *testing.T) {
	const seeds, mayDiffer = 40, 2
	one, err := runWorker(t, 0, seeds, tracing)
	if err != nil {
		t.Fatal(err)
	}
	halves := make([]*share, 2)
	var wg sync.WaitGroup
	for i := range halves {
		wg.Go(func() {
			s, err := runWorker(t, uint64(i)*seeds/2, seeds/2, tracing)
			if err != nil {
				t.Errorf("worker %d: %v", i, err)
				s = &share{}
			}
			halves[i] = s
		})
	}
	wg.Wait()
	var differ []uint64
	for n := range uint64(seeds) {
		if !slices.Equal(one.Traces[n], halves[n*2/seeds].Traces[n]) {
			differ = append(differ, n)
		}
	}
	if len(differ) > mayDiffer {
		t.Errorf("of %d histories %d went another way when they were played again: %d", seeds, len(differ), differ)
	}
}

// A restore brings back an entry whose address an overlapping range of the network has assigned since. The entry stays
// while that address is in use: that is no leak.
func TestSim_AllocationUsedByAnotherRangeMayStay(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	out := (&Player{}).Play(t, &Plan{
		Seed: 96, Nodes: 1, Pods: 2, Nets: 2, Apart: 1, Agents: 1, Repair: true, Replicas: 2, Shared: 2, Long: true,
		Faults: 5,
		Every:  40 * time.Second, Confirm: 77 * time.Second, Window: 19 * time.Second, Warm: 6 * time.Second,
		Latency: 20 * time.Millisecond,
		Steps: []Step{
			{Gap: 535967 * time.Millisecond, OnWrite: 1, Kind: 2, A: 2, B: 6},
			{Gap: 3091 * time.Millisecond, OnWrite: 2, Kind: 31, A: 7, B: 3},
			{Gap: 7502 * time.Millisecond, Kind: 9, A: 2, B: 7},
			{Gap: 230892 * time.Millisecond, OnWrite: 1, Kind: 20, A: 4, B: 5},
			{Gap: 2789 * time.Millisecond, OnWrite: 1, Kind: 33, A: 1, B: 7},
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
