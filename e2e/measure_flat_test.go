//go:build slow

package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/bench/fill"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// moreGoroutines is how many goroutines serve may have more after the churn: two of each idle connection. An open watch
// has five.
const moreGoroutines = 6

// TestMeasure_Flat lets pods come, leak their addresses and go beside serve while its watches end again and again, in
// full for half an hour. Afterwards serve has as many goroutines as before. In full neither they nor its heap grow:
// their least values follow no rising line.
func TestMeasure_Flat(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1")
	one := s.agent(t, "worker-1")
	s.fill(t, &fill.Content{Pods: sized(2000), Pools: 1, Nodes: 10})
	s.pool(t, "10.1.0.0-24", "10.1.0.0/24", map[string]any{})
	period := 4 * time.Second
	if *full {
		period = 150 * time.Second // the runtime collects garbage at least every two
	}
	const periods = 10
	l, kubeconfig := s.link(t)
	v := s.serve(t, kubeconfig, "--cron", "@every 5s")
	var gone []any
	churn := func(n int) {
		p, id := s.bare(t, "worker-1", fmt.Sprint("churn-", n)), fmt.Sprintf("%064x", n+1)
		s.patch(t, harness.IPPools, "10.1.0.0-24", fmt.Sprintf(
			`{"spec":{"allocations":{"%d":{"id":"%s","podref":"default/%s","ifname":"net1"}}}}`, 1+n%250, id, p.Name))
		p.forceDelete(t)
		gone = append(gone[max(0, len(gone)-100):], v1alpha1.Gone{ID: id, UID: string(p.UID)})
		one.writeReport(t, gone...)
		if n%5 == 0 {
			l.cut(anyWatch)
		}
	}
	n := 0
	least := func() (heap float64) {
		for began := time.Now(); time.Since(began) < period || heap == 0; time.Sleep(200 * time.Millisecond) {
			churn(n)
			n++
			if h := v.metric("go_memstats_heap_alloc_bytes "); h > 0 && (heap == 0 || h < heap) {
				heap = h
			}
		}
		return heap / (1 << 20)
	}
	before := []float64{v.idleGoroutines(t, l, 1000)}
	most := before[0] + moreGoroutines
	least() // caches fill, and the first garbage is collected
	goroutines, heap := before, []float64{}
	for range periods {
		if heap = append(heap, least()); *full {
			goroutines = append(goroutines, v.idleGoroutines(t, l, 1000))
		}
	}
	v.is(t, `ip_reconcile_candidates`, 0)
	grown := periods * slope(heap)
	t.Logf("serve beside %d pods that came and went in %s: heap %.1f MiB, %+.2f by slope; goroutines %.0f, then %.0f",
		n, (periods * period).String(), heap, grown, goroutines, v.idleGoroutines(t, l, most))
	if more := periods * slope(goroutines); *full && more > 10 {
		t.Errorf("%.0f goroutines more by slope", more)
	}
	if most := slices.Min(heap) / 5; *full && grown > most { // garbage disturbs a short measurement more
		t.Errorf("the heap grew by %.1f MiB", grown)
	}
	released := v.metric("ip_reconcile_released_total")
	if released < float64(n)/2 {
		t.Errorf("%v were released of %d", released, n)
	}
}

// idleGoroutines waits until all watches are open and goroutines are at most so many, and returns how many there are
// between passes: the lower quartile of 20 seconds.
func (v *server) idleGoroutines(t *testing.T, l *link, most float64) (n float64) {
	t.Helper()
	const samples, kinds = 20, 8
	var last []float64
	eventuallyWithin(t, 3*time.Minute, fmt.Sprintf("all watches, and %.0f goroutines", most), func() bool {
		if l.open() != kinds {
			return false
		}
		if last = append(last, v.metric("go_goroutines ")); len(last) < samples {
			return false
		}
		last = last[len(last)-samples:]
		n = slices.Sorted(slices.Values(last))[samples/4]
		return n <= most
	})
	return n
}

// slope is by how much a line through the values rises from one to the next, by least squares.
func slope(values []float64) float64 {
	var sx, sy, sxx, sxy float64
	for i, y := range values {
		x := float64(i)
		sx, sy, sxx, sxy = sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	n := float64(len(values))
	return (n*sxy - sx*sy) / (n*sxx - sx*sx)
}
