package kube

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
)

const (
	FenceHolder = "ip-reconcile/fence" // holds whereabouts' Leases under a fence

	// fenceLeaseDuration is for how long ADDs and DELs respect an unrenewed Lease: this process may get no processor for
	// seconds, and when it dies another replica can take over. So much longer ADDs wait if all die.
	fenceLeaseDuration = 10 * time.Second
	quietPeriod        = 450 * time.Millisecond // without a renewal, after which a replica that does not lead renews
	// maxRenewalAge is from when on, by the API server's clock, an unrenewed fence is abandoned: perhaps in a backup.
	maxRenewalAge = fenceLeaseDuration + time.Second
	maxStayOff    = 30 * time.Second // how long this process yields the Leases after a long fence
)

// Fence holds whereabouts' Leases after a restore of etcd, so that no ADD hands out an address until the pools are
// repaired. Each replica that knows of the restore raises the fence, and all share it. They do not elect a leader for
// it, since the restore has reverted their own Lease, too. The protocol, for each Lease by itself:
//
//   - The holder is FenceHolder, whichever replica renews. A replica takes a Lease that is free, has expired, or is the
//     fence's, always by a write of its own. It waits while anybody else renews the Lease.
//   - The replica that wrote last renews every 250 ms, by an update at the resourceVersion of its own last write. After
//     a conflict it reads. If the Lease is still the fence's, a leading replica writes again at once. Any other replica
//     only reads, and writes after 450 ms without a renewal.
//   - spec.renewTime less spec.acquireTime is the fence's age at that write, by the writer's clock. A replica that
//     takes over a fence that is alive keeps its age. A fence is alive if it was renewed within 11 s by the API
//     server's clock. No replica renews a fence of 90 s, so that no chain of replicas keeps it for longer.
//   - A leading replica ends the fence by clearing the holder of the Leases. A replica that does not lead takes the
//     fence for ended when one of its Leases has another holder or none. A leading replica takes the Lease again.
//   - Any other replica ends its part by not renewing any more: another replica takes over, or 10 s later whoever
//     waits. So does recover, which leads, too, if it has read a renewal by another process within 10 s. It knows only
//     its own work, and two processes that lead take the Lease from each other: whose write is the last is chance.
//
// Pools are written only within 700 ms after a renewal by this very process, which leads. Fence is safe for use by
// several goroutines.
type Fence struct {
	c *Cluster

	mu            sync.Mutex
	leases        map[types.NamespacedName]*fencedLease
	isLeader      bool
	start         time.Time // of the age, by this process's clock; zero before the first Lease is held
	standingSince time.Time // by the API server's clock; zero while a Lease is missing
	isEndedByPeer bool
	ctx           context.Context
	stop          context.CancelFunc // nil while the fence is not raised
	running       sync.WaitGroup
}

// Fence returns the cluster's only fence.
func (c *Cluster) Fence() *Fence { return c.fence }

// Lead records that this replica leads from now on.
func (f *Fence) Lead() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.isLeader = true
}

// Raise starts to take the Leases, by namespace, or adds these, and returns at once.
func (f *Fence) Raise(leases map[string][]string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stop == nil {
		f.ctx, f.stop = context.WithCancel(context.Background())
		f.leases, f.start = map[types.NamespacedName]*fencedLease{}, time.Time{}
	}
	f.isEndedByPeer = false
	for namespace, names := range leases {
		for _, name := range names {
			at := types.NamespacedName{Namespace: namespace, Name: name}
			if f.leases[at] == nil {
				l := &fencedLease{Fence: f, at: at}
				f.leases[at], f.standingSince = l, time.Time{}
				f.running.Go(func() { l.keep(f.ctx) })
			}
		}
	}
	f.updateSince()
}

// Lower ends the fence. Then this process yields the Leases for as long as it held them, at most 30 s.
func (f *Fence) Lower(ctx context.Context) {
	f.lower(ctx, func(ctx context.Context, l *coordinationv1.Lease) { f.c.clearLease(ctx, l, FenceHolder) })
}

// LowerUnlessShared ends the fence like Lower, unless another process keeps it, too. Then it ends like Leave.
func (f *Fence) LowerUnlessShared(ctx context.Context) {
	if f.Leave(); f.isShared() {
		return
	}
	f.lower(ctx, func(ctx context.Context, l *coordinationv1.Lease) {
		if _, err := f.c.clearLeaseAt(ctx, l); err != nil { // also because another process has just begun to renew it
			f.c.Log.Debug("Could not clear a Lease of the fence; it expires", "lease", l.Namespace+"/"+l.Name, "error", err)
		}
	})
}

// isShared reports whether another process has renewed a Lease so recently that it would be the fence's by that alone.
func (f *Fence) isShared() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.leases {
		if time.Since(l.lastByOther) < fenceLeaseDuration {
			return true
		}
	}
	return false
}

