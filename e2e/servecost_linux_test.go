//go:build slow

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/e2e/bench/fill"
)

// TestMeasure_Serve measures the long-running form beside 5,000 pods: when nothing
// happens, and when every second ten pods change that have an address. An API server that has no
// time ends watches, and then there are requests: what is measured meanwhile does not count.
func TestMeasure_Serve(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	pods, seconds := sized(5000), max(sized(20), 5)
	c := &fill.Content{Pods: pods, Pools: 1, Nodes: 50}
	s.fill(t, c)

	var mu sync.Mutex
	calls, watches, pulses, last := map[string]int{}, 0, 0, time.Now()
	p := &proxy{before: func(r *http.Request) int {
		mu.Lock()
		defer mu.Unlock()
		switch q := r.URL.Query(); {
		case q.Has("watch"):
			watches++
		case strings.HasSuffix(r.URL.Path, "/leases") && q.Get("fieldSelector") == "metadata.name=ip-reconcile": // is the API server there?
			pulses++
		default:
			calls[r.Method+" "+r.URL.Path]++
			last = time.Now()
		}
		return 0
	}}
	v := s.serve(t, p.start(t, s))
	v.is(t, `ip_reconcile_allocations{reason="AddressOnPod",verdict="InUse"}`, float64(pods))
	once := func(what string, each func(second int)) (quiet bool) {
		t.Helper()
		eventuallyWithin(t, 5*time.Minute, "what it reads at its start to be read", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return time.Since(last) > 5*time.Second
		})
		mu.Lock()
		clear(calls)
		watches, pulses = 0, 0
		mu.Unlock()
		began, used, passes := time.Now(), cpuTime(t, v.command), v.metric("ip_reconcile_looks_total")
		for i := range seconds {
			each(i)
			time.Sleep(time.Until(began.Add(time.Duration(i+1) * time.Second))) // the load is so much a second
		}
		resident, file := residentMemory(t, v.command)
		t.Logf("serve beside %d pods, %s: %.1f %% of a core, %.0f passes, %.1f MiB resident (%.1f MiB of it the program's file)", pods, what,
			100*(cpuTime(t, v.command)-used).Seconds()/time.Since(began).Seconds(), v.metric("ip_reconcile_looks_total")-passes, resident, file)
		mu.Lock()
		defer mu.Unlock()
		if len(calls) > 0 && watches == 0 {
			t.Errorf("requests while %s: %v", what, calls)
		}
		if pulses > 2*seconds {
			t.Errorf("%d pulses in %d s", pulses, seconds)
		}
		return watches == 0
	}
	measure := func(what string, each func(second int)) {
		t.Helper()
		for range 5 {
			if once(what, each) {
				return
			}
		}
		t.Errorf("while %s watches ended in each of five measurements", what)
	}
	measure("nothing happens", func(int) {})
	changes := 0
	measure("ten pods change each second", func(second int) {
		changes++
		for i := range 10 {
			e := c.Entry(second*10 + i)
			patch := []byte(fmt.Sprintf(`{"status":{"podIP":"10.244.0.%d"}}`, changes))
			_, err := s.Client().CoreV1().Pods(e.Namespace).Patch(t.Context(), e.Name, "application/merge-patch+json", patch, metav1.PatchOptions{}, "status")
			check(t, err)
		}
	})
}
