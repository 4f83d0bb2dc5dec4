package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// A faultInjector stands between the reconciler and the API server, and makes
// something happen at an exact moment. n counts from 1; do is the real call.
type faultInjector struct {
	*kube.Cluster
	onHold   func(n int) // after the first judgement, before the Lease is asked for
	onFresh  func(n int) // after the fresh read, before anything is written
	onDelete func(n int, r *ippool.Reservation, do func() error) error
	onPatch  func(n int, p *ippool.Pool, do func() error) error
	onCreate func(n int, do func() error) error

	mu     sync.Mutex // reservations are deleted in parallel
	counts map[string]int
}

func (m *faultInjector) count(what string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.counts == nil {
		m.counts = map[string]int{}
	}
	m.counts[what]++
	return m.counts[what]
}

func (m *faultInjector) Hold(ctx context.Context, namespace string, leases []string, work func(context.Context, *reconciler.Hold) error) error {
	if n := m.count("hold"); m.onHold != nil {
		m.onHold(n)
	}
	return m.Cluster.Hold(ctx, namespace, leases, work)
}

func (m *faultInjector) GetLive(ctx context.Context, o *judge.Observation, what reconciler.LiveKeys) (*judge.Live, error) {
	fresh, err := m.Cluster.GetLive(ctx, o, what)
	if n := m.count("fresh"); m.onFresh != nil {
		m.onFresh(n)
	}
	return fresh, err
}

func (m *faultInjector) DeleteReservation(ctx context.Context, r *ippool.Reservation) error {
	do := func() error { return m.Cluster.DeleteReservation(ctx, r) }
	if n := m.count("delete"); m.onDelete != nil {
		return m.onDelete(n, r, do)
	}
	return do()
}

func (m *faultInjector) PatchPool(ctx context.Context, p *ippool.Pool, patch []byte) (version string, err error) {
	do := func() error {
		version, err = m.Cluster.PatchPool(ctx, p, patch)
		return err
	}
	if n := m.count("patch"); m.onPatch != nil {
		return version, m.onPatch(n, p, do)
	}
	return version, do()
}

func (m *faultInjector) CreateReservation(ctx context.Context, o *unstructured.Unstructured) error {
	do := func() error { return m.Cluster.CreateReservation(ctx, o) }
	if n := m.count("create"); m.onCreate != nil {
		return m.onCreate(n, do)
	}
	return do()
}

// reconcile makes one pass in this process, without waiting for confirmation.
// Without the Lease ADDs and DELs can be made at any moment: what the Lease
// makes rare must be safe all the same.
func (s *stage) reconcile(t *testing.T, m *faultInjector, settings kube.Settings) *reconciler.Result {
	t.Helper()
	r := s.reconciler(t, m, settings)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	began := time.Now()
	out, err := r.Run(ctx)
	check(t, err)
	if time.Since(began) > 2*time.Minute {
		t.Errorf("the pass took %s", time.Since(began))
	}
	return out
}

func (s *stage) reconciler(t *testing.T, m *faultInjector, settings kube.Settings) *reconciler.Reconciler {
	t.Helper()
	log := &buffer{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the reconciler says:\n%s", shortened(log.String()))
		}
	})
	settings.Namespace, settings.LeaseNamespace, settings.Identity = "kube-system", harness.LeaseNamespace, fmt.Sprintf("%s-%p", t.Name(), m)
	settings.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if settings.Jitter == nil {
		settings.Jitter = func(d time.Duration) time.Duration { return d / 10 }
	}
	m.Cluster = try(kube.New(s.Config(), settings)).must(t)
	return &reconciler.Reconciler{
		Source: m, Writer: m, Clock: clock.RealClock{}, Jitter: settings.Jitter, Log: settings.Log, History: reconciler.NewHistory(),
	}
}

var discard = slog.New(slog.DiscardHandler)

var withoutLease = kube.Settings{WithoutLease: true}
