package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
)

// whereabouts' ADD and DEL elect a leader for each call: lease 1.5 s, renewed within 1 s, retried every 0.5 s and a
// little more (v0.9.4, pkg/types/types.go, DefaultLeader*; client-go, tools/leaderelection). A hold is renewed in the
// same way, and bounded, so that ADDs get their turn. client-go's elector neither bounds a hold nor takes several
// Leases.
const (
	workFor    = 2 * time.Second // then no new work begins
	longWork   = 3 * time.Second // the same where nobody took the Leases since the hold before
	writeFor   = 4 * time.Second // then no write begins
	minStayOff = 1500 * time.Millisecond
	// idleAfter is when a cleared Lease that nobody took shows that no ADD waits: they retry every 0.5 to 1.1 s.
	idleAfter  = 1250 * time.Millisecond
	expiry     = 1500 * time.Millisecond // without a renewal for so long a hold is over
	longestADD = 2 * time.Minute         // then whereabouts ends an ADD (pkg/types/types.go, AddTimeLimit)
	pollEvery  = 120 * time.Millisecond
	waitFor    = 45 * time.Second       // less than an ADD waits for its turn
	renewEvery = 250 * time.Millisecond // leaves room for a second try within writeWithin
	// writeWithin is how long after the last confirmed renewal a write may begin: others may take the Lease after 1.5 s.
	writeWithin = 700 * time.Millisecond
)

var (
	errHeldByOther = errors.New("another process holds it")
	errNoAnswer    = errors.New("the API server did not answer")
	errPeerFence   = errors.New("the fence of another replica holds it, and this process joins that")
	errOthersWait  = errors.New("others took it in turn") // so this process yields it for its whole time
)

// leases are the Leases of one hold.
type leases struct {
	c         *Cluster
	namespace string
	start     time.Time // before the first one was requested

	mu        sync.Mutex
	all       []*heldLease
	forbidden []string // of the pools' Leases
}

// heldLease is a Lease as this process wrote it last.
type heldLease struct {
	*coordinationv1.Lease
	renewedAt time.Time // start of its last confirmed renewal; zero for a lost Lease
	isWanted  bool      // others may have taken it since this process cleared it
}

// Hold takes the first of the Leases, and of the others those that are free, renews them, and runs work. Afterwards
// this process yields them for at least as long as it held them, and 1.5 s; for less if no ADD waits. Under the fence
// the work runs at once, with those of the Leases that the fence holds.
func (c *Cluster) Hold(ctx context.Context, namespace string, names []string, work apply.Work) error {
	if c.WithoutLease {
		return c.inSession(ctx, bounds{mayWrite: func() bool { return true }}, work)
	}
	if f := c.fence.holdOn(namespace, names); f != nil {
		return c.holdUnderFence(ctx, f, work)
	}
	h, err := c.take(ctx, namespace, names)
	if err != nil {
		return err
	}
	held, cancel := context.WithDeadline(ctx, h.start.Add(apply.MaxHold))
	defer cancel()
	b := bounds{until: h.start.Add(longWork), mayWrite: h.mayWrite, forbidden: h.forbidden}
	var renewals sync.WaitGroup
	for _, l := range h.all {
		if l.isWanted {
			b.until = h.start.Add(workFor)
		}
		b.leases = append(b.leases, l.Name)
		renewals.Go(func() { h.keep(held, l, cancel) })
	}
	cleared := make(chan struct{})
	context.AfterFunc(held, func() { // a pending answer does not keep others waiting
		renewals.Wait()
		h.clearAll(ctx)
		close(cleared)
	})
	err = asHoldSpent(ctx, held, c.inSession(held, b, work))
	cancel()
	<-cleared
	return err
}

// asHoldSpent returns ErrHoldSpent if work failed because its hold had ended, else err.
func asHoldSpent(ctx, held context.Context, err error) error {
	if err != nil && held.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %v", apply.ErrHoldSpent, err) //nolint:errorlint // only text
	}
	return err
}

