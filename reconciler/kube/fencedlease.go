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
	// manyLeases is from how many Leases on each is renewed less often: together they
	// must not take all requests that a client may make.
	manyLeases = 200
	// leastEvery is how often one is renewed then.
	leastEvery = 500 * time.Millisecond
	// stepFor is how long one step at a Lease may take.
	stepFor = time.Second
)

// fencedLease is one Lease of a fence. What its own goroutine alone uses is not under fence.mu.
type fencedLease struct {
	fence *Fence
	types.NamespacedName

	last    *coordinationv1.Lease // as it was written or read last
	isOurs  bool                  // last is our own write
	changed time.Time             // when it was seen to change

	// Under fence.mu:
	lastKept  time.Time // when it was last known to be the fence's, since it is; zero while it is not
	renewed   time.Time // when our own last confirmed renewal was sent
	forbidden bool
}

// stands reports whether the Lease is the fence's.
func (fl *fencedLease) stands() bool {
	return !fl.lastKept.IsZero() && time.Since(fl.lastKept) < expiry
}

// keep keeps the Lease until the context ends.
func (fl *fencedLease) keep(ctx context.Context) {
	for ctx.Err() == nil {
		fl.step(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(fl.fence.pause(fl)):
		}
	}
}

func (f *Fence) pause(fl *fencedLease) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case !fl.stands():
		return f.c.Jitter(pollEvery)
	case len(f.leases) > manyLeases:
		return leastEvery
	}
	return renewEvery
}

// step renews the Lease, or reads it and takes it where the protocol says so.
func (fl *fencedLease) step(ctx context.Context) {
	// Its end does not end a request: an answer that nobody waits for would leave
	// behind a Lease of unknown version.
	request, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepFor)
	defer cancel()
	err := fl.renewOrTake(request)
	fl.fence.mu.Lock()
	defer fl.fence.mu.Unlock()
	if now := apierrors.IsForbidden(err); now != fl.forbidden {
		fl.forbidden, fl.fence.since = now, time.Time{} // until now it was not kept from anybody
	}
	if err != nil {
		fl.fence.c.Log.Debug("a Lease of the fence was not renewed; it is tried again", "lease", fl.String(), "error", err)
	}
	fl.fence.updateStanding()
}

func (fl *fencedLease) renewOrTake(ctx context.Context) error {
	if s := fl.fence.State(); s.EndedByPeer || s.Age >= LongestFence {
		return nil
	}
	if fl.isOurs {
		err := fl.write(ctx, fl.last)
		if err == nil || !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err
		}
		fl.isOurs = false
	}
	l, err := fl.fence.c.lease(ctx, fl.NamespacedName)
	if err != nil {
		return err
	}
	if l == nil {
		return fl.write(ctx, nil)
	}
	fl.fence.mu.Lock()
	follows := fl.stands() && !fl.fence.leading
	fl.fence.mu.Unlock()
	holder := holderOf(l)
	if holder != FenceHolder && follows {
		fl.keptSince(time.Time{})
		fl.fence.mu.Lock()
		defer fl.fence.mu.Unlock()
		fl.fence.endedByPeer = true
		return nil
	}
	if fl.last != nil && transitionsOf(fl.last) != transitionsOf(l) {
		follows = false
		fl.keptSince(time.Time{}) // somebody else has had it in between
	}
	if fl.last == nil || fl.last.ResourceVersion != l.ResourceVersion {
		fl.last, fl.changed = l, time.Now()
	}
	switch {
	case holder == FenceHolder && follows && time.Since(fl.changed) < quietFor:
		fl.keptSince(fl.changed)
		return nil
	case holder == FenceHolder, holder == "", fl.fence.c.expired(l):
		return fl.write(ctx, l)
	}
	fl.keptSince(time.Time{}) // who has it must have its turn
	return nil
}

// keptSince notes when the Lease was last known to be the fence's; zero for one that is not, or was not for a moment.
func (fl *fencedLease) keptSince(at time.Time) {
	fl.fence.mu.Lock()
	defer fl.fence.mu.Unlock()
	if at.IsZero() {
		fl.lastKept, fl.fence.since = at, at
	} else if at.After(fl.lastKept) {
		fl.lastKept = at
	}
}

