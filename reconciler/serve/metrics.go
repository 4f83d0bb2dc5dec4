package serve

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
	"github.com/ip-reconcile/ip-reconcile/reconciler/schedule"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// Metrics are the metrics of serve. Only a process that leads has the gauges of its last pass.
type Metrics struct {
	released, refused, repaired, unrepaired, passes, cachePasses, fences *prometheus.CounterVec
	rebuilds, restores, denied, unaudited                                prometheus.Counter
	passDuration, fenceDuration, leaseHold                               prometheus.Histogram
	releaseDelay                                                         *prometheus.HistogramVec
	lastSuccess, scheduleError, nextPass, fence                          prometheus.Gauge

	// WithoutPools leaves out pool_addresses.
	WithoutPools bool

	attempts map[judge.ID]int // failed passes of each item that is still stale
	lastPass atomic.Pointer[gauges]
}

// proven and unconfirmed are the values of the label proof.
const proven, unconfirmed = "proven", "unconfirmed"

// nodeNotReady is the state of nodes without a fresh report that are not Ready.
const nodeNotReady facts.NodeState = "NotReady"

// NewMetrics makes the metrics and registers them.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	const prefix = "ip_reconcile_"
	auto := promauto.With(registry)
	vec := func(name, help, label string) *prometheus.CounterVec {
		return auto.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, []string{label})
	}
	counter := func(name, help string) prometheus.Counter {
		return auto.NewCounter(prometheus.CounterOpts{Name: prefix + name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return auto.NewGauge(prometheus.GaugeOpts{Name: prefix + name, Help: help})
	}
	m := &Metrics{
		released:      vec("released_total", "Allocations and reservations released, by reason.", "reason"),
		refused:       vec("refused_total", "Refused releases, by refusal. Each item counts once per refusal.", "reason"),
		repaired:      vec("repaired_total", "Findings repaired, by kind.", "kind"),
		unrepaired:    vec("not_repaired_total", "Repairs refused or failed, by refusal. Each counts once.", "reason"),
		passes:        vec("passes_total", "Full passes, by result.", "result"),
		cachePasses:   vec("cache_passes_total", "Passes over the watch caches, by result.", "result"),
		rebuilds:      counter("cache_rebuilds_total", "Rebuilds of watch caches that differed from the API server."),
		denied:        counter("denied_writes_total", "Writes denied by RBAC, admission or a schema (403 and 422)."),
		unaudited:     counter("audit_failures_total", "Records that the history lacks, since writing them failed."),
		restores:      counter("etcd_restores_total", "Restores of etcd that a pass or an agent detected."),
		scheduleError: gauge("schedule_error", "1 while the configured cron expression is invalid."),
		lastSuccess:   gauge("pass_last_success_timestamp_seconds", "Time of the last successful full pass."),
		nextPass: gauge("schedule_next_timestamp_seconds",
			"Time when the schedule asks for the next full pass. It is in the past while a pass is overdue."),
		passDuration: auto.NewHistogram(prometheus.HistogramOpts{Name: prefix + "pass_duration_seconds",
			Help:    "Duration of full passes, including waits for whereabouts' Lease.",
			Buckets: prometheus.ExponentialBuckets(0.05, 2.5, 10)}),
		releaseDelay: auto.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + "release_delay_seconds",
			Help:    "Time from the first Stale verdict (unconfirmed) or the proof (proven) to the release.",
			Buckets: []float64{1, 5, 15, 60, 300, 900, 960, 1200, 3600, 14400}}, []string{"proof"}),
		leaseHold: auto.NewHistogram(prometheus.HistogramOpts{Name: prefix + "lease_hold_seconds",
			Help:    "How long ADDs and DELs held whereabouts' Lease, as observed while waiting for it.",
			Buckets: []float64{0.25, 0.5, 1, 1.5, 2, 3, 5, 10, 30}}),
		fence:  gauge("fence", "1 while this replica makes ADDs and DELs wait after a restore of etcd."),
		fences: vec("fences_total", "Fences that this replica has lowered, by outcome.", "outcome"),
		fenceDuration: auto.NewHistogram(prometheus.HistogramOpts{Name: prefix + "fence_duration_seconds",
			Help:    "How long ADDs and DELs waited for a fence.",
			Buckets: []float64{0.5, 1, 2, 5, 10, 20, 30, 45, 60, 90}}),
	}
	registry.MustRegister(prometheus.CollectorFunc(m.collect))
	// increase() ignores the first event of a counter that did not exist before it.
	m.refused.WithLabelValues(string(plan.AwaitingConfirmation))
	for _, why := range []plan.Refusal{plan.Paused, plan.EtcdRestored, plan.Breaker,
		plan.Changed, plan.LeaseBusy, plan.NoLease, plan.WriteFailed} {
		m.refused.WithLabelValues(string(why))
		m.unrepaired.WithLabelValues(string(why))
	}
	for _, kind := range []findings.Kind{findings.Unrecorded, findings.Misrecorded, findings.MissingReservation} {
		m.repaired.WithLabelValues(string(kind))
	}
	for _, reason := range []judge.Reason{judge.PodGone, judge.PodReplaced, judge.PodFinished, judge.SandboxReplaced,
		judge.SandboxStopped, judge.NodeDeadReason, judge.NodeMissingReason, judge.ClaimGone} {
		m.released.WithLabelValues(reason.String())
	}
	for _, proof := range []string{proven, unconfirmed} {
		m.releaseDelay.WithLabelValues(proof)
	}
	for _, outcome := range []restore.Outcome{restore.Settled, restore.TimedOut} {
		m.fences.WithLabelValues(string(outcome))
	}
	return m
}

