package serve

import (
	"math/big"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/schedule"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// Metrics are what the long-running form counts. The gauges of the last pass are not there
// before the first, nor in a process that does not lead.
type Metrics struct {
	released, refused, repaired, unrepaired, passes, cachePasses, fences *prometheus.CounterVec
	conflicts, rebuilds, restores, scheduleErrors, denied                prometheus.Counter
	duration, fenceDuration                                              prometheus.Histogram
	releaseTime                                                          *prometheus.HistogramVec
	lastSuccess, scheduleError, nextPass, fence                          prometheus.Gauge

	// WithoutPools leaves out the series of how full each pool is.
	WithoutPools bool

	mu         sync.Mutex
	expression string // of the schedule in force
	// Gauges of the last pass, which are set together.
	ofPass                                              []*prometheus.GaugeVec
	allocations, candidates, oldest, oldestHeld         *prometheus.GaugeVec
	findings, nodes, awaited, observed, breaker, paused *prometheus.GaugeVec
	poolAddresses, poolWaiting                          *prometheus.GaugeVec
}

// The values of the label proof.
const proven, unconfirmed = "proven", "unconfirmed"

// nodeNotReady are nodes that are neither Ready nor have a fresh report: the one follows from the other.
const nodeNotReady judge.NodeState = "NotReady"

// NewMetrics makes the metrics and registers them.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	vec := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ip_reconcile_" + name, Help: help}, []string{label})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "ip_reconcile_" + name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "ip_reconcile_" + name, Help: help})
	}
	m := &Metrics{
		released:       vec("released_total", "Allocations and reservations released, by reason.", "reason"),
		refused:        vec("refused_total", "Stale allocations and reservations that were not released, by why; each once until that changes.", "reason"),
		repaired:       vec("repaired_total", "Entries and reservations written back, by the finding's kind.", "kind"),
		unrepaired:     vec("not_repaired_total", "Findings that could not be mended, by why; each once until that changes.", "reason"),
		passes:         vec("passes_total", "Full passes, by result.", "result"),
		cachePasses:    vec("looks_total", "Passes over the watch caches between full passes, by result.", "result"),
		conflicts:      counter("patch_conflicts_total", "Writes that failed because what they were based on had changed; it was judged again."),
		rebuilds:       counter("cache_rebuilds_total", "Times the caches disagreed with the API server and were rebuilt."),
		denied:         counter("denied_writes_total", "Writes that RBAC, an admission policy or a schema forbids (403 and 422), each try."),
		restores:       counter("etcd_restores_total", "Restores of etcd that a pass or an agent noticed."),
		scheduleErrors: counter("schedule_errors_total", "Cron expressions that could not be used."),
		scheduleError:  gauge("schedule_error", "1 while the cron expression cannot be used and an earlier one, or the default, stays in force."),
		lastSuccess:    gauge("pass_last_success_timestamp_seconds", "When the last full pass succeeded."),
		nextPass:       gauge("schedule_next_timestamp_seconds", "When the next full pass is due after the last that succeeded; in the past while one is overdue."),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "ip_reconcile_pass_duration_seconds",
			Help: "How long full passes took, waiting for whereabouts' Lease included.", Buckets: prometheus.ExponentialBuckets(0.05, 2.5, 10)}),
		releaseTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "ip_reconcile_release_seconds",
			Help:    "How long allocations and reservations were proven, or without proof stale, before they were released.",
			Buckets: []float64{1, 5, 15, 60, 300, 900, 960, 1200, 3600, 14400}}, []string{"proof"}),
		fence:  gauge("fence", "1 while this replica keeps ADDs and DELs waiting, because etcd was restored or may have been."),
		fences: vec("fences_total", "Times that this replica kept ADDs and DELs waiting, by how that ended.", "outcome"),
		fenceDuration: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "ip_reconcile_fence_duration_seconds",
			Help: "For how long ADDs and DELs were kept waiting.", Buckets: []float64{0.5, 1, 2, 5, 10, 20, 30, 45, 60, 90}}),
	}
	m.makeGaugesOfPass()
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
	registry.MustRegister(m.releaseTime, m.denied, m.fence, m.fences, m.fenceDuration, m.released, m.refused, m.repaired, m.unrepaired, m.passes, m.cachePasses, m.conflicts, m.rebuilds, m.restores, m.scheduleErrors,
		m.scheduleError, m.lastSuccess, m.nextPass, m.duration, m)
	return m
}

// makeGaugesOfPass makes the gauges that each pass sets.
func (m *Metrics) makeGaugesOfPass() {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "ip_reconcile_" + name, Help: help}, labels)
		m.ofPass = append(m.ofPass, g)
		return g
	}
	m.allocations = gauge("allocations", "Allocations, by verdict and reason.", "verdict", "reason")
	m.candidates = gauge("candidates", "Allocations and reservations that are stale and not released yet: must return to 0.")
	m.oldest = gauge("oldest_candidate_timestamp_seconds", "Since when the first of the candidates is stale; 0 where there is none.")
	m.oldestHeld = gauge("oldest_held_timestamp_seconds",
		"Since when the first of those that are held is held for the reason. No series where none is.", "reason")
	m.findings = gauge("findings", "What is wrong beside the verdicts, by kind.", "kind")
	m.nodes = gauge("nodes",
		"Nodes that should have an agent, by the state of their SandboxReport; NotReady are those without a fresh one that are not Ready.", "state")
	m.awaited = gauge("restore_awaited_nodes", "Nodes that have not written their SandboxReport since etcd was restored: nothing is released until they have.")
	m.observed = gauge("last_observation_timestamp_seconds", "When the cluster was last observed. The other gauges are of that time.")
	m.breaker = gauge("breaker", `1 while the breaker refuses unconfirmed releases (what="release") or repairs for one node (what="repair").`, "what")
	m.paused = gauge("paused", "1 where an operator has paused everything.")
	m.poolAddresses = gauge("pool_addresses",
		"Addresses of each pool, by state: usable are those that whereabouts would assign were none taken, free those of them that are not, used the entries. Without usable and free where it is not known what is assigned. alerts is off where the pool may be nearly full.",
		"pool", "state", "alerts")
	m.poolWaiting = gauge("pool_waiting_pods", "Pods that cannot start because the pool is full. A pool for which none waits has no series.", "pool")
}

