package kube

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

const (
	// manyLeases is from how many Leases on each is renewed less often, every leastEvery: together they must not take
	// all requests that a client may make.
	manyLeases = 200
	leastEvery = 500 * time.Millisecond
	// stepFor is how long one step at a Lease may take.
	stepFor = time.Second
)

// fencedLease is one Lease of a fence.
type fencedLease struct {
	*Fence
	at types.NamespacedName

	// Only the Lease's own goroutine uses these:
	last   *coordinationv1.Lease // as it was written or read last
	isOurs bool                  // last is our own write

	// Under mu:
	kept      time.Time // when it was last known to be the fence's; zero while it is not
	forbidden bool
}

// isHeld reports whether the Lease is the fence's.
func (l *fencedLease) isHeld() bool { return time.Since(l.kept) < expiry }

// keep keeps the Lease until the context ends.
func (l *fencedLease) keep(ctx context.Context) {
	for ctx.Err() == nil {
		// The end of the fence does not end a request: an answer that nobody waits for leaves a Lease of unknown
		// version behind.
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

// noteStep notes how a step ended, and returns when the next one is due.
func (l *fencedLease) noteStep(err error) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := apierrors.IsForbidden(err); now != l.forbidden {
		l.forbidden, l.since = now, time.Time{} // until now it was not kept from anybody
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

// renewOrTake renews the Lease, or reads it and takes it where the protocol says so.
func (l *fencedLease) renewOrTake(ctx context.Context) error {
	if s := l.State(); s.IsEndedByPeer || s.Age >= LongestFence {
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
	l.mu.Lock()
	follows := l.isHeld() && !l.leading
	if follows && now.ResourceVersion != "" && holderOf(now) != FenceHolder {
		l.kept, l.since, l.endedByPeer = time.Time{}, time.Time{}, true
		l.mu.Unlock()
		return nil
	}
	if before != nil && transitionsOf(before) != transitionsOf(now) { // somebody else has had it in between
		l.kept, l.since, follows = time.Time{}, time.Time{}, false
	}
	l.mu.Unlock()
	switch unchanged := l.c.unchangedFor(now); {
	case holderOf(now) == FenceHolder && follows && unchanged < quietFor:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.kept = time.Now().Add(-unchanged)
		return nil
	case holderOf(now) == FenceHolder, holderOf(now) == "", l.c.isExpired(now):
		return l.write(ctx, now)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept, l.since = time.Time{}, time.Time{} // who has it must have its turn
	return nil
}

// write makes the Lease the fence's for another while, where it is still as it was read.
func (l *fencedLease) write(ctx context.Context, was *coordinationv1.Lease) error {
	sent := time.Now()
	age, isAlive := l.c.fenceOf(was)
	l.mu.Lock()
	began := l.began
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
		AcquireTime: ptr.To(metav1.NewMicroTime(began)), RenewTime: ptr.To(metav1.NewMicroTime(sent)), LeaseTransitions: &transitions,
	}
	if !isAlive || next.Annotations[RestoredAnnotation] == "" { // what a remnant says counts for nothing
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, RestoredAnnotation, l.why)
		if l.why == "" {
			delete(next.Annotations, RestoredAnnotation)
		}
	}
	next, err := l.c.writeLease(ctx, next)
	if err != nil {
		return err
	}
	l.last, l.isOurs = next, true
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = sent
	if l.began.IsZero() || began.Before(l.began) {
		l.began = began
	}
	return nil
}
