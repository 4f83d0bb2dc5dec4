//go:build !slow && !cluster

package sim

import (
	"flag"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var twice = flag.Uint64("twice", 40, "how many histories are played a second time, by other workers")

// A history is a function of its seed: after other histories, beside them, and in another process. Each request and
// each answer is the same, byte for byte, at the same time.
func TestSim_SameSeedSameHistory(t *testing.T) {
	one, err := runWorker(t, *seed, *twice, shrinking)
	if err != nil {
		t.Fatal(err)
	}
	parts := make([]*share, max(2, *workers))
	var wg sync.WaitGroup
	for i := range parts {
		wg.Go(func() {
			from, to := *twice*uint64(i)/uint64(len(parts)), *twice*uint64(i+1)/uint64(len(parts))
			s, err := runWorker(t, *seed+from, to-from, shrinking)
			if err != nil {
				t.Errorf("worker %d: %v", i, err)
			}
			parts[i] = s
		})
	}
	wg.Wait()
	again := map[uint64]uint32{}
	for _, s := range parts {
		if s != nil {
			maps.Copy(again, s.Digests)
		}
	}
	for n, digest := range one.Digests {
		if again[n] != digest {
			t.Errorf("history %d went another way when it was played again (TestPlan with -requests shows it)", n)
		}
	}
	for _, v := range one.Violations {
		t.Error(v)
	}
	if len(one.Digests) != int(*twice) {
		t.Errorf("%d of %d histories were played", len(one.Digests), *twice)
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