// take waits for its turn. The first Lease is shared by all: the others are not touched before it is held.
func (c *Cluster) take(work context.Context, namespace string, names []string) (*leases, error) {
	ctx, cancel := context.WithTimeout(work, waitFor)
	defer cancel()
	last := errNoAnswer // the last answer, without the timeout itself
	var holder string   // another process, and since when this one has read that
	var since time.Time
	for pause := c.yieldTime(namespace, names); ; pause = c.Jitter(pollEvery) {
		select {
		case <-ctx.Done():
			if errors.Is(work.Err(), context.Canceled) {
				return nil, work.Err()
			}
			why := apply.ErrLeaseFailed
			if isBusy(last) {
				why = apply.ErrLeaseBusy
			}
			//nolint:errorlint // only text
			return nil, fmt.Errorf("%w: Lease %s in namespace %s: %v", why, names[0], namespace, last)
		case <-time.After(pause):
		}
		h := &leases{c: c, namespace: namespace, start: time.Now()}
		err := h.takeAll(ctx, names)
		if errors.Is(err, errOthersWait) {
			last = err
			continue
		}
		if isHeld := errors.Is(err, errHeldByOther); isHeld && err.Error() != holder || err == nil {
			if holder != "" {
				c.OnForeignHold(h.start.Sub(since))
			}
			holder, since = fmt.Sprint(err), h.start
		}
		switch {
		case err == nil:
			return h, nil
		case errors.Is(err, errPeerFence):
			c.OnPeerFence()
			//nolint:errorlint // only text
			return nil, fmt.Errorf("%w: Lease %s in namespace %s: %v", apply.ErrLeaseBusy, names[0], namespace, err)
		case apierrors.IsForbidden(err):
			c.OnDenied()
			return nil, fmt.Errorf("%w: %v", apply.ErrLeaseForbidden, innermost(err)) //nolint:errorlint // only text
		case !isOver(ctx):
			last = err
		}
	}
}

// isBusy reports whether an answer shows that others hold the Lease, or have just taken it.
func isBusy(answer error) bool {
	return errors.Is(answer, errHeldByOther) || errors.Is(answer, errOthersWait) ||
		apierrors.IsConflict(answer) || apierrors.IsAlreadyExists(answer)
}

// isOver reports whether the time of a context is over. Its timer may fire late, and until then client-go's rate
// limiter answers for the API server.
func isOver(ctx context.Context) bool {
	end, isBounded := ctx.Deadline()
	return ctx.Err() != nil || isBounded && !time.Now().Before(end)
}

// yield is how this process yields a Lease.
type yield struct {
	idle, until time.Time
	version     string // of the Lease when it was cleared; "" where that failed
}

// yieldTime is how long this process still yields the Leases at least. Pools' Leases are yielded for the whole time.
func (c *Cluster) yieldTime(namespace string, names []string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	pause := time.Until(c.yields[namespace+"/"+names[0]].idle)
	for _, name := range names[1:] {
		pause = max(pause, time.Until(c.yields[namespace+"/"+name].until))
	}
	return pause
}

// usedByOthers reports whether a Lease may have changed since this process cleared it, and whether this process must
// still yield it then.
func (c *Cluster) usedByOthers(l *coordinationv1.Lease) (isWanted, mustYield bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	y := c.yields[l.Namespace+"/"+l.Name]
	isWanted = y.version == "" || l.ResourceVersion != y.version
	return isWanted, isWanted && time.Now().Before(y.until)
}

// takeAll takes the first of the Leases, and of the others at once those that are free and can be taken.
func (h *leases) takeAll(ctx context.Context, names []string) error {
	if err := h.take(ctx, names[0]); err != nil {
		return err
	}
	var others sync.WaitGroup
	for _, name := range names[1:] {
		others.Go(func() {
			err := h.take(ctx, name)
			if err != nil {
				h.c.Log.Debug("Could not take the Lease of a pool", "lease", name, "error", err)
			}
			if apierrors.IsForbidden(err) {
				h.noteForbidden(name)
			}
		})
	}
	others.Wait()
	return nil
}

// noteForbidden records a pool's Lease that RBAC forbids.
func (h *leases) noteForbidden(name string) {
	h.c.OnDenied()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forbidden = append(h.forbidden, name)
}

// take takes one Lease if it is free. It is safe for use by several goroutines.
func (h *leases) take(ctx context.Context, name string) error {
	l, err := h.c.lease(ctx, types.NamespacedName{Namespace: h.namespace, Name: name})
	if err != nil {
		return err
	}
	isWanted, mustYield := h.c.usedByOthers(l)
	if mustYield {
		return errOthersWait
	}
	// A Lease with our identity is of a request whose answer was lost.
	if holder := holderOf(l); holder != "" && holder != h.c.Identity && !h.c.isExpired(l) {
		if age, isAlive := h.c.fenceOf(l); h.c.OnPeerFence != nil && isAlive && age < restore.LongestFence {
			return errPeerFence
		}
		return fmt.Errorf("%w: %s", errHeldByOther, holder)
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
	h.all = append(h.all, &heldLease{l, sent, isWanted})
	return nil
}

// keep renews a Lease until the hold ends. A lost Lease ends the hold.
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

// renew renews a Lease and reports whether it is still ours. After a conflict, or when others may have taken it, it is
// not. The end of the hold does not cancel the request, because the version of the Lease would be unknown then.
func (h *leases) renew(l *heldLease) bool {
	ctx, cancel := context.WithDeadline(context.Background(), l.renewedAt.Add(expiry))
	defer cancel()
	sent := time.Now()
	next := l.DeepCopy()
	next.Spec.RenewTime = ptr.To(metav1.NewMicroTime(sent))
	next, err := h.c.writeLease(ctx, next)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil:
		l.Lease, l.renewedAt = next, sent
		return true
	case apierrors.IsConflict(err), apierrors.IsNotFound(err), ctx.Err() != nil:
		l.renewedAt = time.Time{}
	}
	h.c.Log.Debug("Could not renew a held Lease", "lease", l.Name, "lost", l.renewedAt.IsZero(), "error", err)
	return !l.renewedAt.IsZero()
}

