package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// whereabouts' ADD and DEL elect a leader for each call: lease 1.5 s, renewed
// within 1 s, retried every 0.5 s and a little more (v0.9.4, pkg/types/types.go,
// DefaultLeader*; client-go, tools/leaderelection). A hold here is renewed as
// theirs is, and bounded, so that ADDs get their turn. client-go's elector, made
// for holding on, neither bounds a hold nor takes several Leases.
const (
	workFor   = 2 * time.Second // then a hold should come to its end
	writeFor  = 4 * time.Second // then no write begins any more
	holdFor   = 5 * time.Second // then it ends, whatever is under way
	stayOff   = 1500 * time.Millisecond
	expiry    = 1500 * time.Millisecond // a holder that does not renew for so long is gone
	pollEvery = 120 * time.Millisecond
	waitFor   = 45 * time.Second // an ADD waits up to 2 min for its turn
)

// foreignHold is another's hold of a Lease as it was first seen: its age is
// counted by our own clock, as in every leader election.
type foreignHold struct {
	version string
	since   time.Time
}

// Hold takes the first of the Leases, and of the others those that are free, and
// runs work. The Leases are renewed meanwhile; afterwards they are left alone for
// at least as long as they were held, and 1.5 s. Under the fence the work runs at once,
// with those of the Leases that the fence holds.
func (c *Cluster) Hold(ctx context.Context, namespace string, names []string, work func(context.Context, *reconciler.Hold) error) error {
	if c.WithoutLease {
		return work(context.WithValue(ctx, holdKey{}, unbounded{}), &reconciler.Hold{})
	}
	if f, over := c.fence.heldBy(namespace, names); f != nil {
		return c.holdFenced(ctx, over, f, work)
	}
	h, err := c.take(ctx, namespace, names)
	if err != nil {
		return err
	}
	held, cancel := context.WithDeadline(ctx, h.began.Add(holdFor))
	defer cancel()
	names, stop := h.names(), h.keep(cancel)
	end := once(func() { stop(); h.giveBack(ctx) })
	// A write whose answer is still awaited then keeps nobody waiting.
	early := context.AfterFunc(held, end)
	err = work(context.WithValue(held, holdKey{}, h), &reconciler.Hold{Leases: names, Until: h.began.Add(workFor), MayWrite: h.mayWrite})
	early()
	end()
	if err != nil && held.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %v", reconciler.ErrHoldSpent, err) //nolint:errorlint // its cause decides nothing
	}
	return err
}

// once returns a function that runs f at its first call, and returns when f has returned.
// sync.OnceFunc holds a mutex meanwhile: in a testing/synctest bubble no time would pass
// while a request of f is under way.
func once(f func()) func() {
	var begun atomic.Bool
	done := make(chan struct{})
	return func() {
		if begun.CompareAndSwap(false, true) {
			f()
			close(done)
		}
		<-done
	}
}

// take waits for its turn. The first Lease is the one that everybody waits for:
// the others are not touched before it is held.
func (c *Cluster) take(ctx context.Context, namespace string, names []string) (*leases, error) {
	ctx, cancel := context.WithTimeout(ctx, waitFor)
	defer cancel()
	if err := c.waitUntilFree(ctx, namespace, names); err != nil {
		return nil, fmt.Errorf("%w: %v", reconciler.ErrLeaseBusy, err) //nolint:errorlint // its cause decides nothing
	}
	var last error // that an answer was, and not that there was no more time for one
	for {
		h := &leases{c: c, namespace: namespace, began: time.Now()}
		err := h.take(ctx, names[0])
		if err == nil {
			err = h.takeFree(ctx, names[1:])
			if err == nil {
				return h, nil
			}
			h.giveBack(ctx)
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		switch {
		case apierrors.IsForbidden(err):
			c.noteDenied()
			return nil, fmt.Errorf("%w: %v", reconciler.ErrLeaseForbidden, innermost(err)) //nolint:errorlint // its cause decides nothing
		case ctx.Err() != nil:
			return nil, notInTime(namespace, names, last)
		case !errors.Is(err, errHeld) && !isTransient(err) && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err):
			return nil, fmt.Errorf("take Lease %s in %s: %w", names, namespace, err)
		}
		select {
		case <-ctx.Done():
			return nil, notInTime(namespace, names, last)
		case <-time.After(c.Jitter(pollEvery)):
		}
	}
}

// notInTime tells what others hold, or were faster to take, from what the API server
// refuses: that does not pass with the next ADD.
func notInTime(namespace string, names []string, last error) error {
	if errors.Is(last, errHeld) || apierrors.IsConflict(last) || apierrors.IsAlreadyExists(last) {
		return fmt.Errorf("%w: %v", reconciler.ErrLeaseBusy, last) //nolint:errorlint // its cause decides nothing
	}
	return fmt.Errorf("%w: Lease %s in namespace %s: %v", reconciler.ErrLeaseFailed, names[0], namespace, last) //nolint:errorlint // its cause decides nothing
}

// waitUntilFree waits until the Leases have been left to others for long enough.
func (c *Cluster) waitUntilFree(ctx context.Context, namespace string, names []string) error {
	var free time.Time
	c.mu.Lock()
	for _, name := range names {
		if at := c.notBefore[namespace+"/"+name]; at.After(free) {
			free = at
		}
	}
	c.mu.Unlock()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Until(free)):
		return nil
	}
}

// leases are those that are held together.
type leases struct {
	c         *Cluster
	namespace string
	began     time.Time // before the first of them was asked for

	mu   sync.Mutex
	held []*heldLease
	lost bool // one of them is no longer ours
}

