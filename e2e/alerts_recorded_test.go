//go:build slow

package e2e

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/agent/cri/critest"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
	"github.com/ip-reconcile/ip-reconcile/internal/monitoring"
)

// A recording has the situations of servers in a cluster with two nodes.
type recording struct {
	*stage
	v          *server
	one, two   *agent
	link       *link
	situations []situation
}

// begins scrapes a server that has nothing to report.
func (r *recording) begins(t *testing.T) scrape {
	t.Helper()
	for _, series := range []string{"ip_reconcile_pool_findings", "ip_reconcile_candidates ",
		"ip_reconcile_oldest_held_timestamp_seconds", "ip_reconcile_diverged_reservations", "ip_reconcile_paused ",
		"ip_reconcile_restore_pending_nodes ", `ip_reconcile_nodes{state="NoFreshReport"}`} {
		r.v.is(t, series, 0)
	}
	return scraped(t, r.v.metrics, leaderTarget)
}

// during records a situation: what happens, until a metric has come to a value.
func (r *recording) during(t *testing.T, x situation, series string, least float64, happens func(t *testing.T)) {
	t.Helper()
	r.play(t, x.name, func(t *testing.T) {
		x.before = r.begins(t)
		happens(t)
		eventuallyWithin(t, time.Minute, series, func() bool { return r.v.metric(series) >= least })
		x.after = scraped(t, r.v.metrics, leaderTarget)
		r.situations = append(r.situations, x)
		r.link.suffers(faults{})
		r.pauseAll(t, "false")
	})
	r.one.writeReport(t)
	r.two.writeReport(t)
}

// leaks makes an allocation that is proven to be stale.
func (r *recording) leaks(t *testing.T) *pod {
	t.Helper()
	p := r.up(t, "worker-1", "leaked", blue).leak(t)
	r.one.writeReport(t, p.gone())
	return p
}

// writesOf are the writes of a resource.
func writesOf(resource string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/"+resource)
	}
}

