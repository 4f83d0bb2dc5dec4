package serve

import (
	"math/big"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/schedule"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// Metrics are what the long-running form counts. The gauges of the last pass are not there
// before the first, nor in a process that does not lead.
type Metrics struct {
	released, refused, repaired, unrepaired, passes, cachePasses, fences *prometheus.CounterVec
	rebuilds, restores, denied                                           prometheus.Counter
	duration, fenceDuration                                              prometheus.Histogram
	releaseTime                                                          *prometheus.HistogramVec
	lastSuccess, scheduleError, nextPass, fence                          prometheus.Gauge

	// WithoutPools leaves out the series of how full each pool is.
	WithoutPools bool

	mu     sync.Mutex
	ofPass gauges
}

// The values of the label proof.
const proven, unconfirmed = "proven", "unconfirmed"

// nodeNotReady are nodes that are neither Ready nor have a fresh report: the one follows from the other.
const nodeNotReady judge.NodeState = "NotReady"

// NewMetrics makes the metrics and registers them.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	auto := promauto.With(registry)
	vec := func(name, help, label string) *prometheus.CounterVec {
		return auto.NewCounterVec(prometheus.CounterOpts{Name: "ip_reconcile_" + name, Help: help}, []string{label})
	}
	counter := func(name, help string) prometheus.Counter {
		return auto.NewCounter(prometheus.CounterOpts{Name: "ip_reconcile_" + name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return auto.NewGauge(prometheus.GaugeOpts{Name: "ip_reconcile_" + name, Help: help})
	}
	m := &Metrics{
		released:      vec("released_total", "Allocations and reservations released, by reason.", "reason"),
		refused:       vec("refused_total", "Stale allocations and reservations that were not released, by why; each once until that changes.", "reason"),
		repaired:      vec("repaired_total", "Entries and reservations written back, by the finding's kind.", "kind"),
		unrepaired:    vec("not_repaired_total", "Findings that could not be mended, by why; each once until that changes.", "reason"),
		passes:        vec("passes_total", "Full passes, by result.", "result"),
		cachePasses:   vec("looks_total", "Passes over the watch caches between full passes, by result.", "result"),
		rebuilds:      counter("cache_rebuilds_total", "Times the caches disagreed with the API server and were rebuilt."),
		denied:        counter("denied_writes_total", "Writes that RBAC, an admission policy or a schema forbids (403 and 422), each try."),
		restores:      counter("etcd_restores_total", "Restores of etcd that a pass or an agent noticed."),
		scheduleError: gauge("schedule_error", "1 while the cron expression cannot be used and an earlier one, or the default, stays in force."),
		lastSuccess:   gauge("pass_last_success_timestamp_seconds", "When the last full pass succeeded."),
		nextPass:      gauge("schedule_next_timestamp_seconds", "When the next full pass is due after the last that succeeded; in the past while one is overdue."),
		duration: auto.NewHistogram(prometheus.HistogramOpts{Name: "ip_reconcile_pass_duration_seconds",
			Help: "How long full passes took, waiting for whereabouts' Lease included.", Buckets: prometheus.ExponentialBuckets(0.05, 2.5, 10)}),
		releaseTime: auto.NewHistogramVec(prometheus.HistogramOpts{Name: "ip_reconcile_release_seconds",
			Help:    "How long allocations and reservations were proven, or without proof stale, before they were released.",
			Buckets: []float64{1, 5, 15, 60, 300, 900, 960, 1200, 3600, 14400}}, []string{"proof"}),
		fence:  gauge("fence", "1 while this replica keeps ADDs and DELs waiting, because etcd was restored or may have been."),
		fences: vec("fences_total", "Times that this replica kept ADDs and DELs waiting, by how that ended.", "outcome"),
		fenceDuration: auto.NewHistogram(prometheus.HistogramOpts{Name: "ip_reconcile_fence_duration_seconds",
			Help: "For how long ADDs and DELs were kept waiting.", Buckets: []float64{0.5, 1, 2, 5, 10, 20, 30, 45, 60, 90}}),
	}
	registry.MustRegister(m)
	// A counter that begins with its first event shows no increase.
	m.refused.WithLabelValues(string(reconciler.AwaitingConfirmation))
	for _, why := range []reconciler.Refusal{
		reconciler.Paused, reconciler.EtcdRestored, reconciler.Breaker, reconciler.Changed, reconciler.LeaseBusy, reconciler.NoLease, reconciler.WriteFailed,
	} {
		m.refused.WithLabelValues(string(why))
		m.unrepaired.WithLabelValues(string(why))
	}
	for _, proof := range []string{proven, unconfirmed} {
		m.releaseTime.WithLabelValues(proof)
	}
	for _, outcome := range []string{outcomeSettled, outcomeTimedOut} {
		m.fences.WithLabelValues(outcome)
	}
	return m
}

// gauges are those that a pass sets.
type gauges []prometheus.Metric

func (g *gauges) set(d *prometheus.Desc, value float64, labels ...string) {
	*g = append(*g, prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...))
}

func gauge(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("ip_reconcile_"+name, help, labels, nil)
}

var (
	allocations = gauge("allocations", "Allocations, by verdict and reason.", "verdict", "reason")
	candidates  = gauge("candidates", "Allocations and reservations that are stale and not released yet: must return to 0.")
	oldest      = gauge("oldest_candidate_timestamp_seconds", "Since when the first of the candidates is stale; 0 where there is none.")
	oldestHeld  = gauge("oldest_held_timestamp_seconds",
		"Since when the first of those that are held is held for the reason. No series where none is.", "reason")
	findings = gauge("findings", "What is wrong beside the verdicts, by kind.", "kind")
	nodes    = gauge("nodes",
		"Nodes that should have an agent, by the state of their SandboxReport; NotReady are those without a fresh one that are not Ready.", "state")
	awaited = gauge("restore_awaited_nodes",
		"Nodes that have not written their SandboxReport since etcd was restored: nothing is released until they have.")
	observed = gauge("last_observation_timestamp_seconds", "When the cluster was last observed. The other gauges are of that time.")
	breaker  = gauge("breaker",
		`1 while the breaker refuses unconfirmed releases (what="release") or repairs for one node (what="repair").`, "what")
	paused        = gauge("paused", "1 where an operator has paused everything.")
	poolAddresses = gauge("pool_addresses",
		"Addresses of each pool, by state: usable are those that whereabouts would assign were none taken, free those of them that are not, "+
			"used the entries. Without usable and free where it is not known what is assigned. alerts is off where the pool may be nearly full.",
		"pool", "state", "alerts")
	poolWaiting = gauge("pool_waiting_pods", "Pods that cannot start because the pool is full. A pool for which none waits has no series.", "pool")
)

// Describe describes nothing: what is collected has its descriptions.
func (m *Metrics) Describe(chan<- *prometheus.Desc) {}

// Collect sends the gauges of the last pass.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	m.mu.Lock()
	ofPass := m.ofPass
	m.mu.Unlock()
	for _, g := range ofPass {
		out <- g
	}
}

