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
	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// FenceHolder is the holder that whereabouts' Leases name under a fence.
const FenceHolder = "ip-reconcile/fence"

// RestoredAnnotation on them is what showed a replica that etcd was restored.
const RestoredAnnotation = "ip-reconcile.dev/etcd-restored"

// LongestFence is the age after which no replica renews a fence: an ADD waits up to 2 min for its turn.
const LongestFence = 90 * time.Second

const (
	// fenceLeaseDuration is for how long ADDs and DELs respect a Lease of the fence that nobody renews. It is longer
	// than a hold's: a replica that takes over must be in time on a slow machine, too.
	fenceLeaseDuration = 3 * time.Second
	// quietFor is after how long without a renewal by another replica a replica that does not lead renews itself.
	quietFor = 450 * time.Millisecond
	// aliveFor is how old a renewal may be, by the API server's clock, for a fence to be another replica's. An older
	// one is a remnant: of a replica that has died, or of a backup.
	aliveFor = 4 * time.Second
	// longestOff is for how long Leases are left to others after a long fence.
	longestOff = 30 * time.Second
)

// Fence holds whereabouts' Leases after a restore of etcd, so that no ADD hands an address out until the pools have
// been repaired. Each replica that knows of the restore raises it, and all share it. They need no leader for it, since
// after a restore their own Lease is as old as all else. The protocol, for each Lease by itself:
//
//   - The holder is FenceHolder, whoever renews. A replica takes a Lease when it is free, has expired, or is the
//     fence's: always by a write of its own. It waits while anybody else renews the Lease.
//   - The replica that wrote last goes on every 250 ms, by an update at the resourceVersion of its own last write.
//     After a conflict it reads. Where the Lease is still the fence's, a replica that leads writes again at once. Any
//     other only reads, and writes when nothing was renewed for 450 ms.
//   - spec.renewTime less spec.acquireTime is the fence's age at that write, by the writer's clock. A replica that takes
//     over a fence that is alive carries its age on, and its annotation, which says what showed the restore. A fence is
//     alive that was renewed within 4 s by the API server's clock. Nobody renews one of 90 s, so that no chain of
//     replicas keeps it for longer.
//   - A replica that leads ends the fence by updating the Leases to no holder. A replica that does not lead, and finds
//     a Lease held by nobody or by another that was the fence's a moment ago, takes the fence for ended. A replica
//     that leads takes it back.
//   - Any other replica ends its part by renewing no more: another replica takes over, or 3 s later whoever waits.
//
// Pools are written only within 700 ms after a renewal by this very process, which leads.
// Fence is safe for use by several goroutines.
type Fence struct {
	c *Cluster

	mu          sync.Mutex
	leases      map[types.NamespacedName]*fencedLease
	leading     bool
	began       time.Time // of the age, by our own clock; zero while none of the Leases was had
	since       time.Time // by the API server's clock; zero while one of the Leases is missing
	endedByPeer bool
	why         string // what showed the restore; "" where somebody recovers by hand
	ctx         context.Context
	stop        context.CancelFunc // nil while it is not raised
	running     sync.WaitGroup
}

// FenceState is a fence at one moment.
type FenceState struct {
	// Since is when the fence began to stand, by the API server's clock and not a moment too early: an ADD or DEL that
	// was in progress before has given its Lease back by then. It is zero while one of the Leases is not held.
	Since time.Time
	// Age is for how long the first of the Leases has been kept from others, by whichever replica; zero while none is.
	Age time.Duration
	// IsEndedByPeer says that another replica has ended the fence.
	IsEndedByPeer bool
	// Missing names the Leases that are not held, as namespace/name, with those that RBAC forbids.
	Missing []string
}

// Fence returns the cluster's fence: there is one.
func (c *Cluster) Fence() *Fence { return c.fence }

// Lead notes that this replica leads from now on.
func (f *Fence) Lead() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leading = true
}

// Raise begins to take the Leases, by namespace, or takes these too, and returns at once. why is what showed that etcd
// was restored. Whatever fails is tried again until Lower or Leave.
func (f *Fence) Raise(leases map[string][]string, why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stop == nil {
		f.ctx, f.stop = context.WithCancel(context.Background())
		f.leases, f.began, f.why = map[types.NamespacedName]*fencedLease{}, time.Time{}, why
	}
	f.endedByPeer = false
	for namespace, names := range leases {
		for _, name := range names {
			at := types.NamespacedName{Namespace: namespace, Name: name}
			if f.leases[at] == nil {
				l := &fencedLease{Fence: f, at: at}
				f.leases[at] = l
				f.running.Go(func() { l.keep(f.ctx) })
			}
		}
	}
	f.updateSince()
}

// Lower ends the fence. Then the Leases are left to others for as long as they were held, at most 30 s.
func (f *Fence) Lower(ctx context.Context) {
	f.Leave()
	f.mu.Lock()
	leases, leading, off := f.leases, f.leading, time.Duration(0)
	if !f.began.IsZero() {
		off = min(max(time.Since(f.began), stayOff), longestOff)
	}
	f.leases, f.began = nil, time.Time{}
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for at, l := range leases {
		f.c.leaveToOthers(at.String(), off)
		if leading && l.last != nil && holderOf(l.last) == FenceHolder {
			wg.Go(func() { f.c.clearLease(ctx, l.last, FenceHolder) })
		}
	}
	wg.Wait()
}