// lower ends the fence. A leading replica clears the Leases.
func (f *Fence) lower(ctx context.Context, clearHolder func(context.Context, *coordinationv1.Lease)) {
	f.Leave()
	f.mu.Lock()
	leases, leading, off := f.leases, f.isLeader, time.Duration(0)
	if !f.start.IsZero() {
		off = min(max(time.Since(f.start), minStayOff), maxStayOff)
	}
	f.leases, f.start = nil, time.Time{}
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for at, l := range leases {
		f.c.yieldFor(at.String(), off, "")
		if leading && l.last != nil && holderOf(l.last) == FenceHolder {
			wg.Go(func() { clearHolder(ctx, l.last) })
		}
	}
	wg.Wait()
}

// Leave ends the renewals by this replica and the work under the fence, and does not clear the Leases.
func (f *Fence) Leave() {
	f.mu.Lock()
	stop := f.stop
	f.stop, f.standingSince = nil, time.Time{}
	f.mu.Unlock()
	if stop != nil {
		stop()
		f.running.Wait()
	}
}

// State returns the state of the fence.
func (f *Fence) State() restore.FenceState {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := restore.FenceState{IsEndedByPeer: f.isEndedByPeer}
	if f.stands() {
		s.Since = f.standingSince
	}
	if !f.start.IsZero() {
		s.Age = time.Since(f.start)
	}
	for at, l := range f.leases {
		if !l.isHeld() {
			s.Missing = append(s.Missing, at.String())
		}
	}
	slices.Sort(s.Missing)
	return s
}

// Since implements reconciler.Fence.
func (f *Fence) Since() time.Time { return f.State().Since }

// fenceOf returns the age of the fence that holds a Lease, and whether that fence is alive. While the API server's time
// is unknown it counts as alive.
func (c *Cluster) fenceOf(l *coordinationv1.Lease) (age time.Duration, alive bool) {
	since := c.Now().Sub(podstate.LeaseRenewTime(l))
	if holderOf(l) != FenceHolder || since > maxRenewalAge {
		return 0, false
	}
	if l.Spec.AcquireTime != nil && l.Spec.RenewTime != nil {
		age = l.Spec.RenewTime.Sub(l.Spec.AcquireTime.Time)
	}
	return max(age, 0) + max(since, 0), true
}

// stands reports whether all Leases are held that RBAC does not forbid. The caller holds mu.
func (f *Fence) stands() bool {
	held := 0
	for _, l := range f.leases {
		switch {
		case l.isHeld():
			held++
		case !l.isForbidden:
			return false
		}
	}
	return f.stop != nil && held > 0
}

// updateSince records since when the fence stands. That it was not renewed for a while changes nothing, if nobody else
// took a Lease meanwhile. The caller holds mu.
func (f *Fence) updateSince() {
	if now := f.c.Now(); f.standingSince.IsZero() && !now.IsZero() && f.stands() {
		f.standingSince = now.Add(time.Second) // Now may be late by a second
	}
}

// fencedHold is a hold under the fence, of some of its Leases.
type fencedHold struct {
	f      *Fence
	over   context.Context // ends with the fence
	leases []*fencedLease

	forbidden []string // of those that were asked for
}

// mayWrite reports whether all Leases were renewed so recently that they are the fence's when a write arrives.
func (h *fencedHold) mayWrite() bool {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	return h.over.Err() == nil &&
		!slices.ContainsFunc(h.leases, func(l *fencedLease) bool { return time.Since(l.lastHeld) >= writeWithin })
}

// holdOn returns a hold of those Leases that the fence holds, or else is about to take; nil for none of them.
func (f *Fence) holdOn(namespace string, names []string) *fencedHold {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stop == nil || !f.start.IsZero() && time.Since(f.start) >= restore.LongestFence {
		return nil
	}
	held, missing := &fencedHold{f: f, over: f.ctx}, &fencedHold{f: f, over: f.ctx}
	var forbidden []string
	for _, name := range names {
		switch l := f.leases[types.NamespacedName{Namespace: namespace, Name: name}]; {
		case l == nil:
		case l.isForbidden:
			forbidden = append(forbidden, name)
		case l.isHeld():
			held.leases = append(held.leases, l)
		default:
			missing.leases = append(missing.leases, l)
		}
	}
	held.forbidden, missing.forbidden = forbidden, forbidden
	switch {
	case len(held.leases) > 0: // changes that need the others wait for another hold
		return held
	case len(missing.leases) > 0:
		return missing
	}
	return nil
}

// holdUnderFence runs work under the fence, at once and for as long as the fence stands.
func (c *Cluster) holdUnderFence(ctx context.Context, h *fencedHold, work apply.Work) error {
	held, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.over, cancel)()
	for end := time.Now().Add(fenceLeaseDuration); !h.mayWrite(); { // a Lease is about to be taken
		if time.Now().After(end) || held.Err() != nil {
			return fmt.Errorf("%w: the fence does not hold it at the moment", apply.ErrLeaseBusy)
		}
		select {
		case <-held.Done():
		case <-time.After(pollEvery):
		}
	}
	b := bounds{mayWrite: h.mayWrite, forbidden: h.forbidden}
	for _, l := range h.leases {
		b.leases = append(b.leases, l.at.Name)
	}
	return asHoldSpent(ctx, held, c.inSession(held, b, work))
}
