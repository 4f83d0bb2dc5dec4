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

// fencedLease is one Lease of a fence. What its own goroutine alone uses is not under f.mu.
type fencedLease struct {
	f *Fence
	types.NamespacedName

	last        *coordinationv1.Lease // as it was written or seen last
	writtenByUs bool                  // by us
	changed     time.Time             // when it was seen to change

	announced bool // with what shows that etcd was restored

	// Under f.mu:
	lastKept  time.Time // when it was last known to be the fence's, since it is; zero while it is not
	renewed   time.Time // when our own last confirmed renewal was sent
	forbidden bool
}

// stands reports whether the Lease is the fence's.
func (p *fencedLease) stands() bool { return !p.lastKept.IsZero() && time.Since(p.lastKept) < expiry }

// keep keeps the Lease until the context ends.
func (p *fencedLease) keep(ctx context.Context) {
	for ctx.Err() == nil {
		p.step(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(p.f.pause(p)):
		}
	}
}

func (f *Fence) pause(p *fencedLease) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case !p.stands():
		return f.c.Jitter(pollEvery)
	case len(f.leases) > manyLeases:
		return leastEvery
	}
	return renewEvery
}

// step renews the Lease, or looks at it and takes it where the protocol says so.
func (p *fencedLease) step(ctx context.Context) {
	// Its end does not end a request: an answer that nobody waits for would leave
	// behind a Lease of unknown version.
	request, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepFor)
	defer cancel()
	err := p.renewOrTake(request)
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	if now := apierrors.IsForbidden(err); now != p.forbidden {
		p.forbidden, p.f.since = now, time.Time{} // until now it was not kept from anybody
	}
	if err != nil {
		p.f.c.Log.Debug("a Lease of the fence was not renewed; it is tried again", "lease", p.String(), "error", err)
	}
	p.f.updateStanding()
}

func (p *fencedLease) renewOrTake(ctx context.Context) error {
	if p.f.EndedByPeer() || p.f.Age() >= LongestFence {
		return nil
	}
	if p.writtenByUs {
		err := p.write(ctx, p.last)
		if err == nil || !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err
		}
		p.writtenByUs = false
	}
	l, err := p.f.c.lease(ctx, p.NamespacedName)
	if err != nil {
		return err
	}
	if l == nil {
		return p.write(ctx, nil)
	}
	p.f.mu.Lock()
	held, follows := p.stands(), !p.f.leading && (p.f.restoreReason == "" || l.Annotations[RestoredAnnotation] != "" || p.announced)
	p.f.mu.Unlock()
	holder := holderOf(l)
	if holder != FenceHolder && held && follows {
		p.f.mu.Lock()
		defer p.f.mu.Unlock()
		p.lastKept, p.f.endedByPeer = time.Time{}, true
		return nil
	}
	if p.last != nil && transitionsOf(p.last) != transitionsOf(l) {
		held = false
		p.lost() // somebody else has had it in between
	}
	if p.last == nil || p.last.ResourceVersion != l.ResourceVersion {
		p.last, p.changed = l, time.Now()
	}
	switch {
	case holder == FenceHolder && held && follows && time.Since(p.changed) < quietFor:
		p.follow(l)
		return nil
	case holder == FenceHolder:
		p.carryOn(l)
		return p.write(ctx, l)
	case holder == "" || p.f.c.expired(l):
		return p.write(ctx, l)
	}
	p.lost() // who has it must have its turn
	return nil
}

// lost takes note that the Lease is not the fence's, or was not for a moment.
func (p *fencedLease) lost() {
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	p.lastKept, p.f.since = time.Time{}, time.Time{}
}

// follow takes note that another replica renews the Lease.
func (p *fencedLease) follow(l *coordinationv1.Lease) {
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	p.lastKept = later(p.lastKept, p.changed)
	p.readPeerRestore(l)
}

// readPeerRestore takes in what another replica says. The caller holds f.mu.
func (p *fencedLease) readPeerRestore(l *coordinationv1.Lease) {
	if why := l.Annotations[RestoredAnnotation]; why != "" {
		p.f.peerRestore, p.announced = why, true
	}
}

// carryOn takes the age over of a fence that is alive.
func (p *fencedLease) carryOn(l *coordinationv1.Lease) {
	age, alive := p.f.c.fenceOf(l)
	if !alive {
		return
	}
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	p.readPeerRestore(l)
	if began := time.Now().Add(-age); p.f.began.IsZero() || began.Before(p.f.began) {
		p.f.began = began
	}
}

// write makes the Lease the fence's for another while, where it still is as it was seen;
// nil where there was none.
func (p *fencedLease) write(ctx context.Context, l *coordinationv1.Lease) error {
	sent := time.Now()
	p.f.mu.Lock()
	began, why := p.f.began, p.f.restoreReason
	if why == "" {
		why = p.f.peerRestore
	}
	p.f.mu.Unlock()
	if began.IsZero() {
		began = sent
	}
	next := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
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
	annotate(next, why) // what a remnant says counts for nothing
	api := p.f.c.core.CoordinationV1().Leases(p.Namespace)
	var err error
	if l == nil {
		next, err = api.Create(ctx, next, metav1.CreateOptions{FieldManager: fieldManager})
	} else {
		next, err = api.Update(ctx, next, metav1.UpdateOptions{FieldManager: fieldManager})
	}
	if err != nil {
		return err
	}
	p.last, p.writtenByUs, p.changed, p.announced = next, true, time.Now(), why != ""
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	p.lastKept, p.renewed = sent, sent
	if p.f.began.IsZero() || began.Before(p.f.began) {
		p.f.began = began
	}
	return nil
}

// giveBack clears the holder, where that is the fence by this replica's own write.
func (p *fencedLease) giveBack(ctx context.Context, over bool) {
	p.f.mu.Lock()
	leads := p.f.leading
	p.f.mu.Unlock()
	for range 3 {
		if p.last == nil || !p.writtenByUs && !leads || holderOf(p.last) != FenceHolder || !over && p.last.Annotations[RestoredAnnotation] != "" {
			return
		}
		next := p.last.DeepCopy()
		annotate(next, "")
		next.Spec.HolderIdentity = ptr.To("")
		next.Spec.RenewTime = ptr.To(metav1.NowMicro())
		_, err := p.f.c.core.CoordinationV1().Leases(p.Namespace).Update(ctx, next, metav1.UpdateOptions{FieldManager: fieldManager})
		if err == nil {
			return
		}
		p.f.c.Log.Debug("a Lease of the fence was not given back", "lease", p.String(), "error", err)
		if !leads || !apierrors.IsConflict(err) {
			return
		}
		if p.last, err = p.f.c.lease(ctx, p.NamespacedName); err != nil {
			return
		}
	}
}

// annotate says what shows that etcd was restored; "" for nothing.
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

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