// addresses are situations of a server that does not repair.
func (r *recording) addresses(t *testing.T) {
	const findings, held = "ip_reconcile_pool_findings", "ip_reconcile_oldest_held_timestamp_seconds"
	r.during(t, situation{name: "two pods carry one address", alert: "IPReconcileAddressInConflict",
		lasts: 14 * time.Minute}, findings+`{kind="Conflict"`, 1, func(t *testing.T) {
		p := r.up(t, "worker-1", "first", blue)
		r.one.writeReport(t, p.listed("Ready"))
		r.forget(t, p)
		r.unreserve(t, p.ips[0])
		other := r.up(t, "worker-2", "second", blue)
		equal(t, "the second's address", other.ips, p.ips)
		r.two.writeReport(t, other.listed("Ready"))
	})
	r.during(t, situation{name: "an allocation was deleted by hand", alert: "IPReconcileAddressUnrecorded",
		lasts: 50 * time.Minute}, findings+`{kind="Unrecorded"`, 1, func(t *testing.T) {
		p := r.up(t, "worker-1", "web", blue).age(t, 10*time.Minute)
		r.one.writeReport(t, p.listed("Ready"))
		r.forget(t, p)
	})
	r.during(t, situation{name: "an allocation names another sandbox", alert: "IPReconcileAddressMisrecorded",
		lasts: 50 * time.Minute}, findings+`{kind="Misrecorded"`, 1, func(t *testing.T) {
		p := r.up(t, "worker-1", "web", blue).age(t, 10*time.Minute)
		r.one.writeReport(t, p.listed("Ready"))
		r.patch(t, harness.IPPools, "10.1.0.0-24", `{"spec":{"allocations":{"1":{"id":"`+noID+`"}}}}`)
	})
	r.during(t, situation{name: "a copied network-status holds a leak", alert: "IPReconcileAddressClaimedByOther",
		lasts: 50 * time.Minute}, held+`{reason="ClaimedByOther"`, 1, func(t *testing.T) {
		r.up(t, "worker-2", "web", blue) // keeps the pool's definition in use
		p := r.up(t, "worker-1", "leaked", blue).leak(t)
		claimant := r.bare(t, "worker-1", "claimant")
		claimant.annotate(t, statusAnnotation, fmt.Sprintf(
			`[{"name":"default/blue","interface":"net1","ips":[%q],"mac":"02:00:00:00:00:01"}]`, p.ips[0]))
		claimant.phase(t, "Running")
		r.one.writeReport(t, p.gone())
	})
	r.during(t, situation{name: "a podref cannot be read", alert: "IPReconcileAddressHeld", lasts: 2 * time.Hour},
		held+`{reason="Malformed"`, 1, func(t *testing.T) {
			r.pool(t, "10.1.0.0-24", "10.1.0.0/24", map[string]any{"1": entry("no podref", noID)})
		})
	r.during(t, situation{name: "a reservation was deleted by hand", alert: "IPReconcileReservationMissing",
		lasts: 50 * time.Minute}, findings+`{kind="MissingReservation"`, 1, func(t *testing.T) {
		check(t, r.CreateNAD(t.Context(), blue)) // which says that ranges may overlap
		p := r.up(t, "worker-1", "web", blue).age(t, 10*time.Minute)
		r.one.writeReport(t, p.listed("Ready"))
		r.unreserve(t, p.ips[0])
	})
	r.during(t, situation{name: "the networks of a running pod are unknown", alert: "IPReconcileUnreadSandbox",
		lasts: 50 * time.Minute}, findings+`{kind="UnreadSandbox"`, 1, func(t *testing.T) {
		p := r.up(t, "worker-1", "web", blue).age(t, 10*time.Minute)
		p.annotate(t, statusAnnotation, `[{"name":"default/missing","interface":"net2"}]`)
		b := p.listed("Ready")
		b.AddressesUnread = true
		r.one.writeReport(t, b)
	})
	r.during(t, situation{name: "a pool is paused", alert: "IPReconcileNotReleasing", lasts: 3 * time.Hour},
		"ip_reconcile_candidates ", 1, func(t *testing.T) {
			p := r.up(t, "worker-1", "leaked", blue)
			r.patch(t, harness.IPPools, "10.1.0.0-24", pausing("true"))
			p.leak(t)
			r.one.writeReport(t, p.gone())
		})
	r.during(t, situation{name: "everything is paused", alert: "IPReconcilePaused", lasts: 30 * time.Hour},
		"ip_reconcile_paused ", 1, func(t *testing.T) { r.pauseAll(t, "true") })
	r.during(t, situation{name: "writes of pools are forbidden", alert: "IPReconcileWritesDenied", repeats: true,
		lasts: 50 * time.Minute}, "ip_reconcile_denied_writes_total ", 2, func(t *testing.T) {
		r.link.suffers(just(http.StatusForbidden, writesOf("ippools")))
		r.leaks(t)
	})
	r.during(t, situation{name: "the history cannot be written", alert: "IPReconcileHistoryNotWritten",
		lasts: 50 * time.Minute}, "ip_reconcile_audit_failures_total ", 1, func(t *testing.T) {
		r.link.suffers(just(http.StatusForbidden, writesOf("configmaps"))) // what else fails is tried again for minutes
		r.leaks(t)
	})
	small := simple("small", "10.2.0.0/30")
	r.during(t, situation{name: "a pod waits for an address", alert: "IPReconcilePoolFull", lasts: 14 * time.Minute},
		"ip_reconcile_pool_waiting_pods", 1, func(t *testing.T) {
			check(t, r.CreateNAD(t.Context(), small))
			r.one.writeReport(t, r.up(t, "worker-1", "one", small).listed("Ready"),
				r.up(t, "worker-1", "two", small).listed("Ready"))
			r.waits(t, "waiting", small)
		})
	r.during(t, situation{name: "a pool is nearly full", alert: "IPReconcilePoolNearlyFull", lasts: 50 * time.Minute},
		`ip_reconcile_pool_addresses{alerts="on",pool="kube-system/10.2.0.0-30",state="used"}`, 2, func(t *testing.T) {
			check(t, r.CreateNAD(t.Context(), small))
			r.one.writeReport(t, r.up(t, "worker-1", "one", small).listed("Ready"),
				r.up(t, "worker-1", "two", small).listed("Ready"))
		})
}

