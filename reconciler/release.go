package reconciler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

const (
	// batchSize is how many items are looked at and released under one hold of
	// the Lease; it is halved where the time did not suffice.
	batchSize = 100
	// maxLeases is how many Leases are held at once.
	maxLeases = 16
	// tries is how often a batch is read, judged and written anew after a
	// conflict before it is left for the next pass.
	tries = 6
	// maxLost is after how many items given up in a row for an error the others
	// are not tried any more: then it is not the items that fail.
	maxLost = 3
	// triesInHold is how often of them while the Lease is held.
	triesInHold = 2
	// refreshEvery is how old reports, Leases, Nodes and definitions may be
	// when a batch is judged.
	refreshEvery = 5 * time.Second
)

// tracked is an item on its way to being released.
type tracked struct {
	*Item
	deleted []*ippool.Reservation // so far, for this item
	sent    bool                  // a patch was sent, and its outcome is not known
}

// release takes the second look at each item and releases what is still Stale.
// One batch that fails does not stop the others.
func (r *Reconciler) release(ctx context.Context, o *Observation, items []*Item, out *Result) {
	for _, g := range groups(o, items) {
		b := &batch{Reconciler: r, namespace: g.namespace, leases: g.leases, out: out, base: o, size: batchSize}
		if r.Options.Settled {
			b.size = ippool.MaxRemovals // nobody waits for a Lease
		}
		b.run(ctx, g.items)
	}
}

// group are items that are released under the same Leases.
type group struct {
	namespace string
	leases    []string // the shared one last: it is the one that many wait for
	items     []*tracked
}

// groups puts together what can be released under one hold. The pools of node
// slices have a Lease each: several are held at once, since all of them also
// take the shared one, which must be left to others after each hold.
func groups(o *Observation, items []*Item) []*group {
	sorted := slices.Clone(items)
	slices.SortStableFunc(sorted, byPlace)
	var all []*group
	for _, it := range sorted {
		namespace, names := o.leasesFor(it)
		at := slices.IndexFunc(all, func(g *group) bool {
			return g.namespace == namespace && (len(g.with(names)) <= maxLeases || len(g.with(names)) == len(g.leases))
		})
		if at < 0 {
			at = len(all)
			all = append(all, &group{namespace: namespace})
		}
		g := all[at]
		g.leases = g.with(names)
		g.items = append(g.items, &tracked{Item: it})
	}
	return all
}

// with are the group's Leases and these, the shared one last.
func (g *group) with(names []string) []string {
	all := sortedUnique(slices.Concat(g.leases, names))
	return append(slices.DeleteFunc(all, func(n string) bool { return n == ippool.SharedLease }), ippool.SharedLease)
}

// leasesFor are the Leases that ADD and DEL of an item's pool take.
func (o *Observation) leasesFor(it *Item) (namespace string, names []string) {
	if it.Pool != nil {
		return it.Pool.Namespace, it.Pool.LeaseNames()
	}
	for _, p := range it.poolsWith() {
		names = append(names, p.LeaseNames()...)
	}
	return it.Reservation.Namespace, names
}

// batch releases items whose writes go under the same Leases.
type batch struct {
	*Reconciler
	namespace string
	leases    []string
	out       *Result
	base      *Observation
	refreshed time.Time
	size      int
	conflict  error // the last one
}

func (b *batch) run(ctx context.Context, todo []*tracked) {
	for try, lost, fits := 1, 0, b.size; len(todo) > 0; {
		n := min(b.size, len(todo))
		b.progress("releasing in namespace %s: %d to go", b.namespace, len(todo))
		again, err := b.attempt(ctx, todo[:n])
		rest := todo[n:]
		if err == nil && len(again) == 0 {
			todo, try, lost, b.size = rest, 1, 0, min(2*b.size, fits)
			continue
		}
		if err == nil {
			err = cmp.Or(b.conflict, ErrConflict)
		}
		todo = slices.Concat(again, rest)
		spent := errors.Is(err, ErrHoldSpent) || errors.Is(err, context.DeadlineExceeded)
		changed := errors.Is(err, ErrConflict)
		switch {
		case errors.Is(err, ErrLeaseForbidden):
			b.giveUp(ctx, todo, NoLease, fmt.Sprintf("no right to whereabouts' Lease %s in namespace %s: grant get, create and update on leases, or use --without-lease", strings.Join(b.leases, ", "), b.namespace))
			return
		case errors.Is(err, ErrForbidden):
			b.giveUp(ctx, todo, WriteFailed, fmt.Sprintf("%v: grant patch on ippools, and create and delete on overlappingrangeipreservations (%s)", err, ippool.PoolResource.Group))
			return
		case errors.Is(err, ErrLeaseBusy):
			b.giveUp(ctx, todo, LeaseBusy, fmt.Sprintf("Lease %s in namespace %s stayed busy with ADDs and DELs; run again", strings.Join(b.leases, ", "), b.namespace))
			return
		case ctx.Err() != nil, lost == maxLost:
			b.giveUp(ctx, todo, WriteFailed, err.Error())
			return
		case spent && n > 1:
			fits = n / 2
			b.size, try = fits, 1
		case !spent && !changed && n > 1 && try > 1: // one of them may be what fails
			b.size, try = n/2, 1
		case try < tries:
			try++
		case changed:
			b.giveUp(ctx, again, Changed, fmt.Sprintf("it changed at each of %d tries: %v", try, err))
			todo, try = rest, 1
		default:
			b.giveUp(ctx, again, WriteFailed, err.Error())
			todo, try, lost = rest, 1, lost+1
		}
		b.wait(ctx, 100*time.Millisecond<<try)
	}
}

