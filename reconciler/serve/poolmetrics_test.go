package serve

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// poolSeries are the values of ip_reconcile_pool_addresses, by "<pool> <state>".
func poolSeries(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, f := range families {
		if f.GetName() != "ip_reconcile_pool_addresses" {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			found[strings.TrimPrefix(strings.Join(labels, " "), "kube-system/")] = m.GetGauge().GetValue()
		}
	}
	return found
}

func TestPoolsAreMeasuredAfterWhatAPassReleased(t *testing.T) {
	j := judgetest.Judged(judgetest.Observe(judgetest.Pod("bystander"),
		judgetest.NAD("a", judgetest.WhereaboutsConfig("10.0.0.0/29", "")),
		judgetest.NAD("b", judgetest.WhereaboutsConfig("fd00::/64", "")),
		judgetest.Pool("10.0.0.0-29", "10.0.0.0/29", judgetest.Alloc("1", "default/x", "b1", "net1"), judgetest.Alloc("2", "default/y", "b2", "net1")),
		judgetest.Pool("10.0.1.0-29", "10.0.1.0/29", judgetest.Alloc("1", "default/z", "b3", "net1")),
		judgetest.Pool("fd00---64", "fd00::/64")), judge.Policy{})
	var released []*judge.Item
	for _, it := range j.Allocations {
		if it.Text() == "10.0.0.2" {
			released = append(released, it)
		}
	}
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	if got := poolSeries(t, registry); len(got) > 0 {
		t.Errorf("before the first pass: %v", got)
	}
	m.update(&reconciler.Result{Judgement: j, Released: released})
	want := map[string]float64{
		"10.0.0.0-29 usable": 6, "10.0.0.0-29 used": 1, "10.0.0.0-29 free": 5, "10.0.1.0-29 used": 1,
		"fd00---64 usable": 1 << 64, "fd00---64 used": 0, "fd00---64 free": 1 << 64,
	}
	if got := poolSeries(t, registry); !maps.Equal(got, want) {
		t.Errorf("measured %v, want %v", got, want)
	}
}

// bigJudgement is of 10,000 pods with an address each, in so many pools, and as many definitions and
// reservations.
func bigJudgement(pools int) *judge.Judgement {
	parts := []judgetest.Part{judgetest.Pod("bystander")}
	const pods = 10000
	for p := range pools {
		cidr := fmt.Sprintf("10.%d.%d.0/19", p/8, p%8*32)
		var allocs []judgetest.Allocation
		for i := range pods / pools {
			name := fmt.Sprintf("pod-%d-%d", p, i)
			allocs = append(allocs, judgetest.Alloc(fmt.Sprint(i+1), "default/"+name, fmt.Sprint("box", p, i), "net1"))
			addr := fmt.Sprintf("10.%d.%d.%d", p/8, p%8*32+(i+1)/256, (i+1)%256)
			parts = append(parts, judgetest.Pod(name, judgetest.Carrying(addr)), judgetest.Reservation(addr, "default/"+name, judgetest.LongAgo))
		}
		name := strings.ReplaceAll(cidr, "/", "-")
		parts = append(parts, judgetest.NAD(fmt.Sprint("net-", p), judgetest.WhereaboutsConfig(cidr, "")), judgetest.Pool(name, cidr, allocs...))
	}
	return judgetest.Judged(judgetest.Observe(parts...), judge.Policy{})
}

func BenchmarkMeasuringPools(b *testing.B) {
	for _, pools := range []int{2, 500} {
		j := bigJudgement(pools)
		b.Run(fmt.Sprint(pools, "_pools"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				gaugesOfPools(&reconciler.Result{Judgement: j})
			}
		})
	}
}