// passes are situations of the server itself.
func (r *recording) passes(t *testing.T) {
	r.during(t, situation{name: "the API is unreachable", alert: "IPReconcileNotObserving",
		stopped: "ip_reconcile_last_", lasts: 50 * time.Minute}, `ip_reconcile_cache_passes_total{result="unverified"}`, 1,
		func(t *testing.T) {
			r.link.suffers(everything(http.StatusServiceUnavailable))
			r.link.cut(anyWatch)
		})
	r.during(t, situation{name: "etcd was restored, and all nodes have reported", alert: "IPReconcileEtcdRestored",
		lasts: 50 * time.Minute}, "ip_reconcile_etcd_restores_total ", 1, func(t *testing.T) {
		for _, a := range []*agent{r.one, r.two} {
			a.change(func() { a.restored = time.Now().UTC().Format(time.RFC3339) })
			a.writeReport(t)
		}
		r.v.counts(t, "ip_reconcile_etcd_restores_total ", 1)
		r.v.is(t, "ip_reconcile_restore_pending_nodes ", 0)
	})
	x := situation{name: "no replica runs", alert: "IPReconcileNoPasses", before: r.begins(t), lasts: 50 * time.Minute,
		isAlone: true}
	r.v.stop(t)
	x.after = scraped(t, r.v.metrics, leaderTarget)
	r.situations = append(r.situations, x)

	// Another restore within ten minutes counts as the same.
	for _, a := range []*agent{r.one, r.two} {
		a.change(func() { a.restored = "" })
		a.writeReport(t)
	}
	check(t, r.Client().CoordinationV1().Leases(metav1.NamespaceSystem).Delete(t.Context(), "ip-reconcile-restore",
		metav1.DeleteOptions{}))
}

// others are situations of servers with other flags.
func (r *recording) others(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cron")
	check(t, os.WriteFile(file, []byte("every now and then"), 0o600))
	r.v = r.serve(t, r.Kubeconfig(), "--cron=", "--cron-file", file)
	x := situation{name: "the cron expression is invalid", alert: "IPReconcileScheduleUnusable", lasts: 50 * time.Minute}
	x.after = r.begins(t)
	x.before = x.after.with(map[string]float64{"ip_reconcile_schedule_error": 0})
	r.situations = append(r.situations, x)
	r.v.stop(t)

	r.v = r.serve(t, r.Kubeconfig(), "--confirm-after", "1s")
	r.during(t, situation{name: "many pods vanish at once", alert: "IPReconcileMassReleaseRefused",
		lasts: 50 * time.Minute}, `ip_reconcile_breaker{operation="release"}`, 1, func(t *testing.T) {
		gone := map[string]any{}
		for i := range 30 {
			gone[fmt.Sprint(i+1)] = entry(fmt.Sprint("default/gone-", i), fmt.Sprintf("%064x", i+1))
		}
		r.pool(t, "10.1.0.0-24", "10.1.0.0/24", gone)
		eventually(t, "the breaker to trip", func() bool {
			check(t, r.one.renew())
			check(t, r.two.renew())
			return r.v.metric(`ip_reconcile_breaker{operation="release"}`) == 1
		})
	})
	r.v.stop(t)

	keep := r.up(t, "worker-1", "keep", blue) // a fence is for the Leases of pools
	r.one.writeReport(t, keep.listed("Ready"))
	r.v = r.serve(t, r.Kubeconfig(), "--repair", "--fence-timeout", "5s")
	r.during(t, situation{name: "a node does not report after a restore", alert: "IPReconcileRestorePending",
		also: []string{"IPReconcileEtcdRestored", "IPReconcileFenceTimedOut"}, lasts: 50 * time.Minute},
		"ip_reconcile_restore_pending_nodes ", 1, func(t *testing.T) {
			r.two.change(func() { r.two.silent = true })
			time.Sleep(time.Second) // a report of the same second counts as one since the restore
			r.one.change(func() { r.one.restored = time.Now().UTC().Format(time.RFC3339) })
			r.one.writeReport(t, keep.listed("Ready"))
			r.v.counts(t, `ip_reconcile_fences_total{outcome="TimedOut"}`, 1)
		})
	last := r.situations[len(r.situations)-1]
	last.name, last.alert, last.lasts = "a fence timed out a moment ago", "IPReconcileFenceTimedOut", 10*time.Minute
	last.also = []string{"IPReconcileEtcdRestored"}
	r.situations = append(r.situations, last)
	r.two.change(func() { r.two.silent = false })
	r.two.writeReport(t)
	r.begins(t)
	r.v.stop(t)
}

