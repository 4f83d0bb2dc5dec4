package kube_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// aLease is a Lease on the fake API server: reads and updates with their
// resourceVersion, as the real one makes them.
type aLease struct {
	mu      sync.Mutex
	version int
	spec    map[string]any
	holders []string                    // after each update
	fails   func(update int) (code int) // of an update, from 1; 0 for none
	updates int
}

func (l *aLease) object(name string) map[string]any {
	return map[string]any{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
		"metadata": map[string]any{"name": name, "namespace": "kube-system", "resourceVersion": fmt.Sprint(l.version)}, "spec": l.spec}
}

func (l *aLease) on(f *fakeAPI, name string) {
	f.answers[leases+"/"+name] = func(w http.ResponseWriter, r *http.Request, n int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if r.Method == http.MethodPut {
			l.updates++
			if l.fails != nil {
				if code := l.fails(l.updates); code != 0 {
					fails(code)(w, r, n)
					return
				}
			}
			l.version++
			l.spec = map[string]any{"holderIdentity": *f.written(r).Spec.HolderIdentity}
			l.holders = append(l.holders, *f.written(r).Spec.HolderIdentity)
		}
		object(l.object(name))(w, r, n)
	}
}

// written is the Lease that a request writes.
func (f *fakeAPI) written(r *http.Request) *coordinationv1.Lease {
	f.mu.Lock()
	defer f.mu.Unlock()
	body := f.bodies[slices.Index(f.requests, r)]
	lease := &coordinationv1.Lease{}
	if _, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(body), nil, lease); err != nil {
		panic(err)
	}
	return lease
}

func held(t *testing.T, f *fakeAPI, names []string, work func(context.Context, *reconciler.Hold) error) error {
	return f.cluster(t).Hold(t.Context(), "kube-system", names, work)
}

func TestAHoldIsRenewedAndGivenBack(t *testing.T) {
	f, l := newFakeAPI(t), &aLease{spec: map[string]any{}}
	l.on(f, "whereabouts")
	renewals := func() int { l.mu.Lock(); defer l.mu.Unlock(); return l.updates - 1 }
	check(t, held(t, f, []string{"whereabouts"}, func(ctx context.Context, h *reconciler.Hold) error {
		for (renewals() < 4 || !h.MayWrite()) && ctx.Err() == nil { // longer than one renewal lasts for
			time.Sleep(10 * time.Millisecond)
		}
		return ctx.Err()
	}))
	equal(t, "the last holder", l.holders[len(l.holders)-1], "")
	equal(t, "the others", slices.Compact(slices.Clone(l.holders[:len(l.holders)-1])), []string{"us"})
}

// While renewals fail nothing is written, and the hold ends before anybody else
// may take the Lease.
func TestAHoldThatIsNotRenewedEnds(t *testing.T) {
	for name, code := range map[string]int{"the server answers with errors": 500, "the Lease is another's": 409} {
		t.Run(name, func(t *testing.T) {
			f, l := newFakeAPI(t), &aLease{spec: map[string]any{}}
			l.fails = func(update int) int {
				if update > 1 {
					return code
				}
				return 0
			}
			l.on(f, "whereabouts")
			began := time.Now()
			stopped := time.Duration(0)
			err := held(t, f, []string{"whereabouts"}, func(ctx context.Context, h *reconciler.Hold) error {
				for ctx.Err() == nil {
					if stopped == 0 && !h.MayWrite() {
						stopped = time.Since(began)
					}
					time.Sleep(time.Millisecond)
				}
				return ctx.Err()
			})
			if !errors.Is(err, reconciler.ErrHoldSpent) {
				t.Errorf("the error is %v", err)
			}
			if ended := time.Since(began); stopped == 0 && code != 409 || ended > 4*time.Second {
				t.Errorf("writes stopped after %s, the hold after %s", stopped, ended)
			}
		})
	}
}

