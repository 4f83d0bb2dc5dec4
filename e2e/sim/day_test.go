//go:build !slow && !cluster

package sim

import (
	"flag"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/e2e/bench/used"
)

var hours = flag.Int("hours", 2, "how long TestDay lasts, in simulated hours")

// churn are the events of a day: none ends serve, and everything heals by itself.
var churn = []string{"a pod is made", "a pod is deleted", "a pod is deleted and recreated", "a pod is deleted by force",
	"DELs are lost", "a pod ends by itself", "the runtime's processes are killed", "watches are cut", "an entry leaks",
	"a sandbox dies and is recreated", "an entry of an earlier sandbox remains", "the DEL of a hot-unplug is lost",
	"a machine starts", "a machine stops", "an entry is lost", "releases are planned, read and applied",
	"a person releases by hand", "a machine joins and leaves"}

// TestDay lets one serve live through a day of events. Its heap and its goroutines do not grow: at every hour both are
// counted, after all garbage is collected. Whatever a history checks is checked, too.
func TestDay(t *testing.T) {
	if os.Getenv(workerEnv) != "" {
		t.Skip("is no part of the histories")
	}
	defer func(rate int) { runtime.MemProfileRate = rate }(runtime.MemProfileRate)
	runtime.MemProfileRate = 512
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(4 << 30)) // the simulator keeps the whole day
	plan := &Plan{Seed: *seed, Nodes: 3, Pods: 5, Nets: 2, Apart: 1, Agents: 7, Serve: true, Repair: true, Replicas: 1,
		Every: time.Minute, Confirm: time.Minute, Window: 10 * time.Second, Warm: 10 * time.Second}
	r := newRand(*seed)
	for passed := time.Duration(0); passed < time.Duration(*hours)*time.Hour+5*time.Minute; {
		x := Step{Gap: time.Duration(r.IntN(60)) * time.Second, A: r.IntN(8), B: r.IntN(8), Kind: r.IntN(len(kinds()))}
		if slices.Contains(churn, kinds()[x.Kind].name) {
			plan.Steps, passed = append(plan.Steps, x), passed+x.Gap
		}
	}
	var heap, goroutines []float64
	plan.EachHour = func() {
		runtime.GC()
		runtime.GC() // the profile is of the collection before
		heap, goroutines = append(heap, productHeap()/(1<<10)), append(goroutines, float64(runtime.NumGoroutine()))
	}
	out := (&Player{}).Play(t, plan)
	if out.Violation != "" {
		t.Errorf("%s\n%s", out.Violation, strings.Join(out.Trace[max(0, len(out.Trace)-100):], "\n"))
	}
	rise := func(values []float64) float64 { return float64(len(values)-1) * used.Slope(values) }
	t.Logf("%d steps in %d h, %d released; the heap in KiB %.0f, %+.0f by slope; goroutines %.0f, %+.1f by slope",
		len(plan.Steps), *hours, out.Counts["released"], heap, rise(heap), goroutines, rise(goroutines))
	if out.Counts["started"] > plan.Replicas {
		t.Errorf("serve was started %d times", out.Counts["started"])
	}
	// A part is the content: reports name what ended in the last day.
	if len(heap) < *hours || rise(heap) > heap[0]/2 || rise(goroutines) > 8 {
		t.Error("it grows")
	}
}

// productHeap is what is in use of what the product and its client libraries allocated, in bytes.
func productHeap() (bytes float64) {
	records := make([]runtime.MemProfileRecord, 100_000)
	n, ok := runtime.MemProfile(records, false)
	if !ok {
		panic(fmt.Sprint(n, " records are too many"))
	}
	for _, r := range records[:n] {
		if r.InUseObjects() == 0 || !isProducts(r.Stack()) {
			continue
		}
		each := float64(r.InUseBytes()) / float64(r.InUseObjects())
		bytes += float64(r.InUseBytes()) / (1 - math.Exp(-each/float64(runtime.MemProfileRate))) // it is a sample
	}
	return bytes
}

// isProducts reports whether the product made an allocation, or a goroutine of its client libraries.
func isProducts(stack []uintptr) bool {
	const module = "github.com/ip-reconcile/ip-reconcile/"
	isClients := false
	for frames := runtime.CallersFrames(stack); ; {
		f, more := frames.Next()
		if strings.HasPrefix(f.Function, module) {
			return !strings.HasPrefix(f.Function, module+"e2e/") && !strings.HasPrefix(f.Function, module+"internal/fakeapi.")
		}
		isClients = isClients || strings.HasPrefix(f.Function, "k8s.io/client-go/") ||
			strings.HasPrefix(f.Function, "sigs.k8s.io/controller-runtime/")
		if !more {
			return isClients
		}
	}
}