// clearAll clears the holders, so that nobody waits for the expiry. After a failure the Lease expires.
func (h *leases) clearAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for _, l := range h.all {
		wg.Go(func() {
			version := h.c.clearLease(ctx, l.Lease, h.c.Identity)
			h.c.yieldFor(h.namespace+"/"+l.Name, max(time.Since(h.start), minStayOff), version)
		})
	}
	wg.Wait()
}

// yieldFor keeps this process from taking a Lease for a while, at most until it is known that no ADD waits.
func (c *Cluster) yieldFor(lease string, d time.Duration, cleared string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.yields[lease] = yield{idle: now.Add(min(d, idleAfter)), until: now.Add(d), version: cleared}
}

// mayWrite reports whether every Lease was renewed so recently that it is still ours when a write arrives.
func (h *leases) mayWrite() bool {
	if time.Since(h.start) >= writeFor {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return !slices.ContainsFunc(h.all, func(l *heldLease) bool { return time.Since(l.renewedAt) >= writeWithin })
}

// lease reads a Lease by quorum. A Lease that does not exist has no resourceVersion.
func (c *Cluster) lease(ctx context.Context, at types.NamespacedName) (*coordinationv1.Lease, error) {
	l, err := c.core.CoordinationV1().Leases(at.Namespace).Get(ctx, at.Name, metav1.GetOptions{})
	if isAbsent(err) {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name}}, nil
	}
	return l, err
}

// writeLease creates a Lease without resourceVersion, and updates any other at its resourceVersion.
func (c *Cluster) writeLease(ctx context.Context, l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	api := c.core.CoordinationV1().Leases(l.Namespace)
	if l.ResourceVersion == "" {
		return api.Create(ctx, l, metav1.CreateOptions{FieldManager: fieldManager})
	}
	return api.Update(ctx, l, metav1.UpdateOptions{FieldManager: fieldManager})
}

// clearLease clears the holder of a Lease, and returns its resourceVersion then; "" after a failure. It reads the Lease
// again after a conflict, maybe with an own renewal.
func (c *Cluster) clearLease(ctx context.Context, l *coordinationv1.Lease, holder string) (resourceVersion string) {
	for range 3 {
		next, err := c.clearLeaseAt(ctx, l)
		if err == nil {
			return next.ResourceVersion
		}
		c.Log.Debug("Could not clear a Lease; it expires", "lease", l.Namespace+"/"+l.Name, "error", err)
		if !apierrors.IsConflict(err) {
			return ""
		}
		l, err = c.lease(ctx, types.NamespacedName{Namespace: l.Namespace, Name: l.Name})
		if err != nil || holderOf(l) != holder {
			return ""
		}
	}
	return ""
}

// clearLeaseAt clears the holder of a Lease that is still as it was last read or written.
func (c *Cluster) clearLeaseAt(ctx context.Context, l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	next := l.DeepCopy()
	next.Spec.HolderIdentity, next.Spec.RenewTime = ptr.To(""), ptr.To(metav1.NowMicro())
	return c.writeLease(ctx, next)
}

// isExpired reports whether another process has not renewed a Lease for so long that it must have ended. The duration
// in the Lease counts, as in whereabouts' election, up to longestADD: one write could block all releases for 68 years.
func (c *Cluster) isExpired(l *coordinationv1.Lease) bool {
	duration := time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, 0)) * time.Second
	return c.unchangedFor(l) > max(expiry, min(duration, longestADD))
}

// foreignHold is the version of a Lease that another process holds, and since when this process has read it.
type foreignHold struct {
	version string
	since   time.Time
}

// unchangedFor is how long this process has read the same version of a Lease. The times in the Lease are by the clock
// of its holder and do not count, as in every leader election.
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