// Describe is a prometheus.Collector's.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	for _, g := range m.ofPass {
		g.Describe(out)
	}
}

// Collect sends the gauges of the last pass.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, g := range m.ofPass {
		g.Collect(out)
	}
}

// update takes in what a pass has observed and done, and since when the first item is held for each reason.
func (m *Metrics) update(out *reconciler.Result, oldestHeld map[judge.Reason]time.Time) {
	m.countWrites(out)
	pools := usage.Of(out.Judgement)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, g := range m.ofPass {
		g.Reset()
	}
	m.setItems(out)
	m.oldest.WithLabelValues().Set(seconds(out.Oldest))
	for reason, since := range oldestHeld {
		m.oldestHeld.WithLabelValues(reason.String()).Set(seconds(since))
	}
	for _, kind := range judge.Kinds() {
		m.findings.WithLabelValues(string(kind)).Set(0)
	}
	for _, f := range out.Findings {
		m.findings.WithLabelValues(string(f.Kind)).Inc()
	}
	for _, state := range []judge.NodeState{judge.NodeFresh, judge.NodeNoFreshReport, judge.NodeLost, nodeNotReady} {
		m.nodes.WithLabelValues(string(state)).Set(0)
	}
	for name, state := range out.Nodes {
		if n := out.Observation.Nodes[name]; state == judge.NodeNoFreshReport && n != nil && !n.Ready {
			state = nodeNotReady
		}
		m.nodes.WithLabelValues(string(state)).Inc()
	}
	m.awaited.WithLabelValues().Set(0)
	if out.Restore != nil {
		m.awaited.WithLabelValues().Set(float64(len(out.Restore.Awaiting)))
	}
	m.observed.WithLabelValues().SetToCurrentTime()
	refusesRelease := slices.ContainsFunc(out.Refused, func(x reconciler.Refused) bool { return x.Why == reconciler.Breaker })
	refusesRepair := slices.ContainsFunc(out.Unrepaired, func(x reconciler.Unrepaired) bool { return x.Why == reconciler.Breaker })
	m.breaker.WithLabelValues("release").Set(oneIf(refusesRelease))
	m.breaker.WithLabelValues("repair").Set(oneIf(refusesRepair))
	m.paused.WithLabelValues().Set(oneIf(out.Observation.Paused))
	for _, p := range pools.All {
		m.setPool(p)
	}
}

// setItems counts all allocations and candidates but those that were released.
func (m *Metrics) setItems(out *reconciler.Result) {
	released := map[judge.ID]bool{}
	for _, it := range out.Released {
		released[it.ID()] = true
	}
	candidates := 0
	for _, it := range out.Allocations {
		if it.Verdict == judge.Stale {
			if released[it.ID()] {
				continue
			}
			candidates++
		}
		m.allocations.WithLabelValues(it.Verdict.String(), it.Reason.String()).Inc()
	}
	for _, it := range out.Reservations {
		if it.Verdict == judge.Stale && len(it.Related()) == 0 && !released[it.ID()] {
			candidates++
		}
	}
	m.candidates.WithLabelValues().Set(float64(candidates))
}

func (m *Metrics) setPool(p *usage.Pool) {
	if n := len(p.Waiting); n > 0 {
		m.poolWaiting.WithLabelValues(p.Ref()).Set(float64(n))
	}
	if m.WithoutPools {
		return
	}
	alerts := "on"
	if p.NoUsageAlerts || slices.ContainsFunc(p.Definitions, func(d *usage.Definition) bool { return d.Node != "" }) { // a slice of a node fills up
		alerts = "off"
	}
	m.poolAddresses.WithLabelValues(p.Ref(), "used", alerts).Set(float64(p.Used))
	if p.Unknown == "" {
		m.poolAddresses.WithLabelValues(p.Ref(), "usable", alerts).Set(float(p.Usable))
		m.poolAddresses.WithLabelValues(p.Ref(), "free", alerts).Set(float(p.Free))
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
	m.conflicts.Add(float64(out.Conflicts))
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

func (m *Metrics) fullPassEnded(took time.Duration, err error) {
	m.duration.Observe(took.Seconds())
	if err != nil {
		m.passes.WithLabelValues("failed").Inc()
		return
	}
	m.passes.WithLabelValues("done").Inc()
	m.lastSuccess.SetToCurrentTime()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.setNextPass()
}

// setNextPass sets when the next pass is due by the schedule.
func (m *Metrics) setNextPass() {
	if next, err := schedule.Next(m.expression, time.Now()); err == nil {
		m.nextPass.Set(float64(next.Unix()))
	}
}

// Schedule is the expression in force; "" before the first.
func (m *Metrics) Schedule() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.expression
}

// scheduleChanged takes in the schedule that is in force.
func (m *Metrics) scheduleChanged(status schedule.Status) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expression = status.Expression
	m.setNextPass()
	m.scheduleError.Set(0)
	if status.Err != nil {
		m.scheduleErrors.Inc()
		m.scheduleError.Set(1)
	}
}
