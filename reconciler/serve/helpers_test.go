package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
	"github.com/ip-reconcile/ip-reconcile/reconciler/schedule"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// A cluster is the source, the writer and the caches of a server. The server's goroutine uses it. The test changes it
// while that goroutine waits.
type cluster struct {
	mu      sync.Mutex
	sleeps  int
	pools   map[string]*ippool.Pool
	reports []*podstate.Report
	// fails are the errors of patches, by pool.
	fails map[string]error
	// unverified is the error of cache passes, down that of full passes.
	unverified, down error
	slow             time.Duration // duration of a full pass
	large            time.Duration // duration of a cache pass
	noCaches         bool
	revision         uint64 // of etcd, unknown to the caches

	cachePasses, passes, patches []time.Time
	patched                      []string // the pools of patches
	rebuilds                     []string
	window                       string // of the breaker
}

// view is the source of full or cache passes.
type view struct {
	*cluster
	full bool
}

func (c view) List(context.Context) (*facts.Observation, error) {
	if c.full {
		c.mu.Lock()
		c.passes = append(c.passes, time.Now())
		c.mu.Unlock()
		time.Sleep(c.slow)
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.observation(), c.down
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cachePasses = append(c.cachePasses, time.Now())
	if c.unverified != nil {
		return nil, c.unverified
	}
	o := c.observation()
	o.Revision, o.Versions = 0, nil
	c.mu.Unlock()
	time.Sleep(c.large)
	c.mu.Lock()
	return o, nil
}

func (c *cluster) observation() *facts.Observation {
	o := &facts.Observation{
		Now: time.Now(), NADs: facts.Complete(map[types.NamespacedName]*ippool.NAD{}, ""),
		Pods: map[types.NamespacedName]*podstate.Pod{}, Reservations: facts.Complete[[]*ippool.Reservation](nil, ""),
		Reports: facts.Complete(c.reports, ""), AgentLeases: facts.Complete(len(c.reports) > 0, ""), Revision: c.revision,
	}
	nodes := map[string]*podstate.Node{}
	for _, r := range c.reports {
		nodes[r.Name] = &podstate.Node{Name: r.Name, Ready: true, BootID: r.BootID, Machine: r.Machine}
	}
	o.Nodes = facts.Complete(nodes, "")
	for _, p := range c.pools {
		o.Pools = append(o.Pools, p)
	}
	judgetest.ReadByQuorum(o)
	return o
}

func (c view) Relist(context.Context, *facts.Observation) (*facts.Observation, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.observation(), nil
}

func (c view) GetLive(_ context.Context, _ *facts.Observation, need facts.LiveKeys) (*facts.Live, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.observation()
	live := &facts.Live{Now: now.Now}
	live.Pools, live.Pods = map[types.NamespacedName]*ippool.Pool{}, map[types.NamespacedName]*podstate.Pod{}
	for _, n := range need.Pools {
		live.Pools[n] = c.pools[n.Name]
	}
	for _, n := range need.Pods {
		live.Pods[n] = now.Pods[n]
	}
	return live, nil
}

func (c *cluster) Hold(ctx context.Context, _ string, _ []string, work apply.Work) error {
	return work(ctx, session{c: c})
}

func (c *cluster) Recreate(context.Context, *ippool.Reservation, time.Duration) error {
	return errors.New("no reservations")
}

// session is a session that needs no Lease. Nothing is repaired in it.
type session struct {
	apply.Session
	c *cluster
}

func (session) Leases() []string { return nil }

func (session) Forbidden() []string { return nil }

func (session) Until() time.Time { return time.Time{} }

func (session) IsOpen() bool { return true }

func (s session) PatchPool(_ context.Context, p *ippool.Pool, _ []byte) (string, error) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	c.patches, c.patched = append(c.patches, time.Now()), append(c.patched, p.Name)
	if err := c.fails[p.Name]; err != nil {
		return "", err
	}
	c.pools[p.Name] = aPool(p.Name, p.RangeText)
	return c.pools[p.Name].ResourceVersion, nil
}

