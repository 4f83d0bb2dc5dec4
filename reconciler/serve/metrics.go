package serve

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/schedule"
)

// Metrics are what the long-running form counts. Gauges are those of the last
// pass; there are none before the first, nor from a process that does not lead.
type Metrics struct {
	released, refused, repaired, unrepaired, passes, cachePasses, fences *prometheus.CounterVec
	conflicts, rebuilds, restores, scheduleErrors, denied                prometheus.Counter
	duration, fenceDuration                                              prometheus.Histogram
	releaseTime                                                          *prometheus.HistogramVec
	lastSuccess, scheduleError, nextPass, fence                          prometheus.Gauge

	// WithoutPools leaves out the series of how full each pool is.
	WithoutPools bool

	mu         sync.Mutex
	last       *gauges
	expression string // of the schedule in force
}

// gauges are counts of one judgement.
type gauges struct {
	observed    time.Time // when the judgement was made
	allocations map[verdictReason]int
	candidates  int
	oldest      time.Time                  // candidate
	oldestHeld  map[judge.Reason]time.Time // since when the first item is held
	findings    map[judge.Kind]int
	nodes       map[judge.NodeState]int
	paused      bool
	breaker     map[string]int // 1 where it refuses, by what
	awaited     int
	pools       []poolGauges
}

type verdictReason struct {
	verdict judge.Verdict
	reason  judge.Reason
}

// The values of the label proof.
const proven, unconfirmed = "proven", "unconfirmed"

// nodeNotReady are nodes that are neither Ready nor have a fresh report: the one follows from the other.
const nodeNotReady judge.NodeState = "NotReady"

var (
	allocationsDesc = prometheus.NewDesc("ip_reconcile_allocations", "Allocations, by verdict and reason.", []string{"verdict", "reason"}, nil)
	candidatesDesc  = prometheus.NewDesc("ip_reconcile_candidates", "Allocations and reservations that are stale and not released yet: must return to 0.", nil, nil)
	oldestDesc      = prometheus.NewDesc("ip_reconcile_oldest_candidate_timestamp_seconds", "Since when the first of the candidates is stale; 0 where there is none.", nil, nil)
	oldestHeldDesc  = prometheus.NewDesc("ip_reconcile_oldest_held_timestamp_seconds",
		"Since when the first of those that are held is held for the reason. No series where none is.", []string{"reason"}, nil)
	findingsDesc = prometheus.NewDesc("ip_reconcile_findings", "What is wrong beside the verdicts, by kind.", []string{"kind"}, nil)
	nodesDesc    = prometheus.NewDesc("ip_reconcile_nodes",
		"Nodes that should have an agent, by the state of their SandboxReport; NotReady are those without a fresh one that are not Ready.", []string{"state"}, nil)
	awaitedDesc  = prometheus.NewDesc("ip_reconcile_restore_awaited_nodes", "Nodes that have not written their SandboxReport since etcd was restored: nothing is released until they have.", nil, nil)
	observedDesc = prometheus.NewDesc("ip_reconcile_last_observation_timestamp_seconds", "When the cluster was last observed. The other gauges are of that time.", nil, nil)
	breakerDesc  = prometheus.NewDesc("ip_reconcile_breaker",
		`1 while the breaker refuses unconfirmed releases (what="release") or repairs for one node (what="repair").`, []string{"what"}, nil)
	pausedDesc = prometheus.NewDesc("ip_reconcile_paused", "1 where an operator has paused everything.", nil, nil)
)

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
	// A counter that begins with its first event shows no increase.
	for _, why := range []reconciler.Refusal{
		reconciler.Paused, reconciler.EtcdRestored, reconciler.Breaker, reconciler.AwaitingConfirmation,
		reconciler.Changed, reconciler.LeaseBusy, reconciler.NoLease, reconciler.WriteFailed,
	} {
		m.refused.WithLabelValues(string(why))
	}
	for _, proof := range []string{proven, unconfirmed} {
		m.releaseTime.WithLabelValues(proof)
	}
	for _, outcome := range []string{outcomeNoRestore, outcomeSettled, outcomeTimedOut} {
		m.fences.WithLabelValues(outcome)
	}
	for _, why := range []reconciler.Refusal{reconciler.Paused, reconciler.EtcdRestored, reconciler.Breaker, reconciler.Changed, reconciler.LeaseBusy, reconciler.NoLease, reconciler.WriteFailed} {
		m.unrepaired.WithLabelValues(string(why))
	}
	registry.MustRegister(m.releaseTime, m.denied, m.fence, m.fences, m.fenceDuration, m.released, m.refused, m.repaired, m.unrepaired, m.passes, m.cachePasses, m.conflicts, m.rebuilds, m.restores, m.scheduleErrors,
		m.scheduleError, m.lastSuccess, m.nextPass, m.duration, m)
	return m
}