// nodes are situations of agents.
func (r *recording) nodes(t *testing.T) {
	r.v = r.serve(t, r.Kubeconfig())
	x := situation{name: "a Ready node has no agent", alert: "IPReconcileNoFreshReport", before: r.begins(t),
		lasts: 2 * time.Hour}
	r.two.change(func() { r.two.silent = true })
	r.two.remove(t)
	r.v.counts(t, `ip_reconcile_nodes{state="NoFreshReport"}`, 1)
	x.after = scraped(t, r.v.metrics, leaderTarget)
	r.situations = append(r.situations, x)

	n, address, guarded := newFakeNode(t, "worker-2", critest.Containerd), freeAddress(t), freeAddress(t)
	n.agent(t, r.Kubeconfig(), "--metrics-bind-address", address)
	agent := &server{metrics: address}
	agent.counts(t, `ip_reconcile_agent_inspections_total{result="good"}`, 1)
	r.v.is(t, `ip_reconcile_nodes{state="NoFreshReport"}`, 0)
	both := func(address string) scrape {
		all := scraped(t, r.v.metrics, leaderTarget)
		maps.Copy(all.values, scraped(t, address, `instance="worker-2:9746",node="worker-2"`).values)
		return all
	}
	x = situation{name: "the container runtime does not answer", alert: "IPReconcileAgentCannotInspect",
		before: both(address), stopped: "ip_reconcile_agent_", lasts: 25 * time.Minute}
	n.Fail("ListPodSandbox", errors.New("the runtime is stuck"))
	agent.counts(t, `ip_reconcile_agent_inspections_total{result="failed"}`, 1)
	x.after = both(address)
	r.situations = append(r.situations, x)

	n.Fail("ListPodSandbox", nil)
	x = situation{name: "the agents' admission policy is missing", alert: "IPReconcileAgentUnguarded", before: x.before,
		lasts: 14 * time.Minute}
	own := n.sandbox(t, 1, "10.1.0.0/24", "10.1.0.9")
	n.Set(own)
	n.agent(t, r.Kubeconfig(), "--metrics-bind-address", guarded, "--outside-pod=false", "--pod-uid", own.UID)
	agent = &server{metrics: guarded}
	agent.is(t, "ip_reconcile_agent_unguarded ", 1)
	x.after = both(guarded)
	r.situations = append(r.situations, x)
}

// byHand are situations of which only a few values differ from those of a healthy server. Some take hours, or hundreds
// of pods.
func (r *recording) byHand() {
	healthy := r.situations[1].before
	add := func(name, alert string, lasts time.Duration, values map[string]float64, also ...string) {
		x := situation{name: name, alert: alert, also: also, before: healthy, after: healthy.with(values), lasts: lasts,
			byHand: true}
		r.situations = append(r.situations, x)
	}
	now := float64(healthy.at.Unix())
	add("full passes fail for an hour, others do not", "IPReconcilePassOverdue", 50*time.Minute,
		map[string]float64{"ip_reconcile_schedule_next_timestamp_seconds": now - 3000})
	add("a pool cannot be written for half an hour", "IPReconcileRetriedOften", 50*time.Minute,
		map[string]float64{"ip_reconcile_most_retried_attempts": 61, "ip_reconcile_candidates": 1,
			"ip_reconcile_oldest_candidate_timestamp_seconds": now - 1800})
	add("a node reports hundreds of unknown addresses", "IPReconcileMassRepairRefused", 10*time.Minute,
		map[string]float64{`ip_reconcile_breaker{operation="repair"}`: 1,
			`ip_reconcile_pool_findings{kind="Unrecorded",pool="kube-system/10.1.0.0-24"}`: 300})
	add("definitions cannot be listed any more", "IPReconcileSourceUnknown", 50*time.Minute,
		map[string]float64{`ip_reconcile_source_known{source="network-attachment-definitions"}`: 0})
	add("one agent keeps recording a restore", "IPReconcileFenceRaisedOften", 50*time.Minute,
		map[string]float64{`ip_reconcile_fences_total{outcome="Settled"}`: 3, "ip_reconcile_etcd_restores_total": 3},
		"IPReconcileEtcdRestored")
	for proof, alert := range map[string]string{"proven": "IPReconcileProvenReleasedLate",
		"unconfirmed": "IPReconcileUnconfirmedReleasedLate"} {
		values := map[string]float64{`ip_reconcile_release_delay_seconds_count{proof="` + proof + `"}`: 100}
		for _, le := range []string{"3600", "14400", "+Inf"} {
			values[`ip_reconcile_release_delay_seconds_bucket{proof="`+proof+`",le="`+le+`"}`] = 100
		}
		add("the "+proof+" wait for the Lease for half an hour", alert, 50*time.Minute, values)
		r.situations[len(r.situations)-1].repeats = true
	}
	filling := func(free float64) map[string]float64 {
		values := map[string]float64{}
		for state, n := range map[string]float64{"usable": 1000, "used": 1000 - free, "free": free} {
			values[`ip_reconcile_pool_addresses{alerts="on",pool="kube-system/10.9.0.0-22",state="`+state+`"}`] = n
		}
		return values
	}
	add("a pool fills by 20 addresses an hour", "IPReconcilePoolFullWithinADay", 150*time.Minute, filling(300))
	last := &r.situations[len(r.situations)-1]
	last.before, last.falls = healthy.with(filling(320)), 1.0/3
}