// Update is a reconciler.StateStore's.
func (c *cluster) Update(_ context.Context, change func(string) (string, error)) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.window, err = change(c.window)
	return err
}

func (c *cluster) Synced() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.noCaches
}

func (c *cluster) Rebuild(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rebuilds = append(c.rebuilds, why)
}

// has makes a pool whose only allocation is a leak.
func (c *cluster) has(name, cidr string) { c.pools[name] = aPool(name, cidr, "default/gone") }

// aPool has an allocation for each podref.
func aPool(name, cidr string, podRefs ...string) *ippool.Pool {
	entries := map[string]any{}
	for i, ref := range podRefs {
		entries[fmt.Sprint(i+1)] = map[string]any{"id": fmt.Sprint("box-", i), "podref": ref, "ifname": "net1"}
	}
	return ippool.Read[ippool.Pool](&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": ippool.PoolResource.GroupVersion().String(), "kind": "IPPool",
		"metadata": map[string]any{"namespace": "kube-system", "name": name, "resourceVersion": "7"},
		"spec":     map[string]any{"range": cidr, "allocations": entries}}})
}

// serving runs a server in a bubble, and the test after the first full pass.
func serving(t *testing.T, c *cluster, opts plan.Options, test func(t *testing.T, s *Server)) {
	t.Helper()
	servingAt(t, "0 0 1 1 *", c, opts, test)
}

func servingAt(t *testing.T, cron string, c *cluster, opts plan.Options, test func(t *testing.T, s *Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.DiscardHandler)
		full := &reconciler.Reconciler{
			Source: view{c, true}, Leases: c, BreakerStore: c, Options: opts, Clock: clock.RealClock{}, Log: log,
			Jitter: func(d time.Duration) time.Duration { return d }, Process: &reconciler.Process{},
			PodsComplete: true, // most clusters have no pods
		}
		quick := *full
		quick.Source = view{c, false}
		health := NewHealth(c.Synced)
		s := New(Config{
			Full: full, Quick: &quick, Caches: c, Requests: NewRequests(), Health: health,
			Schedule: &schedule.Schedule{Expression: cron, Log: log},
			Recorder: &Recorder{Log: log, Metrics: NewMetrics(prometheus.NewRegistry()),
				Events: &Events{EventRecorder: &record.FakeRecorder{}}},
		})
		health.Lead()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		c.sleep(time.Second + c.slow)
		test(t, s)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// since returns the times after a moment.
func since(times []time.Time, moment time.Time) []time.Time {
	return slices.DeleteFunc(slices.Clone(times), func(t time.Time) bool { return t.Before(moment) })
}

// pauses returns the pauses between times, without the short ones within one attempt.
func pauses(times []time.Time) (all []time.Duration) {
	for i := 1; i < len(times); i++ {
		if d := times[i].Sub(times[i-1]); d > 700*time.Millisecond {
			all = append(all, d.Round(time.Second))
		}
	}
	return all
}

// sleep waits, and then until the server is idle.
func (c *cluster) sleep(d time.Duration) {
	c.mu.Lock() // for the race detector: the server reads fields that the test has written
	c.sleeps++
	c.mu.Unlock()
	time.Sleep(d)
	synctest.Wait()
}

// series returns the values of a gauge or counter, by its labels.
func series(t *testing.T, registry *prometheus.Registry, metric string) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	check(t, err)
	found := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			if f.GetName() == "ip_reconcile_"+metric {
				found[strings.Join(labels, " ")] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return found
}

// update updates metrics from a pass without Held items.
func update(m *Metrics, out *reconciler.Result) { m.update(out, nil, usage.Of(out.Assessment)) }

// gaugeOf returns the value of a gauge of the last pass.
func gaugeOf(t *testing.T, m *Metrics, metric string) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.CollectorFunc(m.collect))
	return series(t, registry, metric)[""]
}

// valueOf returns the value of a gauge or counter.
func valueOf(t *testing.T, m prometheus.Metric) float64 {
	t.Helper()
	var out dto.Metric
	check(t, m.Write(&out))
	return out.GetGauge().GetValue() + out.GetCounter().GetValue()
}

// check ends the test with an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
