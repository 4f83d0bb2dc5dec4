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

	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

func TestMetrics_PoolAddresses(t *testing.T) {
	out := resultOf(Pod("bystander"),
		NAD("a", WhereaboutsConfig("10.0.0.0/29", "")), NAD("b", WhereaboutsConfig("fd00::/64", "")),
		Pool("10.0.0.0-29", "10.0.0.0/29", Alloc("1", "default/x", "b1", "net1"), Alloc("2", "default/y", "b2", "net1")),
		Pool("10.0.1.0-29", "10.0.1.0/29", Alloc("1", "default/z", "b3", "net1")), // no definition
		Pool("fd00---64", "fd00::/64"))
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	if got := series(t, registry, "pool_addresses"); len(got) > 0 {
		t.Errorf("before the first pass: %v", got)
	}
	update(m, out)
	want := map[string]float64{}
	for series, value := range map[string]float64{
		"10.0.0.0-29 usable": 6, "10.0.0.0-29 used": 2, "10.0.0.0-29 free": 4, "10.0.1.0-29 used": 1,
		"fd00---64 usable": 1 << 64, "fd00---64 used": 0, "fd00---64 free": 1 << 64,
	} {
		want["on kube-system/"+series] = value
	}
	if got := series(t, registry, "pool_addresses"); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// The annotation of a pool and a node's slice switch alerts off.
func TestMetrics_PoolsWithoutAlerts(t *testing.T) {
	var annotated Part = func(o *Observed) { o.Pools[len(o.Pools)-1].NoUsageAlerts = true }
	registry := prometheus.NewRegistry()
	update(NewMetrics(registry), resultOf(Pod("bystander"), Node("worker-1"),
		NAD("a", WhereaboutsConfig("10.0.0.0/29", "")), NAD("b", WhereaboutsConfig("10.1.0.0/29", "")),
		NAD("c", WhereaboutsConfig("10.2.0.0/24", "", `"node_slice_size":"/29"`)),
		Pool("10.0.0.0-29", "10.0.0.0/29"), Pool("10.1.0.0-29", "10.1.0.0/29"), annotated,
		Pool("worker-1-10.2.0.0-29", "10.2.0.0/29")))
	got := series(t, registry, "pool_addresses")
	for pool, alerts := range map[string]string{"10.0.0.0-29": "on", "10.1.0.0-29": "off", "worker-1-10.2.0.0-29": "off"} {
		for _, state := range []string{"usable", "free", "used"} {
			if _, ok := got[alerts+" kube-system/"+pool+" "+state]; !ok || len(got) != 9 {
				t.Errorf("no %s of %s with alerts %s in %v", state, pool, alerts, got)
			}
		}
	}
}

// Each pool has a leak and a Held allocation. Pods wait for one pool.
func TestMetrics_SizeOfAScrape(t *testing.T) {
	pools := 10000
	if testing.Short() { // finding their definitions takes a second
		pools /= 10
	}
	parts := []Part{Pod("bystander"), Node("worker-1")}
	for p := range pools {
		cidr := fmt.Sprintf("10.%d.%d.0/29", p/256, p%256)
		parts = append(parts, NAD(fmt.Sprint("net-", p), WhereaboutsConfig(cidr, "")),
			Pool(strings.ReplaceAll(cidr, "/", "-"), cidr, Alloc("1", "default/gone", fmt.Sprint("a", p), "net1"),
				Alloc("2", "no podref", fmt.Sprint("b", p), "net1"), Alloc("3", "default/bystander", fmt.Sprint("c", p), "net1")))
	}
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	out := resultOf(parts...)
	for _, c := range []struct {
		withoutPools       bool
		maxSeries, maxKiBs int
	}{{false, 3*pools + 150 + maxPoolFindings, 25 + pools*3/10}, {true, 150 + maxPoolFindings, 25}} {
		m.WithoutPools = c.withoutPools
		update(m, out)
		m.lastPass.Load().set(poolWaiting, 2, "kube-system/10.0.0.0-29")
		answer, request := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil)
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(answer, request)
		scrape := answer.Body.String()
		n, kib := strings.Count(scrape, "\n")-strings.Count(scrape, "# "), len(scrape)>>10
		t.Logf("without pools %v: %d series, %d KiB", c.withoutPools, n, kib)
		if n > c.maxSeries || kib > c.maxKiBs {
			t.Errorf("without pools %v: want at most %d series, %d KiB", c.withoutPools, c.maxSeries, c.maxKiBs)
		}
		if !strings.Contains(scrape, "ip_reconcile_pool_waiting_pods{") {
			t.Errorf("without pools %v: no pool_waiting_pods", c.withoutPools)
		}
	}
}
