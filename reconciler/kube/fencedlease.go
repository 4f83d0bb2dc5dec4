package kube

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
)

const (
	// manyLeases is from how many Leases on each is renewed only every leastEvery, because of the client's rate limit.
	manyLeases = 200
	leastEvery = 500 * time.Millisecond
	stepFor    = time.Second // the timeout of one step
)

// fencedLease is one Lease of a fence.
type fencedLease struct {
	*Fence
	at types.NamespacedName

	// Used only by the Lease's own goroutine:
	last   *coordinationv1.Lease // as last written or read
	isOurs bool                  // this process wrote last

	// Under mu:
	lastHeld    time.Time // when the Lease was last known to be the fence's; zero while it is not
	isForbidden bool
	lastByOther time.Time // when this process last read that another one, or a request without an answer, had renewed it
}

// isHeld reports whether the Lease is the fence's.
func (l *fencedLease) isHeld() bool { return time.Since(l.lastHeld) < expiry }

// keep keeps the Lease until the context ends.
func (l *fencedLease) keep(ctx context.Context) {
	for ctx.Err() == nil {
		// The end of the fence does not cancel a request, because the version of the Lease would be unknown then.
		request, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepFor)
		err := l.renewOrTake(request)
		cancel()
		if err != nil {
			l.c.Log.Debug("Could not renew a Lease of the fence", "lease", l.at.String(), "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(l.noteStep(err)):
		}
	}
}

// noteStep records the result of a step, and returns the pause before the next one.
func (l *fencedLease) noteStep(err error) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := apierrors.IsForbidden(err); now != l.isForbidden {
		l.isForbidden, l.standingSince = now, time.Time{} // until now others could take the Lease
	}
	l.updateSince()
	switch {
	case !l.isHeld():
		return l.c.Jitter(pollEvery)
	case len(l.leases) > manyLeases:
		return leastEvery
	}
	return renewEvery
}

// renewOrTake renews the Lease, or reads it and takes it if the protocol says so.
func (l *fencedLease) renewOrTake(ctx context.Context) error {
	if s := l.State(); s.IsEndedByPeer || s.Age >= restore.LongestFence {
		return nil
	}
	if l.isOurs {
		err := l.write(ctx, l.last)
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err
		}
		l.isOurs = false
	}
	now, err := l.c.lease(ctx, l.at)
	if err != nil {
		return err
	}
	before := l.last
	l.last = now
	_, isAlive := l.c.fenceOf(now)
	l.mu.Lock()
	if isAlive && (before == nil || before.ResourceVersion != now.ResourceVersion) {
		l.lastByOther = time.Now()
	}
	follows := l.isHeld() && !l.isLeader
	if follows && now.ResourceVersion != "" && holderOf(now) != FenceHolder {
		l.lastHeld, l.standingSince, l.isEndedByPeer = time.Time{}, time.Time{}, true
		l.mu.Unlock()
		return nil
	}
	if before != nil && transitionsOf(before) != transitionsOf(now) { // somebody else held it in between
		l.lastHeld, l.standingSince, follows = time.Time{}, time.Time{}, false
	}
	l.mu.Unlock()
	switch unchanged := l.c.unchangedFor(now); {
	case holderOf(now) == FenceHolder && follows && unchanged < quietPeriod:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lastHeld = time.Now().Add(-unchanged)
		return nil
	case holderOf(now) == FenceHolder, holderOf(now) == "", l.c.isExpired(now):
		return l.write(ctx, now)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lastHeld, l.standingSince = time.Time{}, time.Time{} // the holder must have its turn
	return nil
}

// write takes or renews the Lease for the fence, if the Lease is still as it was read.
func (l *fencedLease) write(ctx context.Context, was *coordinationv1.Lease) error {
	sent := time.Now()
	age, isAlive := l.c.fenceOf(was)
	l.mu.Lock()
	began := l.start
	l.mu.Unlock()
	if carried := sent.Add(-age); began.IsZero() || isAlive && !l.isOurs && carried.Before(began) {
		began = carried
	}
	next, transitions := was.DeepCopy(), transitionsOf(was)
	if holderOf(was) != FenceHolder {
		transitions++
	}
	next.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To(FenceHolder), LeaseDurationSeconds: ptr.To(int32(fenceLeaseDuration / time.Second)),
		AcquireTime: ptr.To(metav1.NewMicroTime(began)), RenewTime: ptr.To(metav1.NewMicroTime(sent)),
		LeaseTransitions: &transitions,
	}
	next, err := l.c.writeLease(ctx, next)
	if err != nil {
		return err
	}
	l.last, l.isOurs = next, true
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lastHeld = sent
	if l.start.IsZero() || began.Before(l.start) {
		l.start = began
	}
	return nil
}
