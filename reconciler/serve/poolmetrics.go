package serve

import (
	"math/big"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

var poolAddressesDesc = prometheus.NewDesc("ip_reconcile_pool_addresses",
	"Addresses of each pool, by state: usable are those that whereabouts would assign were none taken, free those of them that are not, used the entries. Without usable and free where it is not known what is assigned. alerts is off where the pool may be nearly full.",
	[]string{"pool", "state", "alerts"}, nil)

var poolWaitingDesc = prometheus.NewDesc("ip_reconcile_pool_waiting_pods",
	"Pods that cannot start because the pool is full. A pool for which none waits has no series.", []string{"pool"}, nil)

// poolGauges are the numbers of one pool.
type poolGauges struct {
	pool               string
	used, usable, free float64
	known              bool // usable and free are
	waiting            int  // pods
	mayFill            bool // nobody need know that it is nearly full
}

// gaugesOfPools are those of all pools once a pass has released what it has.
func gaugesOfPools(out *reconciler.Result) []poolGauges {
	pools := usage.Of(out.Judgement, out.Released...)
	pools.AddWaiting()
	all := make([]poolGauges, 0, len(pools.All))
	for _, p := range pools.All {
		g := poolGauges{pool: p.Ref(), used: float64(p.Used), known: p.Unknown == "", waiting: len(p.Waiting)}
		isSlice := slices.ContainsFunc(p.Definitions, func(d *usage.Definition) bool { return d.Node != "" })
		g.mayFill = p.NoUsageAlerts || isSlice
		if g.known {
			g.usable, g.free = float(p.Usable), float(p.Free)
		}
		all = append(all, g)
	}
	return all
}

func float(n *big.Int) float64 {
	f, _ := new(big.Float).SetInt(n).Float64()
	return f
}

func collectPools(pools []poolGauges, waitingAlone bool, out chan<- prometheus.Metric) {
	for _, p := range pools {
		if p.waiting > 0 {
			out <- prometheus.MustNewConstMetric(poolWaitingDesc, prometheus.GaugeValue, float64(p.waiting), p.pool)
		}
		if waitingAlone {
			continue
		}
		alerts := "on"
		if p.mayFill {
			alerts = "off"
		}
		send := func(v float64, state string) {
			out <- prometheus.MustNewConstMetric(poolAddressesDesc, prometheus.GaugeValue, v, p.pool, state, alerts)
		}
		send(p.used, "used")
		if p.known {
			send(p.usable, "usable")
			send(p.free, "free")
		}
	}
}
