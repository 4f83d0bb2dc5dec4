package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// whereabouts' ADD and DEL elect a leader for each call: lease 1.5 s, renewed within 1 s, retried every 0.5 s and a
// little more (v0.9.4, pkg/types/types.go, DefaultLeader*; client-go, tools/leaderelection). A hold is renewed as
// theirs is, and bounded, so that ADDs get their turn. client-go's elector neither bounds a hold nor takes several Leases.
const (
	workFor   = 2 * time.Second // then a hold should come to its end
	writeFor  = 4 * time.Second // then no write begins any more
	holdFor   = 5 * time.Second // then it ends, whatever is in progress
	stayOff   = 1500 * time.Millisecond
	expiry    = 1500 * time.Millisecond // a holder that does not renew for so long is gone
	pollEvery = 120 * time.Millisecond
	waitFor   = 45 * time.Second // an ADD waits up to 2 min for its turn
	// renewEvery leaves room for a second try within writeWithin.
	renewEvery = 250 * time.Millisecond
	// writeWithin is how long after a renewal was sent, which the server has confirmed, a write may begin: others may
	// take the Lease 1.5 s after they saw the renewal.
	writeWithin = 700 * time.Millisecond
)

var errHeld = errors.New("another process holds it")

// leases are those that are held together.
type leases struct {
	c         *Cluster
	namespace string
	began     time.Time // before the first of them was requested

	mu   sync.Mutex
	held []*heldLease
}

// heldLease is a Lease as this process wrote it last.
type heldLease struct {
	*coordinationv1.Lease
	renewed time.Time // when its last confirmed renewal was sent; zero for a Lease that is lost
}

// Hold takes the first of the Leases, and of the others those that are free, and runs work. The Leases are renewed
// meanwhile. Afterwards they are left to others for at least as long as they were held, and 1.5 s. Under the fence the
// work runs at once, with those of the Leases that the fence holds.
func (c *Cluster) Hold(ctx context.Context, namespace string, names []string, work func(context.Context, *reconciler.Hold) error) error {
	if c.WithoutLease {
		return work(context.WithValue(ctx, holdKey{}, unbounded{}), &reconciler.Hold{})
	}
	if f := c.fence.heldBy(namespace, names); f != nil {
		return c.holdFenced(ctx, f, work)
	}
	h, err := c.take(ctx, namespace, names)
	if err != nil {
		return err
	}
	held, cancel := context.WithDeadline(ctx, h.began.Add(holdFor))
	defer cancel()
	hold := &reconciler.Hold{Until: h.began.Add(workFor), MayWrite: h.mayWrite}
	var renewals sync.WaitGroup
	for _, l := range h.held {
		hold.Leases = append(hold.Leases, l.Name)
		renewals.Go(func() { h.keep(held, l, cancel) })
	}
	givenBack := make(chan struct{})
	context.AfterFunc(held, func() { // a write whose answer is still awaited keeps nobody waiting
		renewals.Wait()
		h.giveBack(ctx)
		close(givenBack)
	})
	err = work(context.WithValue(held, holdKey{}, h), hold)
	err = spent(ctx, held, err)
	cancel()
	<-givenBack
	return err
}

// spent is ErrHoldSpent where work failed since its hold had ended.
func spent(ctx, held context.Context, err error) error {
	if err != nil && held.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %v", reconciler.ErrHoldSpent, err) //nolint:errorlint // its cause decides nothing
	}
	return err
}

// take waits for its turn. Everybody waits for the first Lease: the others are not touched before it is held.
func (c *Cluster) take(ctx context.Context, namespace string, names []string) (*leases, error) {
	ctx, cancel := context.WithTimeout(ctx, waitFor)
	defer cancel()
	last := errHeld // the last answer; the end of the time is none
	for pause := c.leftToOthers(namespace, names); ; pause = c.Jitter(pollEvery) {
		select {
		case <-ctx.Done():
			why := reconciler.ErrLeaseFailed
			if errors.Is(last, errHeld) || apierrors.IsConflict(last) || apierrors.IsAlreadyExists(last) {
				why = reconciler.ErrLeaseBusy
			}
			return nil, fmt.Errorf("%w: Lease %s in namespace %s: %v", why, names[0], namespace, last) //nolint:errorlint // its cause decides nothing
		case <-time.After(pause):
		}
		h := &leases{c: c, namespace: namespace, began: time.Now()}
		err := h.takeAll(ctx, names)
		switch {
		case err == nil:
			return h, nil
		case apierrors.IsForbidden(err):
			c.noteDenied()
			return nil, fmt.Errorf("%w: %v", reconciler.ErrLeaseForbidden, innermost(err)) //nolint:errorlint // its cause decides nothing
		case ctx.Err() == nil:
			last = err
		}
	}
}

