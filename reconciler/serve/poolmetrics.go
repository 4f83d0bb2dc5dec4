package serve

import (
	"math/big"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

var poolAddressesDesc = prometheus.NewDesc("ip_reconcile_pool_addresses",
	"Addresses of each pool, by state: usable are those that whereabouts would assign were none taken, free those of them that are not, used the entries. Without usable and free where it is not known what is assigned.",
	[]string{"pool", "state"}, nil)

var poolWaitingDesc = prometheus.NewDesc("ip_reconcile_pool_waiting_pods",
	"Pods that cannot start because the pool is full. A pool for which none waits has no series.", []string{"pool"}, nil)

// poolGauges are the numbers of one pool.
type poolGauges struct {
	pool               string
	used, usable, free float64
	known              bool // usable and free are
	waiting            int  // pods
}

// gaugesOfPools are those of all pools once a pass has released what it has.
func gaugesOfPools(out *reconciler.Result) []poolGauges {
	pools := usage.Of(out.Judgement, out.Released...)
	pools.AddWaiting()
	all := make([]poolGauges, 0, len(pools.All))
	for _, p := range pools.All {
		g := poolGauges{pool: p.Ref(), used: float64(p.Used), known: p.Unknown == "", waiting: len(p.Waiting)}
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

func collectPools(pools []poolGauges, out chan<- prometheus.Metric) {
	send := func(v float64, pool, state string) {
		out <- prometheus.MustNewConstMetric(poolAddressesDesc, prometheus.GaugeValue, v, pool, state)
	}
	for _, p := range pools {
		if p.waiting > 0 {
			out <- prometheus.MustNewConstMetric(poolWaitingDesc, prometheus.GaugeValue, float64(p.waiting), p.pool)
		}
		send(p.used, p.pool, "used")
		if p.known {
			send(p.usable, p.pool, "usable")
			send(p.free, p.pool, "free")
		}
	}
}