// gauges are the gauges of one pass.
type gauges []prometheus.Metric

func (g *gauges) set(d *prometheus.Desc, value float64, labels ...string) {
	*g = append(*g, prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...))
}

func gauge(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("ip_reconcile_"+name, help, labels, nil)
}

var (
	allocations = gauge("allocations", "Allocations, by verdict and reason.", "verdict", "reason")
	candidates  = gauge("candidates", "Stale allocations and reservations that are not released yet.")
	oldest      = gauge("oldest_candidate_timestamp_seconds", "Since when the oldest candidate is Stale, 0 without one.")
	oldestHeld  = gauge("oldest_held_timestamp_seconds", "Since when the oldest Held item is held, by reason.", "reason")
	defects     = gauge("findings", "Findings, by kind.", "kind")
	perPool     = gauge("pool_findings", "Findings, by kind and pool; the pool other stands for many.", "kind", "pool")
	diverged    = gauge("diverged_reservations", "Reservations that are Missing, or Alone without an allocation.", "state")
	retried     = gauge("most_retried_attempts", "How many passes could not release the most retried item.")
	nodes       = gauge("nodes", "Nodes that should have an agent, by the state of their SandboxReport.", "state")
	pending     = gauge("restore_pending_nodes", "Nodes that have not reported since a restore of etcd.")
	observed    = gauge("last_observation_timestamp_seconds", "Time of the last pass that observed the cluster.")
	breaker     = gauge("breaker", "1 while the breaker refuses releases or repairs, by operation.", "operation")
	paused      = gauge("paused", "1 while an operator pauses the reconciler.")
	sourceKnown = gauge("source_known", "1 if all objects of a source were read, 0 if it is unknown.", "source")

	poolAddresses = gauge("pool_addresses", "Addresses of each pool: usable, used, free.", "pool", "state", "alerts")
	poolWaiting   = gauge("pool_waiting_pods", "Pods that cannot start because the pool is full.", "pool")
)

// collect sends the gauges of the last pass.
func (m *Metrics) collect(out chan<- prometheus.Metric) {
	if all := m.lastPass.Load(); all != nil {
		for _, g := range *all {
			out <- g
		}
	}
}