// leftToOthers is for how long the Leases are still left to others.
func (c *Cluster) leftToOthers(namespace string, names []string) (pause time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range names {
		pause = max(pause, time.Until(c.notBefore[namespace+"/"+name]))
	}
	return pause
}

// takeAll takes the first of the Leases, and of the others at once those that are free. The pools of a Lease that is
// busy, or cannot be had now, wait for another hold.
func (h *leases) takeAll(ctx context.Context, names []string) error {
	if err := h.take(ctx, names[0]); err != nil {
		return err
	}
	others := names[1:]
	errs := make([]error, len(others))
	var wg sync.WaitGroup
	for i, name := range others {
		wg.Go(func() { errs[i] = h.take(ctx, name) })
	}
	wg.Wait()
	for i, err := range errs {
		if apierrors.IsForbidden(err) {
			h.giveBack(ctx)
			return err
		}
		if err != nil {
			h.c.Log.Debug("Could not take the Lease of a pool", "lease", others[i], "error", err)
		}
	}
	return nil
}

// take takes one Lease where it is free, and may be called in parallel.
func (h *leases) take(ctx context.Context, name string) error {
	l, err := h.c.lease(ctx, types.NamespacedName{Namespace: h.namespace, Name: name})
	if err != nil {
		return err
	}
	// One that names us is of a request whose answer was lost.
	if holder := holderOf(l); holder != "" && holder != h.c.Identity && !h.c.isExpired(l) {
		return fmt.Errorf("%w: %s", errHeld, holder)
	}
	sent := time.Now()
	now, transitions := metav1.NewMicroTime(sent), transitionsOf(l)+1
	l.Spec = coordinationv1.LeaseSpec{HolderIdentity: &h.c.Identity, LeaseDurationSeconds: ptr.To(int32(1)),
		AcquireTime: &now, RenewTime: &now, LeaseTransitions: &transitions}
	if l, err = h.c.writeLease(ctx, l); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held = append(h.held, &heldLease{l, sent})
	return nil
}

// keep renews a Lease until the hold ends. One that is lost ends the hold.
func (h *leases) keep(held context.Context, l *heldLease, end context.CancelFunc) {
	for {
		select {
		case <-held.Done():
			return
		case <-time.After(renewEvery):
		}
		if !h.renew(l) {
			end()
			return
		}
	}
}

// renew reports whether the Lease is still ours: it is not after a conflict, or when others may have taken it. The
// request does not end with the hold: an answer that nobody waits for leaves a Lease of unknown version behind.
func (h *leases) renew(l *heldLease) bool {
	ctx, cancel := context.WithDeadline(context.Background(), l.renewed.Add(expiry))
	defer cancel()
	sent := time.Now()
	next := l.DeepCopy()
	next.Spec.RenewTime = ptr.To(metav1.NewMicroTime(sent))
	next, err := h.c.writeLease(ctx, next)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil:
		l.Lease, l.renewed = next, sent
		return true
	case apierrors.IsConflict(err), apierrors.IsNotFound(err), ctx.Err() != nil:
		l.renewed = time.Time{}
	}
	h.c.Log.Debug("Could not renew a held Lease", "lease", l.Name, "lost", l.renewed.IsZero(), "error", err)
	return !l.renewed.IsZero()
}

// giveBack clears the holders, so that nobody has to wait for the expiry. A Lease for which that fails expires.
func (h *leases) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for _, l := range h.held {
		wg.Go(func() { h.c.clearLease(ctx, l.Lease, h.c.Identity) })
	}
	wg.Wait()
	for _, l := range h.held {
		h.c.leaveToOthers(h.namespace+"/"+l.Name, max(time.Since(h.began), stayOff))
	}
}

func (c *Cluster) leaveToOthers(lease string, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notBefore[lease] = time.Now().Add(d)
}

