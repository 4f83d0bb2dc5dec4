//go:build slow

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/agent/cri/critest"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/bench/fill"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// TestMeasure_Agent measures an agent with 250 sandboxes that changes once a second, one with 250 that does not change,
// and the size of a report of 500. Memory, traffic and size are bounded; time is only logged. An overloaded API server
// ends watches, which causes requests: such a time does not count.
func TestMeasure_Agent(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "idle", "busy", "large")
	const sandboxes, seconds = 250, 45 // in full everywhere: it mostly waits
	var mu sync.Mutex
	calls := map[string]int{}
	through := s.onRequest(t, func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		what := r.Method + " " + r.URL.Path
		if r.URL.Query().Has("watch") {
			what = "WATCH " + r.URL.Path
		}
		calls[what]++
	})
	idle, busy, large := newFakeNode(t, "idle", critest.Containerd), newFakeNode(t, "busy", critest.Containerd),
		newFakeNode(t, "large", critest.Containerd)
	fill := func(n *fakeNode, count int) (all []critest.Sandbox) {
		for i := range count {
			all = append(all, n.sandbox(t, i, "10.1.0.0/16", fmt.Sprintf("10.1.%d.%d", i/250, 1+i%250)))
		}
		n.Set(all...)
		return all
	}
	fill(idle, sandboxes)
	all := fill(busy, sandboxes)
	fill(large, 500)

	quiet, working, big := idle.agent(t, through), busy.agent(t, s.Kubeconfig()), large.agent(t, s.Kubeconfig())
	for _, n := range []string{"idle", "busy", "large"} {
		s.fresh(t, n)
	}
	s.reported(t, "large", "500 sandboxes", func(r *v1alpha1.SandboxReport) bool { return len(r.Sandboxes) == 500 })
	stored := s.etcdGet(t, "/registry/ip-reconcile.dev/sandboxreports/large")
	big.stop(t)

	t.Logf("a report of 500 sandboxes: %d KiB stored", len(stored)/1024)
	if len(stored) > 1<<20 {
		t.Error("too near to the 1.5 MiB that etcd takes")
	}

	changes := 0
	measure := func() (undisturbed bool) {
		mu.Lock()
		clear(calls)
		mu.Unlock()
		writes := s.report(t, "busy").Generation
		cpu := map[*command]time.Duration{quiet: cpuTime(t, quiet), working: cpuTime(t, working)}
		least := map[*command][2]float64{} // all resident memory, and that of files: garbage comes and goes
		began := time.Now()
		for i := range seconds {
			next := append([]critest.Sandbox{}, all[1:]...)
			all = append(next, busy.sandbox(t, sandboxes+changes, "10.1.0.0/16", fmt.Sprintf("10.1.100.%d", 1+changes)))
			changes++
			busy.Set(all...)
			time.Sleep(time.Until(began.Add(time.Duration(i+1) * time.Second))) // the load is one change a second
			for c := range cpu {
				if resident, file := residentMemory(t, c); i == 0 || resident < least[c][0] {
					least[c] = [2]float64{resident, file}
				}
			}
		}
		took := time.Since(began)
		mu.Lock()
		defer mu.Unlock()
		t.Logf("requests of the idle agent in %.0f s: %v", took.Seconds(), calls)
		for what := range calls {
			if strings.HasPrefix(what, "WATCH ") {
				return false
			}
		}
		for c, name := range map[*command]string{quiet: "idle", working: "one change a second"} {
			used, resident := cpuTime(t, c)-cpu[c], least[c][0]
			t.Logf("%d sandboxes, %s: %.2f %% of a core, %.1f MiB resident (%.1f MiB of it the program's file)",
				sandboxes, name, 100*used.Seconds()/took.Seconds(), resident, least[c][1])
			if resident > 32 { // some 20, and 28 with garbage
				t.Errorf("%s: %.1f MiB resident", name, resident)
			}
		}
		t.Logf("%d writes in %.0f s", s.report(t, "busy").Generation-writes, took.Seconds())
		lease := "PUT /apis/coordination.k8s.io/v1/namespaces/" + harness.LeaseNamespace + "/leases/idle"
		for what, n := range calls {
			if what != lease || n > int(took/(20*time.Second))+1 {
				t.Errorf("an idle agent made %d requests %s", n, what)
			}
		}
		return true
	}
	for range 5 {
		if measure() {
			return
		}
	}
	t.Error("watches ended in each of five measurements")
}

// cpuTime is the processor time of a process, user and system, in all its threads.
func cpuTime(t testing.TB, c *command) (used time.Duration) {
	t.Helper()
	for _, path := range try(filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", c.cmd.Process.Pid))).must(t) {
		used += time.Duration(try(strconv.ParseInt(strings.Fields(string(try(os.ReadFile(path)).must(t)))[0], 10,
			64)).must(t))
	}
	return used
}

// residentMemory is VmRSS and the part of it that is mapped from files, in MiB.
func residentMemory(t testing.TB, c *command) (all, file float64) {
	t.Helper()
	for line := range strings.Lines(string(try(os.ReadFile(filepath.Join("/proc", strconv.Itoa(c.cmd.Process.Pid),
		"status"))).must(t))) {
		f := strings.Fields(line)
		switch f[0] {
		case "VmRSS:":
			all = try(strconv.ParseFloat(f[1], 64)).must(t) / 1024
		case "RssFile:":
			file = try(strconv.ParseFloat(f[1], 64)).must(t) / 1024
		}
	}
	return all, file
}

// TestMeasure_Serve measures serve beside 5,000 pods: idle, and while ten pods with an address change every second. An
// overloaded API server ends watches, which causes requests: such a time does not count.
func TestMeasure_Serve(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	pods, seconds := sized(5000), max(sized(20), 5)
	c := &fill.Content{Pods: pods, Pools: 1, Nodes: 50}
	s.fill(t, c)

	var mu sync.Mutex
	calls, watches, pulses, last := map[string]int{}, 0, 0, time.Now()
	through := s.onRequest(t, func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		switch q := r.URL.Query(); {
		case q.Has("watch"), strings.HasSuffix(r.URL.Path, "/sandboxreports"): // which are not served: it tries again
			watches++
		// is the API server there?
		case strings.HasSuffix(r.URL.Path, "/leases") && q.Get("fieldSelector") == "metadata.name=ip-reconcile":
			pulses++
		default:
			calls[r.Method+" "+r.URL.Path]++
			last = time.Now()
		}
	})
	v := s.serve(t, through)
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
		began, used, passes := time.Now(), cpuTime(t, v.command), v.metric("ip_reconcile_cache_passes_total")
		for i := range seconds {
			each(i)
			time.Sleep(time.Until(began.Add(time.Duration(i+1) * time.Second))) // the load is so much a second
		}
		resident, file := residentMemory(t, v.command)
		t.Logf("serve beside %d pods, %s: %.1f %% of a core, %.0f passes, %.1f MiB resident (%.1f MiB of it the program's "+
			"file)", pods, what,
			100*(cpuTime(t, v.command)-used).Seconds()/time.Since(began).Seconds(),
			v.metric("ip_reconcile_cache_passes_total")-passes, resident, file)
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
			_, err := s.Client().CoreV1().Pods(e.Namespace).Patch(t.Context(), e.Name, "application/merge-patch+json", patch,
				metav1.PatchOptions{}, "status")
			check(t, err)
		}
	})
}
