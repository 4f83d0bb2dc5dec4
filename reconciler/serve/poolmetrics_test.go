package serve

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

func TestPoolsAreMeasured(t *testing.T) {
	j := judgetest.Judged(judgetest.Observe(judgetest.Pod("bystander"),
		judgetest.NAD("a", judgetest.WhereaboutsConfig("10.0.0.0/29", "")),
		judgetest.NAD("b", judgetest.WhereaboutsConfig("fd00::/64", "")),
		judgetest.Pool("10.0.0.0-29", "10.0.0.0/29", judgetest.Alloc("1", "default/x", "b1", "net1"), judgetest.Alloc("2", "default/y", "b2", "net1")),
		judgetest.Pool("10.0.1.0-29", "10.0.1.0/29", judgetest.Alloc("1", "default/z", "b3", "net1")),
		judgetest.Pool("fd00---64", "fd00::/64")), judge.Policy{})
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	if got := series(t, registry, "pool_addresses"); len(got) > 0 {
		t.Errorf("before the first pass: %v", got)
	}
	m.update(&reconciler.Result{Judgement: j}, nil)
	want := map[string]float64{
		"on kube-system/10.0.0.0-29 usable": 6, "on kube-system/10.0.0.0-29 used": 2, "on kube-system/10.0.0.0-29 free": 4, "on kube-system/10.0.1.0-29 used": 1,
		"on kube-system/fd00---64 usable": 1 << 64, "on kube-system/fd00---64 used": 0, "on kube-system/fd00---64 free": 1 << 64,
	}
	if got := series(t, registry, "pool_addresses"); !maps.Equal(got, want) {
		t.Errorf("measured %v, want %v", got, want)
	}
}

// An operator says so of a pool, and of a node's slice it goes without saying.
func TestPoolsThatMayBeNearlyFullHaveNoAlerts(t *testing.T) {
	var quiet judgetest.Part = func(o *judgetest.Observed) { o.Pools[len(o.Pools)-1].NoUsageAlerts = true }
	j := judgetest.Judged(judgetest.Observe(judgetest.Pod("bystander"), judgetest.Node("worker-1"),
		judgetest.NAD("a", judgetest.WhereaboutsConfig("10.0.0.0/29", "")),
		judgetest.NAD("b", judgetest.WhereaboutsConfig("10.1.0.0/29", "")),
		judgetest.NAD("c", judgetest.WhereaboutsConfig("10.2.0.0/24", "", `"node_slice_size":"/29"`)),
		judgetest.Pool("10.0.0.0-29", "10.0.0.0/29"), judgetest.Pool("10.1.0.0-29", "10.1.0.0/29"), quiet,
		judgetest.Pool("worker-1-10.2.0.0-29", "10.2.0.0/29")), judge.Policy{})
	registry := prometheus.NewRegistry()
	NewMetrics(registry).update(&reconciler.Result{Judgement: j}, nil)
	got := series(t, registry, "pool_addresses")
	for _, pool := range []string{"on kube-system/10.0.0.0-29", "off kube-system/10.1.0.0-29", "off kube-system/worker-1-10.2.0.0-29"} {
		for _, state := range []string{"usable", "free", "used"} {
			if _, there := got[pool+" "+state]; !there || len(got) != 9 {
				t.Errorf("there is no %s %s in %v", pool, state, got)
			}
		}
	}
}

// scrapeOf is what Prometheus is sent, as text.
func scrapeOf(t *testing.T, registry *prometheus.Registry) string {
	t.Helper()
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return answer.Body.String()
}

// seriesOf is how many a scrape has.
func seriesOf(scrape string) (n int) {
	for line := range strings.Lines(scrape) {
		if !strings.HasPrefix(line, "#") {
			n++
		}
	}
	return n
}

// Each has a leak and an entry that is held; of one pods wait.
func TestAScrapeOfTenThousandPools(t *testing.T) {
	pools := 10000
	if testing.Short() { // finding their definitions takes a second
		pools /= 10
	}
	parts := []judgetest.Part{judgetest.Pod("bystander"), judgetest.Node("worker-1")}
	for p := range pools {
		cidr := fmt.Sprintf("10.%d.%d.0/29", p/256, p%256)
		parts = append(parts, judgetest.NAD(fmt.Sprint("net-", p), judgetest.WhereaboutsConfig(cidr, "")),
			judgetest.Pool(strings.ReplaceAll(cidr, "/", "-"), cidr, judgetest.Alloc("1", "default/gone", fmt.Sprint("a", p), "net1"), judgetest.Alloc("2", "no podref", fmt.Sprint("b", p), "net1"),
				judgetest.Alloc("3", "default/bystander", fmt.Sprint("c", p), "net1")))
	}
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	out := &reconciler.Result{Judgement: judgetest.Judged(judgetest.Observe(parts...), judge.Policy{})}
	for _, c := range []struct {
		withoutPools        bool
		mostSeries, mostKiB int
	}{{false, 3*pools + 150, 25 + pools*3/10}, {true, 150, 25}} {
		m.WithoutPools = c.withoutPools
		m.update(out, nil)
		m.lastPass.set(poolWaiting, 2, "kube-system/10.0.0.0-29")
		scrape := scrapeOf(t, registry)
		n, kib := seriesOf(scrape), len(scrape)>>10
		t.Logf("without pools %v: %d series, %d KiB", c.withoutPools, n, kib)
		if n > c.mostSeries || kib > c.mostKiB {
			t.Errorf("without pools %v: %d series, %d KiB, want %d and %d at most", c.withoutPools, n, kib, c.mostSeries, c.mostKiB)
		}
		if !strings.Contains(scrape, "ip_reconcile_pool_waiting_pods{") {
			t.Errorf("without pools %v: nothing tells that pods wait", c.withoutPools)
		}
	}
}