// Leave ends the renewals by this replica, and the work under the fence, and gives nothing back.
func (f *Fence) Leave() {
	f.mu.Lock()
	stop := f.stop
	f.stop, f.since = nil, time.Time{}
	f.mu.Unlock()
	if stop != nil {
		stop()
		f.running.Wait()
	}
}

// State is the fence now.
func (f *Fence) State() FenceState {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := FenceState{IsEndedByPeer: f.endedByPeer}
	if f.stands() {
		s.Since = f.since
	}
	if !f.began.IsZero() {
		s.Age = time.Since(f.began)
	}
	for at, l := range f.leases {
		if !l.isHeld() {
			s.Missing = append(s.Missing, at.String())
		}
	}
	slices.Sort(s.Missing)
	return s
}

// Since is State's, for a reconciler.Fence.
func (f *Fence) Since() (since time.Time, standing bool) {
	since = f.State().Since
	return since, !since.IsZero()
}

// PeerFence is what the fence of another replica says of a restore, "" where none stands over these Leases or none
// says anything.
func (f *Fence) PeerFence(ctx context.Context, leases map[string][]string) (why string, err error) {
	for namespace, names := range leases {
		for _, name := range names {
			l, err := f.c.lease(ctx, types.NamespacedName{Namespace: namespace, Name: name})
			if err != nil {
				return "", err
			}
			if _, alive := f.c.fenceOf(l); alive && l.Annotations[RestoredAnnotation] != "" {
				return l.Annotations[RestoredAnnotation], nil
			}
		}
	}
	return "", nil
}

// fenceOf is the age of the fence that a Lease is of, and whether that fence is alive.
func (c *Cluster) fenceOf(l *coordinationv1.Lease) (age time.Duration, alive bool) {
	since := c.Now().Sub(podstate.LeaseRenewTime(l))
	if holderOf(l) != FenceHolder || since > aliveFor {
		return 0, false
	}
	if l.Spec.AcquireTime != nil && l.Spec.RenewTime != nil {
		age = l.Spec.RenewTime.Sub(l.Spec.AcquireTime.Time)
	}
	return max(age, 0) + max(since, 0), true
}

// stands reports whether all of the Leases are held that RBAC does not forbid. The caller holds mu, as for all below.
func (f *Fence) stands() bool {
	held := 0
	for _, l := range f.leases {
		switch {
		case l.isHeld():
			held++
		case !l.forbidden:
			return false
		}
	}
	return f.stop != nil && held > 0
}

// updateSince notes since when the fence stands.
func (f *Fence) updateSince() {
	switch {
	case !f.stands():
		f.since = time.Time{}
	case f.since.IsZero():
		f.since = f.c.Now().Add(time.Second) // Now may be a second behind
	}
}

// fencedHold is the work under the fence on some of its Leases.
type fencedHold struct {
	f      *Fence
	over   context.Context // ends with the fence
	leases []*fencedLease
}

// mayWrite reports whether all of the Leases were renewed so recently that they are still the fence's when a write
// arrives.
func (h *fencedHold) mayWrite() bool {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	return h.over.Err() == nil && !slices.ContainsFunc(h.leases, func(l *fencedLease) bool { return time.Since(l.kept) >= writeWithin })
}

// heldBy are those of the Leases that the fence holds, or if it holds none, those that it is about to take; nil where
// there are none.
func (f *Fence) heldBy(namespace string, names []string) *fencedHold {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stop == nil || !f.began.IsZero() && time.Since(f.began) >= LongestFence {
		return nil
	}
	held, missing := &fencedHold{f: f, over: f.ctx}, &fencedHold{f: f, over: f.ctx}
	for _, name := range names {
		switch l := f.leases[types.NamespacedName{Namespace: namespace, Name: name}]; {
		case l == nil || l.forbidden:
		case l.isHeld():
			held.leases = append(held.leases, l)
		default:
			missing.leases = append(missing.leases, l)
		}
	}
	switch {
	case len(held.leases) > 0: // what needs the others waits for another hold
		return held
	case len(missing.leases) > 0:
		return missing
	}
	return nil
}

// holdFenced runs work under the fence: at once, and for as long as the fence stands.
func (c *Cluster) holdFenced(ctx context.Context, h *fencedHold, work func(context.Context, *reconciler.Hold) error) error {
	held, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.over, cancel)()
	for end := time.Now().Add(fenceLeaseDuration); !h.mayWrite(); { // one of the Leases is about to be taken
		if time.Now().After(end) || held.Err() != nil {
			return fmt.Errorf("%w: the fence does not hold it now", reconciler.ErrLeaseBusy)
		}
		select {
		case <-held.Done():
		case <-time.After(pollEvery):
		}
	}
	hold := &reconciler.Hold{MayWrite: h.mayWrite}
	for _, l := range h.leases {
		hold.Leases = append(hold.Leases, l.at.Name)
	}
	return spent(ctx, held, work(context.WithValue(held, holdKey{}, h), hold))
}
