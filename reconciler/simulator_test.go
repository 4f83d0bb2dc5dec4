package reconciler_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// simulator is a small cluster, a Source and Leases whose calls fail, hang or are late where a test says so. A fake
// API server has the pools and reservations, and decides on each write. It runs by the clock of the synctest bubble
// around it.
type simulator struct {
	mu          sync.Mutex
	api         *fakeapi.Server // has the pools and reservations
	pods        map[types.NamespacedName]*corev1.Pod
	nads        map[types.NamespacedName]*ippool.NAD
	reports     []*podstate.Report
	nodes       map[string]*podstate.Node
	claims      map[types.NamespacedName]*ippool.Claim
	claimUnread string // the name of a claim whose live read fails
	guests      []*podstate.Guest
	watched     bool // List has what watches reported
	paused      bool // everything, by the operator
	silent      bool // agents do not report

	// takes is how long a call takes, by its name. fault may return an error for it, before the call does anything, or
	// with after, after that.
	takes map[string]time.Duration
	// slow is how long a call for one object takes, where set.
	slow  func(call, object string) time.Duration
	fault func(call, object string) (err error, after bool)
	// step is called before each call.
	step func(call, object string)
	// calls are all calls, as "call object".
	calls []string
	holds []hold
	// behind is how much the clock of Relist is late.
	behind  time.Duration
	longest time.Duration  // of the holds
	busy    map[string]int // for how many holds a Lease is still busy

	forbidden string   // a Lease that RBAC forbids; "" for none
	kept      string   // what the breaker counts
	late      []string // writes that began too late in a hold
	records   *records // of the last reconciler
}

// hold is what was written under a hold of the Lease.
type hold struct {
	leases  []string
	began   time.Time
	removed int
}

func newSimulator() *simulator {
	return &simulator{
		api:  fakeapi.NewServer(),
		pods: map[types.NamespacedName]*corev1.Pod{}, nads: map[types.NamespacedName]*ippool.NAD{},
		takes: map[string]time.Duration{},
	}
}