// heldLease is a Lease with the time at which its last confirmed renewal was sent.
type heldLease struct {
	*coordinationv1.Lease
	renewed time.Time
}

func (h *leases) names() (names []string) {
	for _, l := range h.held {
		names = append(names, l.Name)
	}
	return names
}

// takeFree takes those of the Leases that are free, at once. One that is busy, or
// cannot be had now, is left out: its pools wait for another hold.
func (h *leases) takeFree(ctx context.Context, names []string) error {
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { errs[i] = h.take(ctx, name) })
	}
	wg.Wait()
	for i, err := range errs {
		if apierrors.IsForbidden(err) {
			return err
		}
		if err != nil {
			h.c.Log.Debug("a pool's own Lease was not to be had", "lease", names[i], "error", err)
		}
	}
	return nil
}

var errHeld = errors.New("held by somebody else")

// take takes one Lease where it is free, and may be called in parallel.
func (h *leases) take(ctx context.Context, name string) error {
	api := h.c.core.CoordinationV1().Leases(h.namespace)
	l, err := api.Get(ctx, name, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return err
	}
	sent := time.Now()
	now := metav1.NewMicroTime(sent)
	spec := coordinationv1.LeaseSpec{HolderIdentity: &h.c.Identity, LeaseDurationSeconds: ptr.To(int32(1)), AcquireTime: &now, RenewTime: &now, LeaseTransitions: ptr.To(int32(0))}
	if missing {
		l, err = api.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: name}, Spec: spec}, metav1.CreateOptions{FieldManager: fieldManager})
	} else {
		// One that says that it is ours is of a request of which the answer was lost.
		if holder := ptr.Deref(l.Spec.HolderIdentity, ""); holder != "" && holder != h.c.Identity && !h.c.expired(l) {
			return fmt.Errorf("%w: %s", errHeld, holder)
		}
		spec.LeaseTransitions = ptr.To(ptr.Deref(l.Spec.LeaseTransitions, 0) + 1)
		l.Spec = spec
		l, err = api.Update(ctx, l, metav1.UpdateOptions{FieldManager: fieldManager})
	}
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held = append(h.held, &heldLease{l, sent})
	return nil
}

// expired reports whether another's hold has stood unchanged for so long that its
// process must be gone. Its times are by its own clock and count for nothing.
func (c *Cluster) expired(l *coordinationv1.Lease) bool {
	key := l.Namespace + "/" + l.Name
	after := max(expiry, time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, 0))*time.Second)
	c.mu.Lock()
	defer c.mu.Unlock()
	if seen := c.foreignHolds[key]; seen.version == l.ResourceVersion {
		return time.Since(seen.since) > after
	}
	c.foreignHolds[key] = foreignHold{l.ResourceVersion, time.Now()}
	return false
}

// giveBack clears the holders, so that who waits need not wait for the expiry. If
// that fails, a Lease expires by itself.
func (h *leases) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for _, l := range h.held {
		wg.Go(func() { h.clear(ctx, l) })
	}
	wg.Wait()
	off := max(time.Since(h.began), stayOff)
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	for _, l := range h.held {
		h.c.notBefore[h.namespace+"/"+l.Name] = time.Now().Add(off)
	}
}

func (h *leases) clear(ctx context.Context, l *heldLease) {
	api := h.c.core.CoordinationV1().Leases(h.namespace)
	for try := range 2 {
		now := metav1.NowMicro()
		l.Spec.HolderIdentity, l.Spec.RenewTime = ptr.To(""), &now
		_, err := api.Update(ctx, l.Lease, metav1.UpdateOptions{FieldManager: fieldManager})
		if err == nil {
			return
		}
		h.c.Log.Debug("Lease not given back; it expires by itself", "lease", l.Name, "error", err)
		if try > 0 || !apierrors.IsConflict(err) {
			return
		}
		// A renewal was done whose answer was lost.
		current, err := api.Get(ctx, l.Name, metav1.GetOptions{})
		if err != nil || ptr.Deref(current.Spec.HolderIdentity, "") != h.c.Identity {
			return
		}
		l.Lease = current
	}
}

// holdKey is the hold in the context of what is written under it.
type holdKey struct{}

// errNotSent is the error of a write that client-go was about to send, or to send
// again for an answer such as 429, when it was too late for that.
var errNotSent = errors.New("not sent: the hold of whereabouts' Lease is over, or was not renewed")

// maySend reports whether a request may go out now. Nothing is written to pools and reservations outside of a hold but
// what puts a reservation back. What is created under a hold may come late: it finishes what was begun.
func maySend(r *http.Request) bool {
	h, held := r.Context().Value(holdKey{}).(interface{ mayWrite() bool })
	switch {
	case r.Method == http.MethodGet, !strings.Contains(r.URL.Path, "/apis/"+ippool.PoolResource.Group+"/"), reconciler.IsPutBack(r.Context()):
		return true
	case !held:
		return false
	}
	return r.Method == http.MethodPost || h.mayWrite()
}

// unbounded is a hold without a Lease.
type unbounded struct{}

func (unbounded) mayWrite() bool { return true }

// mayWrite reports whether a write may begin: every Lease was renewed so recently
// that it is still ours when the write arrives.
func (h *leases) mayWrite() bool {
	if time.Since(h.began) >= writeFor {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.lost && !slices.ContainsFunc(h.held, func(l *heldLease) bool { return time.Since(l.renewed) >= writeWithin })
}