// update counts the writes of a pass and sets its gauges. held is since when the oldest item is held, by reason.
func (m *Metrics) update(out *reconciler.Result, held map[judge.Reason]time.Time, pools *usage.Pools) {
	m.countWrites(out)
	var g gauges
	stale := g.setItems(out)
	g.set(retried, float64(m.mostRetried(stale, out.Refused)))
	g.set(oldest, seconds(out.Oldest))
	for reason, since := range held {
		g.set(oldestHeld, seconds(since), reason.String())
	}
	for _, s := range out.Observation.Sources() {
		g.set(sourceKnown, oneIf(s.Unknown == ""), string(s.Name))
	}
	g.setFindings(out)
	states := map[facts.NodeState]int{}
	for name, state := range out.Nodes {
		if n := out.Observation.Nodes.Or(nil)[name]; state == facts.NodeNoFreshReport && n != nil && !n.Ready {
			state = nodeNotReady
		}
		states[state]++
	}
	all := []facts.NodeState{facts.NodeFresh, facts.NodeNoFreshReport, facts.NodeDeadOrMissing, nodeNotReady}
	for _, state := range all {
		isKnown := out.Observation.Nodes.IsKnown() && out.Observation.Reports.IsKnown()
		g.setCount(nodes, states[state], isKnown, string(state))
	}
	if out.Restore != nil {
		g.set(pending, float64(len(out.Restore.Awaiting)))
	} else {
		g.set(pending, 0)
	}
	g.set(observed, seconds(time.Now()))
	isWithheld := func(x plan.Unrepaired) bool { return x.Why == plan.Breaker }
	g.set(breaker, oneIf(hasRefused(out, plan.Breaker)), "release")
	g.set(breaker, oneIf(slices.ContainsFunc(out.Unrepaired, isWithheld)), "repair")
	g.set(paused, oneIf(out.Observation.Paused))
	for _, p := range pools.All {
		g.setPool(p, m.WithoutPools)
	}
	m.lastPass.Store(&g)
}

// setItems counts allocations and candidates, without those that the pass released, and returns the candidates.
func (g *gauges) setItems(out *reconciler.Result) (stale []*judge.Item) {
	released := map[judge.ID]bool{}
	for _, it := range out.Released {
		released[it.ID()] = true
	}
	type verdict struct {
		verdict judge.Verdict
		reason  judge.Reason
	}
	counts := map[verdict]int{}
	for _, it := range out.Allocations {
		if released[it.ID()] {
			continue
		}
		counts[verdict{it.Verdict, it.Reason}]++
		if it.Verdict == judge.Stale {
			stale = append(stale, it)
		}
	}
	for _, it := range out.Reservations {
		if it.Verdict == judge.Stale && len(it.Related()) == 0 && !released[it.ID()] {
			stale = append(stale, it)
		}
	}
	for v, n := range counts {
		g.set(allocations, float64(n), v.verdict.String(), v.reason.String())
	}
	g.set(candidates, float64(len(stale)))
	return stale
}

// maxPoolFindings is the maximum number of series of pool_findings, but for those of the pool other.
const maxPoolFindings = 100

// setCount sets a count. One of nothing is absent if there may be more than was found.
func (g *gauges) setCount(d *prometheus.Desc, count int, isKnown bool, labels ...string) {
	if count > 0 || isKnown {
		g.set(d, float64(count), labels...)
	}
}

// setFindings counts findings by kind and by pool, and reservations that differ from the pools. A kind that rests on an
// unknown source, and of which nothing was found, is absent.
func (g *gauges) setFindings(out *reconciler.Result) {
	type place struct{ kind, pool string }
	found, places := map[findings.Kind]int{}, map[place]int{}
	for _, f := range out.Findings {
		at := place{string(f.Kind), f.Pool}
		if places[at] == 0 && len(places) >= maxPoolFindings {
			at.pool = "other"
		}
		found[f.Kind] += f.Count()
		places[at] += f.Count()
	}
	unknown := findings.UnknownKinds(out.Observation)
	isKnown := func(kind findings.Kind) bool { return !slices.Contains(unknown, kind) }
	for _, kind := range findings.Kinds() {
		g.setCount(defects, found[kind], isKnown(kind), string(kind))
	}
	for at, n := range places {
		g.set(perPool, float64(n), at.kind, at.pool)
	}
	alone := 0
	for _, it := range out.Reservations {
		if len(it.Related()) == 0 && it.Reason != judge.Recent {
			alone++
		}
	}
	g.setCount(diverged, found[findings.MissingReservation], isKnown(findings.MissingReservation), "Missing")
	g.setCount(diverged, alone, out.Observation.Reservations.IsKnown(), "Alone")
}