// mayWrite reports whether a write may begin: every Lease was renewed so recently that it is still ours when the write
// arrives.
func (h *leases) mayWrite() bool {
	if time.Since(h.began) >= writeFor {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return !slices.ContainsFunc(h.held, func(l *heldLease) bool { return time.Since(l.renewed) >= writeWithin })
}

// unbounded is a hold without a Lease.
type unbounded struct{}

func (unbounded) mayWrite() bool { return true }

// holdKey is the hold in the context of what is written under it.
type holdKey struct{}

// errNotSent is the error of a write that client-go was about to send, or to send again for an answer such as 429,
// when it was too late for that.
var errNotSent = errors.New("not sent: the hold of whereabouts' Lease is over, or was not renewed")

// maySend reports whether a request may go out now. Outside of a hold the only write to pools and reservations is one
// that puts a reservation back. What is created under a hold may come late: it finishes what was begun.
func maySend(r *http.Request) bool {
	h, held := r.Context().Value(holdKey{}).(interface{ mayWrite() bool })
	switch {
	case r.Method == http.MethodGet, !strings.Contains(r.URL.Path, "/apis/"+ippool.PoolResource.Group+"/"), reconciler.IsRollback(r.Context()):
		return true
	case !held:
		return false
	}
	return r.Method == http.MethodPost || h.mayWrite()
}

// lease reads a Lease by quorum. One that does not exist has no resourceVersion.
func (c *Cluster) lease(ctx context.Context, at types.NamespacedName) (*coordinationv1.Lease, error) {
	l, err := c.core.CoordinationV1().Leases(at.Namespace).Get(ctx, at.Name, metav1.GetOptions{})
	if absent(err) {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name}}, nil
	}
	return l, err
}

// writeLease creates a Lease that did not exist when it was read, or updates one that is still as it was read.
func (c *Cluster) writeLease(ctx context.Context, l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	api := c.core.CoordinationV1().Leases(l.Namespace)
	if l.ResourceVersion == "" {
		return api.Create(ctx, l, metav1.CreateOptions{FieldManager: fieldManager})
	}
	return api.Update(ctx, l, metav1.UpdateOptions{FieldManager: fieldManager})
}

// clearLease clears the holder of a Lease. After a conflict it reads the Lease again: the answer to a renewal may have
// been lost.
func (c *Cluster) clearLease(ctx context.Context, l *coordinationv1.Lease, holder string) {
	for range 3 {
		next := l.DeepCopy()
		delete(next.Annotations, RestoredAnnotation)
		next.Spec.HolderIdentity, next.Spec.RenewTime = ptr.To(""), ptr.To(metav1.NowMicro())
		_, err := c.writeLease(ctx, next)
		if err == nil {
			return
		}
		c.Log.Debug("Could not give a Lease back; it expires", "lease", l.Namespace+"/"+l.Name, "error", err)
		if !apierrors.IsConflict(err) {
			return
		}
		if l, err = c.lease(ctx, types.NamespacedName{Namespace: l.Namespace, Name: l.Name}); err != nil || holderOf(l) != holder {
			return
		}
	}
}

// isExpired reports whether another's hold has stood unchanged for so long that its process must be gone.
func (c *Cluster) isExpired(l *coordinationv1.Lease) bool {
	return c.unchangedFor(l) > max(expiry, time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, 0))*time.Second)
}

// foreignHold is another's hold of a Lease as it was first seen.
type foreignHold struct {
	version string
	since   time.Time
}

// unchangedFor is for how long this process has seen a Lease unchanged. Its own times are by the clock of its holder
// and count for nothing, as in every leader election.
func (c *Cluster) unchangedFor(l *coordinationv1.Lease) time.Duration {
	key := l.Namespace + "/" + l.Name
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.foreignHolds[key].version != l.ResourceVersion {
		c.foreignHolds[key] = foreignHold{l.ResourceVersion, time.Now()}
	}
	return time.Since(c.foreignHolds[key].since)
}

func transitionsOf(l *coordinationv1.Lease) int32 { return ptr.Deref(l.Spec.LeaseTransitions, 0) }

func holderOf(l *coordinationv1.Lease) string { return ptr.Deref(l.Spec.HolderIdentity, "") }