// healthy is a pair of replicas, of which the second takes over: nothing fires, whichever leads.
func (r *recording) healthy(t *testing.T) (standby map[string]string) {
	one := r.replica(t, r.Kubeconfig())
	one.passes(t, 1)
	two := r.replica(t, r.Kubeconfig())
	leads := scraped(t, one.metrics, leaderTarget)
	waits := situation{before: scraped(t, two.metrics, standbyTarget)}
	check(t, one.cmd.Process.Signal(syscall.SIGTERM))
	one.wait().exits(t, 0)
	two.passes(t, 1)
	waits.after, waits.lasts = scraped(t, two.metrics, standbyTarget), 30*time.Hour
	two.stop(t)
	x := situation{name: "the other replica takes over", before: leads.with(nil), lasts: waits.lasts, isAlone: true}
	maps.Copy(x.before.values, waits.before.values)
	x.after = waits.after
	r.situations = append(r.situations, x, situation{name: "nothing happens", before: leads, after: leads,
		lasts: waits.lasts})
	waits.after = waits.before
	return waits.input()
}

// TestAlerts_Matrix scrapes the product while something happens, lets that last in Prometheus' rules, and compares the
// alerts that fire with the one that should.
func TestAlerts_Matrix(t *testing.T) {
	t.Parallel()
	r := &recording{stage: newStageWithReports(t, "worker-1", "worker-2")}
	r.one, r.two = r.agent(t, "worker-1"), r.agent(t, "worker-2")
	standby := r.healthy(t)
	var kubeconfig string
	r.link, kubeconfig = r.stage.link(t)
	r.v = r.serve(t, kubeconfig, "--fence-timeout=0")
	r.addresses(t)
	r.passes(t)
	r.others(t)
	r.nodes(t)
	recorded := slices.Clone(r.situations)
	r.byHand()
	t.Run("each alert fires in its situation, after its time, and alone", func(t *testing.T) {
		r.matrix(t, standby)
	})
	t.Run("rules and dashboard read only metrics that exist", func(t *testing.T) { existing(t, recorded) })
	t.Run("each panel shows data, of two replicas as of one", func(t *testing.T) { panels(t, r.situations) })
}

func (r *recording) matrix(t *testing.T, standby map[string]string) {
	for _, a := range monitoring.Alerts() {
		if !slices.ContainsFunc(r.situations, func(x situation) bool { return x.alert == a.Name }) {
			t.Errorf("no situation for %s", a.Name)
		}
	}
	var short, long []promTest
	for _, x := range r.situations {
		if x.lasts > 3*time.Hour {
			long = append(long, x.test(t, standby, 5*time.Minute))
		} else {
			short = append(short, x.test(t, standby, time.Minute))
		}
	}
	promtool(t, time.Minute, short)
	promtool(t, 5*time.Minute, long)
}