// mostRetried counts the passes that could not release an item, while it is stale, and returns the maximum.
func (m *Metrics) mostRetried(stale []*judge.Item, refused []plan.Refused) (most int) {
	failed, attempts := map[judge.ID]int{}, map[judge.ID]int{}
	for _, x := range refused {
		if x.Why.IsFailure() {
			failed[x.ID()] = 1
		}
	}
	for _, it := range stale {
		attempts[it.ID()] = m.attempts[it.ID()] + failed[it.ID()]
		most = max(most, attempts[it.ID()])
	}
	m.attempts = attempts
	return most
}

func (g *gauges) setPool(p *usage.Pool, withoutAddresses bool) {
	if n := len(p.Waiting); n > 0 {
		g.set(poolWaiting, float64(n), p.Ref())
	}
	if withoutAddresses {
		return
	}
	alerts := "on"
	isSlice := func(d *usage.Definition) bool { return d.Node != "" } // the slice of one node may fill up
	if p.NoUsageAlerts || slices.ContainsFunc(p.Definitions, isSlice) {
		alerts = "off"
	}
	g.set(poolAddresses, float64(p.Used), p.Ref(), "used", alerts)
	if p.Unknown == "" {
		usable, _ := p.Usable.Float64()
		free, _ := p.Free.Float64()
		g.set(poolAddresses, usable, p.Ref(), "usable", alerts)
		g.set(poolAddresses, free, p.Ref(), "free", alerts)
	}
}

// seconds returns a time as the value of a metric, 0 for the zero time.
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

func (m *Metrics) countWrites(out *reconciler.Result) {
	for _, it := range out.Released {
		m.released.WithLabelValues(it.Reason.String()).Inc()
	}
	for _, d := range out.Delays {
		proof := unconfirmed
		if d.Proven {
			proof = proven
		}
		m.releaseDelay.WithLabelValues(proof).Observe(d.After.Seconds())
	}
	for _, f := range out.Repaired {
		m.repaired.WithLabelValues(string(f.Kind)).Inc()
	}
}

// WriteDenied counts a write that RBAC, a policy or a schema has denied.
func (m *Metrics) WriteDenied() { m.denied.Inc() }

// LeaseHeld counts a hold of whereabouts' Lease by another process.
func (m *Metrics) LeaseHeld(d time.Duration) { m.leaseHold.Observe(d.Seconds()) }

// AuditFailed counts records of the history that could not be written.
func (m *Metrics) AuditFailed(records int) { m.unaudited.Add(float64(records)) }

// fenceLowered counts a fence, unless another replica has lowered it.
func (m *Metrics) fenceLowered(outcome restore.Outcome, duration time.Duration) {
	m.fence.Set(0)
	if outcome == restore.ByPeer {
		return
	}
	m.fences.WithLabelValues(string(outcome)).Inc()
	m.fenceDuration.Observe(duration.Seconds())
}

// fullPassEnded counts a full pass. expression is the schedule in force.
func (m *Metrics) fullPassEnded(duration time.Duration, err error, expression string) {
	m.passDuration.Observe(duration.Seconds())
	if err != nil {
		m.passes.WithLabelValues("failed").Inc()
		return
	}
	m.passes.WithLabelValues("done").Inc()
	m.lastSuccess.SetToCurrentTime()
	m.setNextPass(expression)
}

func (m *Metrics) setNextPass(expression string) {
	if next, err := schedule.Next(expression, time.Now()); err == nil {
		m.nextPass.Set(seconds(next))
	}
}

func (m *Metrics) scheduleChanged(status schedule.Status) {
	m.setNextPass(status.Expression)
	m.scheduleError.Set(oneIf(status.Err != nil))
}
