// Package heaptest measures the heap in tests of what large input takes.
package heaptest

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// Peak is the most bytes that the heap has while work runs, with what fragments it. The garbage collector keeps it
// below the limit if it can.
func Peak(limit int64, work func()) (most uint64) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(limit))
	debug.FreeOSMemory()
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}}
	done := make(chan struct{})
	var wg sync.WaitGroup
	defer func() { close(done); wg.Wait() }() // also of a test that work ends
	wg.Go(func() {
		for {
			metrics.Read(samples)
			most = max(most, samples[0].Value.Uint64()+samples[1].Value.Uint64())
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
			}
		}
	})
	work()
	return most
}

// InUse is how many bytes the objects have that something refers to.
func InUse() uint64 {
	runtime.GC()
	runtime.GC() // of what the first one has finalized
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