// attempt makes the fresh look under the Lease and writes. It returns the items
// that must be tried again.
func (b *batch) attempt(ctx context.Context, todo []*tracked) (again []*tracked, err error) {
	if err := b.refresh(ctx); err != nil {
		return todo, fmt.Errorf("read reports, nodes and pools anew: %w", err)
	}
	if b.base.Paused { // then ADDs need not wait for us
		b.giveUp(ctx, todo, Paused, pausedText)
		return nil, nil
	}
	again = todo
	err = b.Writer.Hold(ctx, b.namespace, b.leases, func(ctx context.Context) error {
		// The wait for the Lease may have been long.
		if err := b.refresh(ctx); err != nil {
			return fmt.Errorf("read reports, nodes and pools anew: %w", err)
		}
		for range triesInHold {
			still, err := b.look(ctx, again)
			if err != nil {
				return fmt.Errorf("fresh look: %w", err)
			}
			again, err = b.write(ctx, still)
			if err != nil || len(again) == 0 || !MayWrite(ctx) {
				return err
			}
		}
		return nil
	})
	if slices.ContainsFunc(again, func(t *tracked) bool { return len(t.deleted) > 0 || t.sent }) {
		// A write failed after reservations were deleted: whatever proves live
		// must have its own back at once, not at the next turn with the Lease.
		if still, lookErr := b.look(ctx, again); lookErr == nil {
			again = still
		}
	}
	return again, err
}

func (b *batch) refresh(ctx context.Context) error {
	if !b.refreshed.IsZero() && b.Clock.Since(b.refreshed) < refreshEvery {
		return nil
	}
	o, err := b.Source.Refresh(ctx, b.base)
	if err != nil {
		return err
	}
	b.History.checkRevision(o)
	o.Local = b.base.Local
	b.base, b.refreshed = o, b.Clock.Now()
	return nil
}

// look reads pools, reservations and owners anew and judges again. What is no
// longer Stale gets back the reservations that were deleted for it.
func (b *batch) look(ctx context.Context, todo []*tracked) ([]*tracked, error) {
	fresh, err := b.Source.Fresh(ctx, b.base, b.need(todo))
	if err != nil {
		return nil, err
	}
	fresh.Past, fresh.Local = b.History, b.base.Local
	if fresh.Now.Before(b.base.Now) {
		fresh.Now = b.base.Now // two API servers, two clocks
	}
	only := map[netip.Addr]bool{}
	for _, t := range todo {
		only[t.Address()] = true
		for _, r := range t.With() {
			only[r.Address()] = true // in a wide range not the one that reads back from the key
		}
	}
	j := newIndex(fresh, b.Options.Policy).judgeOnly(slices.Collect(maps.Keys(only)))
	now := map[ID]*Item{}
	for _, it := range slices.Concat(j.Allocations, j.Reservations) {
		now[it.ID()] = it
	}
	plan := b.History.plan(j, b.again())
	refused := map[ID]Refused{}
	for _, x := range plan.Refused {
		refused[x.ID()] = x
	}
	var still []*tracked
	for _, t := range todo {
		it, there := now[t.ID()]
		switch {
		case !there && t.sent && fresh.lacks(t.Item):
			b.finish(t) // the answer was lost, the write was not
		case !there:
			b.Log.Info("not released: it is gone or was rewritten since the first look", t.Attrs()...)
			b.putBack(ctx, t, j)
		case it.Reservation != nil && len(it.With()) > 0:
			b.Log.Info("not released: an allocation of this reservation has appeared", it.Attrs()...)
		case it.Verdict != Stale:
			b.Log.Info("not released: the fresh look says otherwise", it.Attrs()...)
			b.History.forgetStale(t.Item)
			b.putBack(ctx, t, j)
		case refused[t.ID()].Item != nil:
			b.putBack(ctx, t, j)
			b.out.refuse(refused[t.ID()])
		default:
			t.Item = it
			still = append(still, t)
		}
	}
	return still, nil
}

// again are the options for the second look: what was ripe at the first is
// ripe, and the breaker has had its say.
func (b *batch) again() Options {
	o := b.Options
	o.AllowMassRelease = true
	return o
}

func (b *batch) need(todo []*tracked) Need {
	var n Need
	for _, t := range todo {
		pools := []*ippool.Pool{t.Pool}
		if t.Reservation != nil {
			n.Reservations = append(n.Reservations, types.NamespacedName{Namespace: t.Reservation.Namespace, Name: t.Reservation.Name})
			pools = t.poolsWith()
		} else {
			n.Reservations = append(n.Reservations, b.base.reservationsOf(t.Item)...)
		}
		for _, p := range pools {
			n.Pools = append(n.Pools, types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
		}
		if owner := t.owner(); owner.UID == "" {
			n.Pods = append(n.Pods, types.NamespacedName{Namespace: owner.Namespace, Name: owner.Name})
		}
	}
	n.Pools, n.Reservations, n.Pods = uniqueNames(n.Pools), uniqueNames(n.Reservations), uniqueNames(n.Pods)
	return n
}

func uniqueNames(names []types.NamespacedName) []types.NamespacedName {
	slices.SortFunc(names, func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return slices.Compact(names)
}

// reservationsOf are the names of all reservations that may be an allocation's:
// those seen, and those that may have been made since.
func (o *Observation) reservationsOf(it *Item) []types.NamespacedName {
	var names []types.NamespacedName
	for _, r := range it.With() {
		names = append(names, types.NamespacedName{Namespace: r.Reservation.Namespace, Name: r.Reservation.Name})
	}
	nodes := map[string]bool{}
	for n := range o.Nodes {
		nodes[n] = true
	}
	for _, network := range it.Pool.Networks(nodes) {
		names = append(names, types.NamespacedName{Namespace: it.Pool.Namespace, Name: ippool.ReservationName(network, it.Address())})
	}
	return names
}