// call starts a call. An error prevents the call; done returns the error after the call.
func (s *simulator) call(ctx context.Context, name, object string) (done func() error, err error) {
	if s.step != nil {
		s.step(name, object)
	}
	s.mu.Lock()
	s.calls = append(s.calls, name+" "+object)
	s.mu.Unlock()
	d := s.takes[name]
	if s.slow != nil {
		d = max(d, s.slow(name, object))
	}
	if d > 0 {
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	done = func() error { return nil }
	if s.fault != nil {
		ferr, after := s.fault(name, object)
		if ferr != nil && !after {
			return nil, ferr
		}
		done = func() error { return ferr }
	}
	return done, ctx.Err()
}

// writing records a write that begins too late: others may hold the Lease when it arrives.
func (s *simulator) writing(ctx context.Context, what string) {
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= time.Second {
		s.mu.Lock()
		s.late = append(s.late, what)
		s.mu.Unlock()
	}
}

func (s *simulator) List(ctx context.Context) (*facts.Observation, error) {
	o := &facts.Observation{Watched: s.watched, NADs: facts.Complete(maps.Clone(s.nads), ""),
		Pods: map[types.NamespacedName]*podstate.Pod{}}
	done, err := s.call(ctx, "observe", "")
	if err != nil {
		return nil, err
	}
	for _, part := range []func(){
		func() {
			var reservations []*ippool.Reservation
			for _, u := range s.all(fakeapi.Reservations) {
				reservations = append(reservations, ippool.Read[ippool.Reservation](u))
			}
			o.Reservations = facts.Complete(reservations, "")
		},
		func() { s.surroundings(o) },
		func() {
			for name, p := range s.pods {
				o.Pods[name] = podstate.ReadPod(p)
			}
		},
	} {
		if s.step != nil {
			s.step("observing", "") // between the LISTs
		}
		s.mu.Lock()
		part()
		s.mu.Unlock()
	}
	return o, done()
}

func (s *simulator) surroundings(o *facts.Observation) {
	o.Now, o.Revision, o.Paused = time.Now(), s.api.Revision, s.paused
	o.Reports, o.Nodes = facts.Complete(s.reports, ""), facts.Complete(s.knownNodes(), "")
	o.AgentLeases = facts.Complete(len(s.reports) > 0, "")
	o.IPAMClaims, o.Guests = facts.Complete(maps.Clone(s.claims), ""), facts.Complete(s.guests, "")
	for _, u := range s.all(fakeapi.Pools) {
		o.Pools = append(o.Pools, ippool.Read[ippool.Pool](u))
	}
	ReadByQuorum(o)
}

// knownNodes are the Nodes that a test sets, and one of its machine for each other report. If a test sets none, each
// node of a pod is Ready.
func (s *simulator) knownNodes() map[string]*podstate.Node {
	nodes := map[string]*podstate.Node{}
	add := func(name, bootID string) {
		if name != "" && nodes[name] == nil {
			nodes[name] = &podstate.Node{Name: name, Ready: true, BootID: bootID}
		}
	}
	for _, r := range s.reports { // each has a Node of its machine
		add(r.Name, r.BootID)
	}
	if s.nodes == nil {
		if len(s.reports) == 0 {
			add("worker-1", "")
		}
		for _, p := range s.pods {
			add(p.Spec.NodeName, "")
		}
	}
	maps.Copy(nodes, s.nodes)
	return nodes
}

func (s *simulator) Relist(ctx context.Context, before *facts.Observation) (*facts.Observation, error) {
	done, err := s.call(ctx, "refresh", "")
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	o := *before
	o.Watched, o.Pools, o.NADs = false, nil, facts.Complete(maps.Clone(s.nads), "")
	s.surroundings(&o)
	o.Now = o.Now.Add(-s.behind)
	s.mu.Unlock()
	if _, err := s.call(ctx, "refreshing", ""); err != nil { // the last of the lists is late
		return nil, err
	}
	return &o, done()
}

func (s *simulator) GetLive(ctx context.Context, before *facts.Observation, need facts.LiveKeys) (*facts.Live, error) {
	done, err := s.call(ctx, "fresh", fmt.Sprint(need.Pools))
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	live := &facts.Live{Now: time.Now(), Pools: map[types.NamespacedName]*ippool.Pool{},
		Reservations: map[types.NamespacedName]*ippool.Reservation{}, Pods: map[types.NamespacedName]*podstate.Pod{},
		IPAMClaims: map[types.NamespacedName]*ippool.Claim{}}
	for _, n := range need.IPAMClaims {
		if live.IPAMClaims[n] = s.claims[n]; n.Name == s.claimUnread {
			live.IPAMClaims[n] = &ippool.Claim{NamespacedName: n, Unread: "forbidden"}
		}
	}
	for _, n := range need.Pools {
		at := slices.IndexFunc(before.Pools, func(p *ippool.Pool) bool {
			return p.Namespace == n.Namespace && p.Name == n.Name
		})
		u := s.pool(n.Name)
		if u != nil {
			live.Versions = append(live.Versions, facts.Version{Object: facts.PoolObject + n.String(),
				ResourceVersion: u.GetResourceVersion()})
		}
		switch {
		case u == nil:
			live.Pools[n] = nil
		case at >= 0 && before.Pools[at].ResourceVersion == u.GetResourceVersion():
		default:
			live.Pools[n] = ippool.Read[ippool.Pool](u)
		}
	}
	for _, n := range need.Reservations {
		live.Reservations[n] = nil
		if u := s.reservation(n.Name); u != nil {
			live.Reservations[n] = ippool.Read[ippool.Reservation](u)
		}
	}
	live.Versions = append(live.Versions, facts.Version{Object: facts.PoolList,
		ResourceVersion: fmt.Sprint(s.api.Revision)})
	s.mu.Unlock()
	if s.step != nil {
		s.step("freshening", "") // between pools and pods
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range need.Pods {
		live.Pods[n] = nil
		if p := s.pods[n]; p != nil {
			live.Pods[n] = podstate.ReadPod(p)
		}
	}
	return live, done()
}

// Hold lasts at most five seconds. Writes begin in the first four, and new work in the first two.
func (s *simulator) Hold(ctx context.Context, namespace string, leases []string, work apply.Work) error {
	if _, err := s.call(ctx, "hold", fmt.Sprint(leases)); err != nil {
		return err
	}
	of := &session{simulator: s, began: time.Now()}
	for _, l := range leases {
		switch {
		case s.forbidden == l:
			of.forbidden = append(of.forbidden, l)
		case s.busy[l] == 0:
			of.leases = append(of.leases, l)
		default:
			s.busy[l]--
		}
	}
	s.holds = append(s.holds, hold{leases: of.leases, began: of.began})
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	of.held = ctx
	err := work(ctx, of)
	s.longest = max(s.longest, time.Since(of.began))
	_, _ = s.call(context.WithoutCancel(ctx), "clear", "")
	if err != nil && time.Since(of.began) >= 5*time.Second {
		return fmt.Errorf("%w: %v", apply.ErrHoldSpent, err) //nolint:errorlint // only text
	}
	return err
}

// Update is a reconciler.StateStore's.
func (s *simulator) Update(ctx context.Context, change func(string) (string, error)) error {
	done, err := s.call(ctx, "amend", "")
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	next, err := change(s.kept)
	if err != nil {
		return err
	}
	s.kept = next
	return done()
}

// put stores an object as a new version, as somebody else who writes. The caller holds mu.
func (s *simulator) put(u *unstructured.Unstructured) {
	s.api.Put(keyOf(u.GetKind(), u.GetName()), u.Object, time.Now(), "another")
}

func keyOf(kind, name string) fakeapi.Key {
	resource := fakeapi.Reservations
	if kind == "IPPool" {
		resource = fakeapi.Pools
	}
	return fakeapi.At(resource, "kube-system", name)
}

// pool and reservation return what is stored, which nobody may change; nil for nothing.
func (s *simulator) pool(name string) *unstructured.Unstructured {
	return stored(s.api.Get(fakeapi.At(fakeapi.Pools, "kube-system", name)))
}

func (s *simulator) reservation(name string) *unstructured.Unstructured {
	return stored(s.api.Get(fakeapi.At(fakeapi.Reservations, "kube-system", name)))
}

func stored(o *fakeapi.Object) *unstructured.Unstructured {
	if o == nil {
		return nil
	}
	return &unstructured.Unstructured{Object: o.Content}
}

func (s *simulator) all(resource string) (all []*unstructured.Unstructured) {
	for _, k := range fakeapi.ListOf(s.api.Objects, resource, "", "") {
		all = append(all, stored(s.api.Get(k)))
	}
	return all
}

// entries returns the entries of a pool by their keys.
func (s *simulator) entries(pool string) map[string]any { return entriesOf(s.pool(pool)) }

func entriesOf(pool *unstructured.Unstructured) map[string]any {
	if pool == nil {
		return nil
	}
	entries, _, _ := unstructured.NestedMap(pool.Object, "spec", "allocations")
	return entries
}

// reconciler returns one on the simulator. Its pauses are not spread, so that times are exact.
func (s *simulator) reconciler(t testing.TB) *reconciler.Reconciler {
	log := slog.DiscardHandler
	if t != nil {
		log = slog.NewTextHandler(t.Output(), nil)
	}
	s.records = &records{t: t}
	return &reconciler.Reconciler{
		Source: s, Leases: s, BreakerStore: s, Clock: clock.RealClock{}, Log: slog.New(log), Process: &reconciler.Process{},
		Jitter:       func(d time.Duration) time.Duration { return d },
		OnOutcome:    s.records.add,
		PodsComplete: true, // most tests have no pods
	}
}

// landsLate applies the first patch at the second.
type landsLate struct {
	*simulator
	patch func()
	tries int
}

func (l *landsLate) Hold(ctx context.Context, namespace string, leases []string, work apply.Work) error {
	return l.simulator.Hold(ctx, namespace, leases, func(ctx context.Context, s apply.Session) error {
		return work(ctx, lateSession{s, l})
	})
}

type lateSession struct {
	apply.Session
	l *landsLate
}

func (s lateSession) PatchPool(ctx context.Context, p *ippool.Pool, patch []byte) (string, error) {
	if s.l.tries++; s.l.tries == 1 {
		s.l.patch = func() { _, _ = s.Session.PatchPool(context.WithoutCancel(ctx), p, patch) }
		return "", errServer
	}
	if s.l.patch != nil {
		s.l.patch()
		s.l.patch = nil
	}
	return s.Session.PatchPool(ctx, p, patch)
}