// write makes the Lease the fence's for another while, where it still is as it was read; nil where there was none.
func (fl *fencedLease) write(ctx context.Context, l *coordinationv1.Lease) error {
	sent, f := time.Now(), fl.fence
	age, isAlive := f.c.fenceOf(l)
	f.mu.Lock()
	began, why := f.began, f.why
	f.mu.Unlock()
	if isAlive && !fl.isOurs && (began.IsZero() || sent.Add(-age).Before(began)) {
		began = sent.Add(-age)
	}
	if began.IsZero() {
		began = sent
	}
	next := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: fl.Namespace, Name: fl.Name}}
	if l != nil {
		next = l.DeepCopy()
	}
	transitions := transitionsOf(next)
	if holderOf(next) != FenceHolder {
		transitions++
	}
	next.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To(FenceHolder), LeaseDurationSeconds: ptr.To(int32(fenceLeaseDuration / time.Second)),
		AcquireTime: ptr.To(metav1.NewMicroTime(began)), RenewTime: ptr.To(metav1.NewMicroTime(sent)), LeaseTransitions: &transitions,
	}
	if !isAlive || next.Annotations[RestoredAnnotation] == "" { // what a remnant says counts for nothing
		annotate(next, why)
	}
	api := f.c.core.CoordinationV1().Leases(fl.Namespace)
	var err error
	if l == nil {
		next, err = api.Create(ctx, next, metav1.CreateOptions{FieldManager: fieldManager})
	} else {
		next, err = api.Update(ctx, next, metav1.UpdateOptions{FieldManager: fieldManager})
	}
	if err != nil {
		return err
	}
	fl.last, fl.isOurs, fl.changed = next, true, time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	fl.lastKept, fl.renewed = sent, sent
	if f.began.IsZero() || began.Before(f.began) {
		f.began = began
	}
	return nil
}

// giveBack clears the holder. A replica that does not lead does so only where it wrote last.
func (fl *fencedLease) giveBack(ctx context.Context) {
	fl.fence.mu.Lock()
	leads := fl.fence.leading
	fl.fence.mu.Unlock()
	for range 3 {
		if fl.last == nil || !fl.isOurs && !leads || holderOf(fl.last) != FenceHolder {
			return
		}
		next := fl.last.DeepCopy()
		annotate(next, "")
		next.Spec.HolderIdentity, next.Spec.RenewTime = ptr.To(""), ptr.To(metav1.NowMicro())
		_, err := fl.fence.c.core.CoordinationV1().Leases(fl.Namespace).Update(ctx, next, metav1.UpdateOptions{FieldManager: fieldManager})
		if err == nil {
			return
		}
		fl.fence.c.Log.Debug("a Lease of the fence was not given back", "lease", fl.String(), "error", err)
		if !leads || !apierrors.IsConflict(err) {
			return
		}
		if fl.last, err = fl.fence.c.lease(ctx, fl.NamespacedName); err != nil {
			return
		}
	}
}

// annotate writes what shows that etcd was restored; "" for nothing.
func annotate(l *coordinationv1.Lease, why string) {
	if why == "" {
		delete(l.Annotations, RestoredAnnotation)
		return
	}
	metav1.SetMetaDataAnnotation(&l.ObjectMeta, RestoredAnnotation, why)
}

// lease reads a Lease by quorum; nil where there is none.
func (c *Cluster) lease(ctx context.Context, at types.NamespacedName) (*coordinationv1.Lease, error) {
	l, err := c.core.CoordinationV1().Leases(at.Namespace).Get(ctx, at.Name, metav1.GetOptions{})
	if absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

func transitionsOf(l *coordinationv1.Lease) int32 { return ptr.Deref(l.Spec.LeaseTransitions, 0) }

func holderOf(l *coordinationv1.Lease) string { return ptr.Deref(l.Spec.HolderIdentity, "") }