// Describe is a prometheus.Collector's.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		allocationsDesc, candidatesDesc, oldestDesc, oldestHeldDesc, findingsDesc, nodesDesc, awaitedDesc, pausedDesc, observedDesc, breakerDesc, poolAddressesDesc, poolWaitingDesc,
	} {
		out <- d
	}
}

// Collect sends the gauges of the last pass.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	m.mu.Lock()
	g := m.last
	m.mu.Unlock()
	if g == nil {
		return
	}
	send := func(d *prometheus.Desc, n int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	for at, n := range g.allocations {
		send(allocationsDesc, n, at.verdict.String(), at.reason.String())
	}
	for reason, since := range g.oldestHeld {
		send(oldestHeldDesc, int(since.Unix()), reason.String())
	}
	for kind, n := range g.findings {
		send(findingsDesc, n, string(kind))
	}
	for state, n := range g.nodes {
		send(nodesDesc, n, string(state))
	}
	send(candidatesDesc, g.candidates)
	oldest := 0
	if !g.oldest.IsZero() {
		oldest = int(g.oldest.Unix())
	}
	send(oldestDesc, oldest)
	send(awaitedDesc, g.awaited)
	send(observedDesc, int(g.observed.Unix()))
	for what, refuses := range g.breaker {
		send(breakerDesc, refuses, what)
	}
	paused := 0
	if g.paused {
		paused = 1
	}
	send(pausedDesc, paused)
	collectPools(g.pools, m.WithoutPools, out)
}

// update takes in what a pass has observed and done, and since when the first item is held for each reason.
func (m *Metrics) update(out *reconciler.Result, oldestHeld map[judge.Reason]time.Time) {
	g := &gauges{
		allocations: map[verdictReason]int{}, paused: out.Observation.Paused, oldest: out.Oldest, oldestHeld: oldestHeld,
		observed: time.Now(), findings: map[judge.Kind]int{}, breaker: map[string]int{"release": 0, "repair": 0},
		nodes: map[judge.NodeState]int{judge.NodeFresh: 0, judge.NodeNoFreshReport: 0, judge.NodeLost: 0, nodeNotReady: 0},
	}
	for _, kind := range judge.Kinds() {
		g.findings[kind] = 0
	}
	released := map[judge.ID]bool{}
	for _, it := range out.Released {
		released[it.ID()] = true
	}
	g.countAllocations(out.Allocations, released)
	for _, it := range out.Reservations {
		if it.Verdict == judge.Stale && len(it.Related()) == 0 && !released[it.ID()] {
			g.candidates++
		}
	}
	for _, f := range out.Findings {
		g.findings[f.Kind]++
	}
	for name, s := range out.Nodes {
		if n := out.Observation.Nodes[name]; s == judge.NodeNoFreshReport && n != nil && !n.Ready {
			s = nodeNotReady
		}
		g.nodes[s]++
	}
	for _, x := range out.Refused {
		if x.Why == reconciler.Breaker {
			g.breaker["release"] = 1
		}
	}
	for _, x := range out.Unrepaired {
		if x.Why == reconciler.Breaker {
			g.breaker["repair"] = 1
		}
	}
	g.pools = gaugesOfPools(out)
	if out.Restore != nil {
		g.awaited = len(out.Restore.Awaiting)
	}
	m.countWrites(out)
	m.mu.Lock()
	m.last = g
	m.mu.Unlock()
}

// countAllocations counts all but those that were released.
func (g *gauges) countAllocations(allocations []*judge.Item, released map[judge.ID]bool) {
	for _, it := range allocations {
		if it.Verdict == judge.Stale {
			if released[it.ID()] {
				continue
			}
			g.candidates++
		}
		g.allocations[verdictReason{it.Verdict, it.Reason}]++
	}
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
	if next, err := schedule.Next(m.expression, time.Now()); err == nil {
		m.nextPass.Set(float64(next.Unix()))
	}
}

// scheduleChanged takes in the schedule that is in force.
func (m *Metrics) scheduleChanged(status schedule.Status) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expression = status.Expression
	m.nextPass.Set(float64(status.Next.Unix()))
	m.scheduleError.Set(0)
	if status.Err != nil {
		m.scheduleErrors.Inc()
		m.scheduleError.Set(1)
	}
}