// The time that a hold may last includes what taking it took.
func TestAHoldBeginsBeforeTheLeaseIsAskedFor(t *testing.T) {
	f := newFakeAPI(t)
	l := &aLease{spec: map[string]any{}}
	l.on(f, "whereabouts")
	quick := f.answers[leases+"/whereabouts"]
	var asked time.Time
	f.answers[leases+"/whereabouts"] = func(w http.ResponseWriter, r *http.Request, n int) {
		if n == 1 {
			asked = time.Now()
		}
		quick(w, r, n)
	}
	check(t, held(t, f, []string{"whereabouts"}, func(ctx context.Context, h *reconciler.Hold) error {
		end, _ := ctx.Deadline()
		equal(t, "it ends within five seconds of its beginning", end.After(asked.Add(5*time.Second)), false)
		equal(t, "work ends within two", h.Until.After(asked.Add(2*time.Second)), false)
		return nil
	}))
}

// Work that awaits an answer when the hold is over keeps nobody else waiting.
func TestTheLeaseIsGivenBackThoughTheWorkGoesOn(t *testing.T) {
	f, l := newFakeAPI(t), &aLease{spec: map[string]any{}}
	l.on(f, "whereabouts")
	holder := func() string { l.mu.Lock(); defer l.mu.Unlock(); return fmt.Sprint(l.spec["holderIdentity"]) }
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_ = f.cluster(t).Hold(ctx, "kube-system", []string{"whereabouts"}, func(ctx context.Context, _ *reconciler.Hold) error {
		equal(t, "the holder", holder(), "us")
		cancel() // the run is being stopped
		for range 1000 {
			if holder() == "" {
				return nil
			}
			time.Sleep(5 * time.Millisecond)
		}
		t.Error("it is still held")
		return nil
	})
}

// While somebody else has the shared Lease, those of the pools are left alone.
func TestThePoolsOwnLeasesAreNotTouchedWhileTheSharedOneIsBusy(t *testing.T) {
	f := newFakeAPI(t)
	shared := &aLease{version: 1, spec: map[string]any{"holderIdentity": "default/web-0"}}
	own := &aLease{spec: map[string]any{}}
	shared.on(f, "whereabouts")
	own.on(f, "worker-1-10.0.0.0-24")
	go func() {
		for range 8 { // it is renewed, and then given back
			time.Sleep(100 * time.Millisecond)
			shared.mu.Lock()
			shared.version++
			shared.mu.Unlock()
		}
		shared.mu.Lock()
		shared.spec["holderIdentity"] = ""
		shared.mu.Unlock()
	}()
	check(t, held(t, f, []string{"whereabouts", "worker-1-10.0.0.0-24"}, func(_ context.Context, h *reconciler.Hold) error {
		equal(t, "the Leases held", h.Leases, []string{"whereabouts", "worker-1-10.0.0.0-24"})
		return nil
	}))
	f.mu.Lock()
	defer f.mu.Unlock()
	first := slices.IndexFunc(f.requests, func(r *http.Request) bool { return r.URL.Path == leases+"/worker-1-10.0.0.0-24" })
	for _, r := range f.requests[:first] {
		if r.Method != http.MethodGet && r.URL.Path != leases+"/whereabouts" {
			t.Errorf("%s %s before the shared one was held", r.Method, r.URL.Path)
		}
	}
	equal(t, "writes to the shared one until then", len(slices.DeleteFunc(slices.Clone(f.requests[:first]), func(r *http.Request) bool { return r.Method == http.MethodGet })), 1)
}

// A pool's own Lease that is busy is left out, and the rest is held.
func TestAPoolsOwnLeaseThatIsBusyIsLeftOut(t *testing.T) {
	f := newFakeAPI(t)
	shared, free, busy := &aLease{spec: map[string]any{}}, &aLease{spec: map[string]any{}}, &aLease{spec: map[string]any{"holderIdentity": "default/web-0"}}
	shared.on(f, "whereabouts")
	free.on(f, "free")
	busy.on(f, "busy")
	check(t, held(t, f, []string{"whereabouts", "busy", "free"}, func(_ context.Context, h *reconciler.Hold) error {
		equal(t, "the Leases held", h.Leases, []string{"whereabouts", "free"})
		return nil
	}))
	equal(t, "updates of the busy one", busy.updates, 0)
	equal(t, "the holder of the other one afterwards", free.spec["holderIdentity"], "")
}
