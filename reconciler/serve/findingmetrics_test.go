package serve

import (
	"errors"
	"fmt"
	"maps"
	"math/big"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore/restoretest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

func withFindings(found []findings.Finding) *reconciler.Result {
	out := resultOf(Pod("bystander"))
	out.Findings = found
	return out
}

func TestMetrics_PoolFindings(t *testing.T) {
	registry := prometheus.NewRegistry()
	update(NewMetrics(registry), withFindings([]findings.Finding{{Kind: findings.Conflict, Pool: "kube-system/a"},
		{Kind: findings.Conflict, Pool: "kube-system/a"}, {Kind: findings.NotAttached}, {Kind: findings.Unrecorded,
			Pool: "kube-system/a"}}))
	want := map[string]float64{"Conflict kube-system/a": 2, "Unrecorded kube-system/a": 1, "NotAttached ": 1}
	if got := series(t, registry, "pool_findings"); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A defect of thousands of pools adds few series, and each finding is counted.
func TestMetrics_PoolFindingsAreBounded(t *testing.T) {
	registry := prometheus.NewRegistry()
	var found []findings.Finding
	for pool := range 5000 {
		found = append(found, findings.Finding{Kind: findings.MissingReservation, Pool: fmt.Sprint("kube-system/", pool)})
	}
	found = append(found, findings.Finding{Kind: findings.Unrecorded, Pool: "kube-system/1"})
	update(NewMetrics(registry), withFindings(found))
	got := series(t, registry, "pool_findings")
	sum := 0.0
	for _, n := range got {
		sum += n
	}
	if len(got) != maxPoolFindings+2 || sum != 5001 || got["Unrecorded other"] != 1 {
		t.Errorf("%d series of %g findings, %g of them other", len(got), sum, got["Unrecorded other"])
	}
}

// A kind of findings that rests on an unknown source does not read 0. What was found counts.
func TestMetrics_UnknownSources(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	out := withFindings([]findings.Finding{{Kind: findings.Unrecorded, Pool: "kube-system/a"}})
	update(m, out)
	for source, n := range series(t, registry, "source_known") {
		restoretest.Equal(t, "source "+source, n, 1.0)
	}
	if got := series(t, registry, "findings"); len(got) != len(findings.Kinds()) {
		t.Errorf("all sources are known, but the findings are %v", got)
	}
	out.Observation.NADs = facts.Unknown[map[types.NamespacedName]*ippool.NAD](errors.New("forbidden"))
	out.Observation.Reservations = facts.Unknown[[]*ippool.Reservation](errors.New("forbidden"))
	out.Observation.Nodes = facts.Unknown[map[string]*podstate.Node](errors.New("forbidden"))
	update(m, out)
	want := map[string]float64{"nodes": 0, "network-attachment-definitions": 0, "sandboxreports": 1, "leases": 1,
		"overlappingrangeipreservations": 0, "ipamclaims": 1, "virtualmachineinstances": 1}
	if got := series(t, registry, "source_known"); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	want = map[string]float64{"Unrecorded": 1, "Phantom": 0, "ClaimDiffers": 0, "UnreadSandbox": 0, "UnsupportedRange": 0}
	if got := series(t, registry, "findings"); !maps.Equal(got, want) {
		t.Errorf("findings %v, want %v", got, want)
	}
	for _, metric := range []string{"diverged_reservations", "nodes"} {
		if got := series(t, registry, metric); len(got) > 0 {
			t.Errorf("%s %v, want none", metric, got)
		}
	}
}

// Reservations of a running ADD have no allocation yet.
func TestMetrics_DivergedReservations(t *testing.T) {
	pool := []Part{UsualPod(Carrying("10.0.0.5"), CreatedLongAgo), UsualPool,
		NAD("wb", WhereaboutsConfig("10.0.0.0/24", ""))}
	own := Reservation("10.0.0.5", "default/web-0", time.Hour)
	for name, c := range map[string]struct {
		parts          []Part
		missing, alone float64
	}{
		"none":              {[]Part{own}, 0, 0},
		"missing":           {nil, 1, 0},
		"of a running ADD":  {[]Part{own, Reservation("10.0.0.2", "default/new", time.Second)}, 0, 0},
		"alone for an hour": {[]Part{own, Reservation("10.0.0.2", "default/gone", time.Hour)}, 0, 1},
	} {
		registry := prometheus.NewRegistry()
		update(NewMetrics(registry), resultOf(append(c.parts, pool...)...))
		want := map[string]float64{"Missing": c.missing, "Alone": c.alone}
		if got := series(t, registry, "diverged_reservations"); !maps.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

// Passes between two tries neither count nor forget. A released item, or one that is no longer stale, is forgotten.
func TestMetrics_MostRetried(t *testing.T) {
	gone := func(key string) Allocation { return Alloc(key, "default/gone", "box-"+key, "net1") }
	j := resultOf(Pod("bystander"), Pool("10.0.0.0-29", "10.0.0.0/29", gone("1"), gone("2"))).Assessment
	one, two := j.Allocations[0], j.Allocations[1]
	refused := func(why plan.Refusal, items ...*judge.Item) *reconciler.Result {
		out := &reconciler.Result{Assessment: j}
		for _, it := range items {
			out.Refused = append(out.Refused, plan.Refused{Item: it, Gate: plan.Gate{Why: why}})
		}
		return out
	}
	released := refused(plan.Changed, two)
	released.Released = []*judge.Item{one}
	m := NewMetrics(prometheus.NewRegistry())
	for i, c := range []struct {
		out  *reconciler.Result
		want float64
	}{
		{refused(plan.AwaitingConfirmation, one, two), 0},
		{refused(plan.LeaseBusy, one), 1},
		{refused(plan.WriteFailed, one, two), 2},
		{refused(plan.Breaker, two), 2},
		{refused(plan.NoLease, one), 3},
		{released, 2},
		{resultOf(Pod("bystander")), 0},
		{refused(plan.Changed, one), 1},
	} {
		update(m, c.out)
		restoretest.Equal(t, fmt.Sprint("attempts of pass ", i), gaugeOf(t, m, "most_retried_attempts"), c.want)
	}
}

// docs/operate/metrics.md states how many series the leader has at 500 pools and 5,000 nodes, when everything is wrong.
func TestMetrics_Cardinality(t *testing.T) {
	const pools, machines = 500, 5000
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	out := resultOf(Pod("bystander"))
	full := &usage.Pools{}
	for p := range pools {
		name := types.NamespacedName{Namespace: "kube-system", Name: fmt.Sprint(p)}
		pool := *aPool(name.Name, "10.0.0.0/24")
		full.All = append(full.All, &usage.Pool{Pool: &pool, Waiting: []types.NamespacedName{name},
			Usable: new(big.Int), Free: new(big.Int)})
		for _, kind := range findings.Kinds() {
			out.Findings = append(out.Findings, findings.Finding{Kind: kind, Pool: name.String()})
		}
	}
	out.Nodes = map[string]facts.NodeState{}
	for n := range machines {
		out.Nodes[fmt.Sprint(n)] = facts.NodeNoFreshReport
	}
	held := map[judge.Reason]time.Time{}
	for _, reason := range judge.ReasonNames() {
		held[judge.Reason(reason)] = Now
		m.released.WithLabelValues(reason)
	}
	for _, kind := range findings.Kinds() {
		m.repaired.WithLabelValues(string(kind))
	}
	for _, why := range plan.Refusals() {
		m.refused.WithLabelValues(string(why))
		m.unrepaired.WithLabelValues(string(why))
	}
	for _, result := range []string{"done", "failed", "unverified"} {
		m.passes.WithLabelValues(result)
		m.cachePasses.WithLabelValues(result)
	}
	m.update(out, held, full)
	families, err := registry.Gather()
	check(t, err)
	total := len(judge.ReasonNames()) // allocations, of which this result has none
	for _, f := range families {
		for _, s := range f.GetMetric() {
			total++
			if h := s.GetHistogram(); h != nil {
				total += len(h.GetBucket()) + 2 // and +Inf, sum and count
			}
		}
	}
	page, err := os.ReadFile("../../docs/operate/metrics.md")
	check(t, err)
	stated := regexp.MustCompile(`at most ([\d,]+) series`).FindSubmatch(page)
	if stated == nil {
		t.Fatal("docs/operate/metrics.md states no number of series")
	}
	limit, _ := strconv.Atoi(strings.ReplaceAll(string(stated[1]), ",", ""))
	if total > limit || total < limit*9/10 {
		t.Errorf("%d series at %d pools and %d nodes, and the page states %d", total, pools, machines, limit)
	}
}