// update takes in what a pass has observed and done, and since when the first item is held for each reason.
func (m *Metrics) update(out *reconciler.Result, held map[judge.Reason]time.Time) {
	m.countWrites(out)
	var g gauges
	g.setItems(out)
	g.set(oldest, seconds(out.Oldest))
	for reason, since := range held {
		g.set(oldestHeld, seconds(since), reason.String())
	}
	found := map[judge.Kind]int{}
	for _, f := range out.Findings {
		found[f.Kind]++
	}
	for _, kind := range judge.Kinds() {
		g.set(findings, float64(found[kind]), string(kind))
	}
	states := map[judge.NodeState]int{}
	for name, state := range out.Nodes {
		if n := out.Observation.Nodes[name]; state == judge.NodeNoFreshReport && n != nil && !n.Ready {
			state = nodeNotReady
		}
		states[state]++
	}
	for _, state := range []judge.NodeState{judge.NodeFresh, judge.NodeNoFreshReport, judge.NodeLost, nodeNotReady} {
		g.set(nodes, float64(states[state]), string(state))
	}
	waitsFor := 0
	if out.Restore != nil {
		waitsFor = len(out.Restore.Awaiting)
	}
	g.set(awaited, float64(waitsFor))
	g.set(observed, seconds(time.Now()))
	isWithheld := func(x reconciler.Unrepaired) bool { return x.Why == reconciler.Breaker }
	g.set(breaker, oneIf(hasRefused(out, reconciler.Breaker)), "release")
	g.set(breaker, oneIf(slices.ContainsFunc(out.Unrepaired, isWithheld)), "repair")
	g.set(paused, oneIf(out.Observation.Paused))
	for _, p := range usage.Of(out.Judgement).All {
		g.setPool(p, m.WithoutPools)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ofPass = g
}

// setItems counts all allocations and candidates but those that were released.
func (g *gauges) setItems(out *reconciler.Result) {
	released := map[judge.ID]bool{}
	for _, it := range out.Released {
		released[it.ID()] = true
	}
	type verdict struct {
		verdict judge.Verdict
		reason  judge.Reason
	}
	counts, stale := map[verdict]int{}, 0
	for _, it := range out.Allocations {
		if it.Verdict == judge.Stale {
			if released[it.ID()] {
				continue
			}
			stale++
		}
		counts[verdict{it.Verdict, it.Reason}]++
	}
	for _, it := range out.Reservations {
		if it.Verdict == judge.Stale && len(it.Related()) == 0 && !released[it.ID()] {
			stale++
		}
	}
	for v, n := range counts {
		g.set(allocations, float64(n), v.verdict.String(), v.reason.String())
	}
	g.set(candidates, float64(stale))
}

func (g *gauges) setPool(p *usage.Pool, withoutAddresses bool) {
	if n := len(p.Waiting); n > 0 {
		g.set(poolWaiting, float64(n), p.Ref())
	}
	if withoutAddresses {
		return
	}
	alerts := "on"
	if p.NoUsageAlerts || slices.ContainsFunc(p.Definitions, func(d *usage.Definition) bool { return d.Node != "" }) { // a slice of a node fills up
		alerts = "off"
	}
	g.set(poolAddresses, float64(p.Used), p.Ref(), "used", alerts)
	if p.Unknown == "" {
		g.set(poolAddresses, float(p.Usable), p.Ref(), "usable", alerts)
		g.set(poolAddresses, float(p.Free), p.Ref(), "free", alerts)
	}
}

// seconds is a time as a metric; 0 for none.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.Unix())
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func float(n *big.Int) float64 {
	f, _ := new(big.Float).SetInt(n).Float64()
	return f
}

// countWrites counts what was written.
func (m *Metrics) countWrites(out *reconciler.Result) {
	for _, it := range out.Released {
		m.released.WithLabelValues(it.Reason.String()).Inc()
	}
	for _, d := range out.Delays {
		proof := unconfirmed
		if d.Proven {
			proof = proven
		}
		m.releaseTime.WithLabelValues(proof).Observe(d.After.Seconds())
	}
	for _, f := range out.Repaired {
		m.repaired.WithLabelValues(string(f.Kind)).Inc()
	}
}

// WriteDenied counts a write that RBAC, a policy or a schema forbids.
func (m *Metrics) WriteDenied() { m.denied.Inc() }

// fenceLowered counts a fence that this replica has ended.
func (m *Metrics) fenceLowered(outcome string, stood time.Duration) {
	m.fence.Set(0)
	if outcome == outcomeEndedByPeer {
		return
	}
	m.fences.WithLabelValues(outcome).Inc()
	m.fenceDuration.Observe(stood.Seconds())
}

// fullPassEnded takes in the schedule in force, too; "" for none.
func (m *Metrics) fullPassEnded(took time.Duration, err error, expression string) {
	m.duration.Observe(took.Seconds())
	if err != nil {
		m.passes.WithLabelValues("failed").Inc()
		return
	}
	m.passes.WithLabelValues("done").Inc()
	m.lastSuccess.SetToCurrentTime()
	m.setNextPass(expression)
}

// setNextPass sets when the next pass is due by the schedule.
func (m *Metrics) setNextPass(expression string) {
	if next, err := schedule.Next(expression, time.Now()); err == nil {
		m.nextPass.Set(seconds(next))
	}
}

// scheduleChanged takes in the schedule that is in force.
func (m *Metrics) scheduleChanged(status schedule.Status) {
	m.setNextPass(status.Expression)
	m.scheduleError.Set(oneIf(status.Err != nil))
}
