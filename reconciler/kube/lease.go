package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// whereabouts' ADD and DEL elect a leader for each call: lease 1.5 s, renewed
// within 1 s, retried every 0.5 s and a little more (v0.9.4, pkg/types/types.go,
// DefaultLeader*; client-go, tools/leaderelection). A short hold that is given
// back on time is all that a writer beside them needs; client-go's elector, made
// for holding on, neither bounds a hold nor takes two Leases or none.
const (
	holdFor   = time.Second
	stayOff   = 1500 * time.Millisecond // after a hold, so that waiting ADDs get their turn
	expiry    = 1500 * time.Millisecond // a holder that does not renew for so long is gone
	pollEvery = 120 * time.Millisecond
	waitFor   = 45 * time.Second // an ADD waits up to 2 min for its turn
)

// foreignHold is another's hold of a Lease as it was first seen: its age is
// told by our own clock, as every elector does.
type foreignHold struct {
	version string
	since   time.Time
}

// Hold takes the Leases, all or none, and runs work for at most a second.
func (c *Cluster) Hold(ctx context.Context, namespace string, names []string, work func(context.Context) error) error {
	if c.WithoutLease {
		return work(ctx)
	}
	give, began, err := c.take(ctx, namespace, names)
	if err != nil {
		return err
	}
	defer give()
	held, cancel := context.WithDeadline(ctx, began.Add(holdFor))
	defer cancel()
	if err = work(held); err != nil && held.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %v", reconciler.ErrHoldSpent, err)
	}
	return err
}

// take waits for its turn. It returns when the hold began, which is before the
// first Lease was asked for.
func (c *Cluster) take(ctx context.Context, namespace string, names []string) (give func(), began time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, waitFor)
	defer cancel()
	if err := c.keepOff(ctx, namespace, names); err != nil {
		return nil, began, err
	}
	for {
		began = time.Now()
		give, err = c.takeAll(ctx, namespace, names)
		switch {
		case err == nil:
			return give, began, nil
		case apierrors.IsForbidden(err):
			return nil, began, fmt.Errorf("%w: %v", reconciler.ErrLeaseForbidden, short(err))
		case ctx.Err() != nil:
			return nil, began, fmt.Errorf("%w: %v", reconciler.ErrLeaseBusy, err)
		case !errors.Is(err, errHeld) && !passes(err) && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err):
			return nil, began, fmt.Errorf("take Lease %s in %s: %w", names, namespace, err)
		}
		select {
		case <-ctx.Done():
			return nil, began, fmt.Errorf("%w: %v", reconciler.ErrLeaseBusy, err)
		case <-time.After(c.Jitter(pollEvery)):
		}
	}
}

// keepOff waits until the Leases have been left to others for long enough.
func (c *Cluster) keepOff(ctx context.Context, namespace string, names []string) error {
	for _, name := range names {
		c.mu.Lock()
		free := c.released[namespace+"/"+name].Add(stayOff)
		c.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(free)):
		}
	}
	return nil
}

func (c *Cluster) takeAll(ctx context.Context, namespace string, names []string) (func(), error) {
	var taken []*coordinationv1.Lease
	give := func() {
		for _, l := range taken {
			c.giveBack(ctx, l)
		}
	}
	for _, name := range names {
		l, err := c.takeOne(ctx, namespace, name)
		if err != nil {
			give()
			return nil, err
		}
		taken = append(taken, l)
	}
	return give, nil
}

var errHeld = errors.New("held by somebody else")

func (c *Cluster) takeOne(ctx context.Context, namespace, name string) (*coordinationv1.Lease, error) {
	leases := c.core.CoordinationV1().Leases(namespace)
	now := metav1.NowMicro()
	spec := coordinationv1.LeaseSpec{HolderIdentity: &c.Identity, LeaseDurationSeconds: ptr.To(int32(1)), AcquireTime: &now, RenewTime: &now, LeaseTransitions: ptr.To(int32(0))}
	l, err := leases.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec}, metav1.CreateOptions{FieldManager: fieldManager})
	}
	if err != nil {
		return nil, err
	}
	if holder := ptr.Deref(l.Spec.HolderIdentity, ""); holder != "" && !c.expired(l) {
		return nil, fmt.Errorf("%w: %s", errHeld, holder)
	}
	spec.LeaseTransitions = ptr.To(ptr.Deref(l.Spec.LeaseTransitions, 0) + 1)
	l.Spec = spec
	return leases.Update(ctx, l, metav1.UpdateOptions{FieldManager: fieldManager})
}

// expired says whether another's hold has stood unchanged for so long that its
// process must be gone. Its times are by its own clock and are not looked at.
func (c *Cluster) expired(l *coordinationv1.Lease) bool {
	key := l.Namespace + "/" + l.Name
	after := max(expiry, time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, 0))*time.Second)
	c.mu.Lock()
	defer c.mu.Unlock()
	if seen := c.foreign[key]; seen.version == l.ResourceVersion {
		return time.Since(seen.since) > after
	}
	c.foreign[key] = foreignHold{l.ResourceVersion, time.Now()}
	return false
}

// giveBack clears the holder, so that who waits need not wait for the expiry.
// If that fails, the Lease expires by itself.
func (c *Cluster) giveBack(ctx context.Context, l *coordinationv1.Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	now := metav1.NowMicro()
	l.Spec.HolderIdentity, l.Spec.RenewTime = ptr.To(""), &now
	if _, err := c.core.CoordinationV1().Leases(l.Namespace).Update(ctx, l, metav1.UpdateOptions{FieldManager: fieldManager}); err != nil {
		c.Log.Debug("Lease not given back; it expires by itself", "lease", l.Name, "error", err)
	}
	c.mu.Lock()
	c.released[l.Namespace+"/"+l.Name] = time.Now()
	c.mu.Unlock()
}
