package reconciler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

const (
	firstBatch = 1000 // how many changes the first hold tries: 2 s of a server that needs 2 ms a change
	maxBatch   = 2500 // how many changes one hold tries at most; one patch takes ippool.MaxRemovals
	// maxEntries is how many entries the pools that one hold patches have at most. A patch costs the API server the whole
	// pool, about 0.1 ms of a core for each entry.
	maxEntries        = 20000
	maxTries          = 5  // how many fruitless holds a change takes part in before it is given up until the next pass
	maxFruitlessHolds = 15 // how many holds in a row without any write end the pass for all remaining changes
	// maxSettle is how long the check after a hold may take. Then the reservations that were deleted are recreated
	// without it.
	maxSettle = 10 * time.Second
)

var (
	errLeaseMissing = errors.New("ADDs and DELs held the pool's own Lease each time")
	errPaused       = errors.New("paused")
	// errAfterHold: an ADD that took the Lease meanwhile may have adopted the reservation that was deleted.
	errAfterHold = fmt.Errorf("%w before the answer", apply.ErrHoldSpent)
	errNoAnswer  = errors.New("the API server did not answer")
	// errPreconditions: the observation is no ground to write any more.
	errPreconditions = errors.New("nothing is written now")
	errAllPaused     = fmt.Errorf("%w: %w: the reconciler's namespace has the annotation %s",
		errPreconditions, errPaused, ippool.PausedAnnotation)
)

// kind is what differs between releases and repairs.
type kind interface {
	keys(todo []*change) judge.LiveKeys // what the second check reads under the Leases
	// judge judges changes again on what was read last, and returns those that still stand.
	judge(todo []*change) checkedChanges
	refuse(changes []*change, err error) // records changes that are given up
	finish(c *change)                    // records a change that is written
}

// checkedChanges have passed the second check: only they are written.
type checkedChanges []*change

// executor writes the changes of a pass that need the same Leases. Nothing else writes to pools and reservations.
type executor struct {
	*liveIndex
	kind
	activity  string // for the progress messages
	namespace string
	leases    []string
	out       *executed
	// writeFor is for how long after the start of a hold writes may begin, and for half as long at least after the second
	// check. Zero is as long as the hold allows.
	writeFor    time.Duration
	recordedIDs map[string]bool   // reservations whose release is recorded
	writes      int               // changes that were written
	conflicts   map[string]string // the resourceVersion at which the last patch of a pool met a conflict
}

// execute writes changes. One group that fails does not stop the others.
func (r *Reconciler) execute(
	ctx context.Context, o *judge.Observation, changes []*change, isRepair bool,
) (out executed) {
	live := &liveIndex{Reconciler: r, first: o, known: r.Process.Known}
	for _, g := range groupChanges(changes) {
		e := &executor{
			liveIndex: live, namespace: g.namespace, leases: g.leases, out: &out,
			recordedIDs: map[string]bool{}, conflicts: map[string]string{},
		}
		if e.kind, e.activity = (releases{e}), "Releasing"; isRepair {
			e.kind, e.activity, e.writeFor = repairs{e}, "Repairing", repairWriteFor
		}
		e.run(ctx, g.changes)
	}
	r.Process.Known = live.known
	r.Process.Known.Memory = live.known.Without(out.contradicted)
	return out
}

// run writes the changes, a batch under each hold. Changes for which a hold had no time come first under the next one.
// Changes that failed go back to the end of the queue, and are given up when they have failed too often.
func (e *executor) run(ctx context.Context, queue []*change) {
	size, isSpent, fruitless := firstBatch, false, 0 // isSpent: the last hold was too short; fruitless: holds in a row
	for len(queue) > 0 {
		e.progress("%s in namespace %s: %d to go", e.activity, e.namespace, len(queue)) // also a sign of life for the probe
		n := countAffordable(queue[:min(size, len(queue))])
		partial, writes := countPartial(queue[:n]), e.writes
		if isSpent && partial > 0 { // these have their allocations removed before more reservations are deleted
			n = partial
		}
		remaining, err := e.attempt(ctx, queue[:n])
		if remaining = e.refuseUnwritten(remaining, len(queue)-n); err == nil || errors.Is(err, apply.ErrForbidden) {
			if err = worstError(remaining); err == nil && len(remaining) > 0 {
				err = apply.ErrConflict
			}
		}
		rest := queue[n:]
		isSpent = errors.Is(err, apply.ErrHoldSpent)
		isFruitless := e.writes == writes && len(remaining) == n && !(isSpent && countPartial(remaining) > partial)
		if fruitless++; !isFruitless {
			fruitless = 0
		}
		switch {
		case isFatal(err), fruitless == maxFruitlessHolds:
			e.giveUp(slices.Concat(remaining, rest), err)
			return
		case ctx.Err() != nil:
			e.giveUp(slices.Concat(remaining, rest), errors.New(cmp.Or(err, ctx.Err()).Error()))
			return
		case len(remaining) == 0: // one slow moment must not cost the rest of the run
			size = min(2*size, maxBatch)
		case isFruitless && isSpent && n > 1:
			size = n / 2
		case isFruitless:
			failed, others := partition(remaining, func(c *change) bool { c.tries++; return c.tries == maxTries })
			e.giveUp(failed, err)
			remaining = others
		case isSpent: // what a hold reads for changes that it has no time for is read again under the next one
			size = max(size/2, e.writes-writes, 1)
		}
		if queue = slices.Concat(rest, remaining); isSpent {
			partial, others := partition(remaining, (*change).isPartial)
			queue = slices.Concat(partial, others, rest)
		}
		if isFruitless && len(queue) > 0 {
			e.wait(ctx, 100*time.Millisecond<<min(fruitless, maxTries)) // the hold was too short, or another writer was faster
		}
	}
}

// countAffordable is how many of the first changes have pools that one hold can patch: at least those of one pool.
func countAffordable(queue []*change) int {
	pools, entries := map[string]bool{}, 0
	for i, c := range queue {
		if p := c.pool(); p != nil && !pools[p.Ref()] {
			pools[p.Ref()] = true
			if entries += len(p.Allocations); entries > maxEntries && len(pools) > 1 {
				return i
			}
		}
	}
	return len(queue)
}

// isFatal reports whether an error of a hold concerns all changes that need its Leases.
func isFatal(err error) bool {
	return errors.Is(err, apply.ErrLeaseForbidden) || errors.Is(err, apply.ErrLeaseBusy) ||
		errors.Is(err, apply.ErrLeaseFailed)
}

// attempt takes the Leases, checks changes and writes them. It returns those to try again, and an error of all.
func (e *executor) attempt(ctx context.Context, todo []*change) ([]*change, error) {
	if err := e.refresh(ctx); err != nil {
		return e.settleWithoutHold(ctx, todo), err
	}
	remaining, isSettled := todo, false
	err := e.Leases.Hold(ctx, e.namespace, e.leases, func(ctx context.Context, s apply.Session) (err error) {
		remaining, err = e.underHold(ctx, newHold(s), todo)
		remaining, isSettled = e.settle(ctx, remaining)
		return err
	})
	e.Log.Debug("Held whereabouts' Leases", "namespace", e.namespace, "leases", e.leases, "items", len(todo),
		"remaining", len(remaining), "error", err)
	if !isSettled {
		remaining = e.settleWithoutHold(ctx, remaining)
	}
	return remaining, err
}

// settleWithoutHold settles changes while no Lease is held. If nothing can be read, it tries to recreate every
// reservation that was deleted, since an allocation may need it.
func (e *executor) settleWithoutHold(ctx context.Context, changes []*change) []*change {
	reading, cancel := context.WithTimeout(ctx, maxSettle)
	defer cancel()
	for reading.Err() == nil {
		if remaining, isSettled := e.settle(reading, changes); isSettled {
			return remaining
		}
		e.wait(reading, 500*time.Millisecond)
	}
	if ctx.Err() == nil { // otherwise they are given up
		e.tryToRecreate(changes, 2)
	}
	return changes
}

// settle checks changes again after writes failed, if a reservation was deleted. It recreates the reservations of items
// that prove live: best under the hold, while no ADD can miss them.
func (e *executor) settle(ctx context.Context, changes []*change) (remaining []*change, ok bool) {
	if countPartial(changes) == 0 {
		return changes, true
	}
	still, err := e.check(ctx, changes)
	if err != nil {
		return changes, false
	}
	return still, true
}

// underHold checks what can have changed since the Leases were requested, and writes. It returns what attempt does.
func (e *executor) underHold(ctx context.Context, h *hold, todo []*change) (remaining []*change, err error) {
	requested := e.Clock.Now()
	if err := e.refresh(ctx); err != nil { // the wait for the Lease may have been long
		return todo, err
	}
	start, isBounded := e.Clock.Now(), !h.until.IsZero()
	if isBounded { // the time for the refresh does not count
		h.until = h.until.Add(start.Sub(requested))
	}
	work, without := partition(todo, func(c *change) bool { return h.covers(c.leases) })
	for _, c := range without {
		c.err = errLeaseMissing
	}
	if len(work) > 0 {
		still, err := e.check(ctx, work)
		if err != nil {
			return todo, err
		}
		if isBounded && e.writeFor > 0 {
			h.until = maxTime(start.Add(e.writeFor), e.Clock.Now().Add(e.writeFor/2))
		}
		remaining = e.write(ctx, h, still)
	}
	remaining = append(remaining, without...)
	return remaining, worstError(remaining)
}

// check is the second check: it reads live what can have changed, judges again, and returns what still stands.
func (e *executor) check(ctx context.Context, todo []*change) (checkedChanges, error) {
	if err := e.read(ctx, e.keys(todo)); err != nil {
		return nil, err
	}
	return e.judge(todo), nil
}

// giveUp ends changes for this pass, and recreates the reservations of those that may be incomplete. One reservation
// too many is found and released later; one too few may hand out a live address.
func (e *executor) giveUp(changes []*change, err error) {
	e.refuse(changes, err)
	e.recreateReservations(changes)
}

// refuseUnwritten gives up the changes whose write is forbidden or was not answered, and returns the others. A write
// that was not answered is tried once more if no other change waits. waiting is how many changes are not in all.
func (e *executor) refuseUnwritten(all []*change, waiting int) (others []*change) {
	denied, others := partition(all, func(c *change) bool { return errors.Is(c.err, apply.ErrForbidden) })
	unanswered, rest := partition(others, func(c *change) bool { return errors.Is(c.err, errNoAnswer) })
	again, last := partition(unanswered, func(c *change) bool { c.unanswered++; return c.unanswered == 1 })
	if others = append(rest, again...); len(rest)+waiting > 0 {
		others, last = rest, unanswered
	}
	denied = append(denied, last...)
	for _, c := range denied {
		e.refuse([]*change{c}, c.err)
	}
	e.recreateReservations(denied)
	return others
}

func refusalOf(err error) Refusal {
	switch {
	case errors.Is(err, apply.ErrLeaseBusy), errors.Is(err, errLeaseMissing):
		return LeaseBusy
	case errors.Is(err, apply.ErrLeaseForbidden):
		return NoLease
	case errors.Is(err, apply.ErrConflict):
		return Changed
	case errors.Is(err, errPaused):
		return Paused
	case errors.Is(err, errPreconditions):
		return EtcdRestored
	}
	return WriteFailed
}

func partition(changes []*change, is func(*change) bool) (with, without []*change) {
	for _, c := range changes {
		if is(c) {
			with = append(with, c)
		} else {
			without = append(without, c)
		}
	}
	return with, without
}

const maxLeases = 16 // that are held at once

// group is the changes that are written under the same Leases.
type group struct {
	namespace string
	leases    []string // the shared one first: nothing is possible without it
	changes   []*change
}

// groupChanges puts together what can be written under one hold. The pools of node slices have a Lease each. Several
// are held at once, since all of them need the shared Lease, too, which this process must yield after each hold.
func groupChanges(changes []*change) []*group {
	var all []*group
	for _, c := range changes {
		at := slices.IndexFunc(all, func(g *group) bool {
			with := union(g.leases, c.leases)
			return g.namespace == c.namespace() && (len(with) == len(g.leases) || len(with) <= maxLeases)
		})
		if at < 0 {
			at = len(all)
			all = append(all, &group{namespace: c.namespace(), leases: []string{ippool.SharedLease}})
		}
		g := all[at]
		g.leases, g.changes = union(g.leases, c.leases), append(g.changes, c)
	}
	return all
}

// union appends to names those of more that they lack.
func union(names, more []string) []string {
	for _, n := range more {
		if !slices.Contains(names, n) {
			names = append(slices.Clip(names), n)
		}
	}
	return names
}

const (
	refreshEvery = 5 * time.Second // how old reports, Leases, Nodes and definitions may be at the second check
	// maxRefresh is how long reading them may take: while one request hangs, the other answers grow old. The lists
	// of a large cluster take some seconds.
	maxRefresh = 15 * time.Second
)

// liveIndex is what the second check judges on: the last refresh, with live reads and our own writes since.
type liveIndex struct {
	*Reconciler
	first       *judge.Observation // before the first refresh
	x           *judge.Index       // nil before it
	known       Known              // before it what the pass knows
	refreshedAt time.Time
}

// observation is what the index was built from, updated except for pods and reservations.
func (b *liveIndex) observation() *judge.Observation { return b.x.Base() }

// refresh reads again what live reads leave out, if the last refresh is too old; if possible while no Lease is held.
func (b *liveIndex) refresh(ctx context.Context) error {
	if !b.refreshedAt.IsZero() && b.Clock.Since(b.refreshedAt) < refreshEvery {
		return nil
	}
	before := b.first
	if b.x != nil {
		before = b.x.Observation()
	}
	ctx, cancel := context.WithTimeout(ctx, maxRefresh)
	defer cancel()
	o, err := b.Source.Relist(ctx, before)
	if err == nil && b.first.Watched {
		b.known = b.known.with(b.loadRestore(ctx, b.known.State, o))
	}
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return fmt.Errorf("read reports, nodes and pools again: %w", err)
	}
	observed, restored := b.known.Observe(o)
	b.known, o.Restored = b.known.with(observed), cmp.Or(restored, before.Restored)
	o.Local, o.FencedSince = before.Local, b.fencedSince()
	if o.Now.Before(before.Now) {
		o.Now = before.Now // the API server's time has whole seconds; confirmed verdicts stay confirmed
	}
	b.x, b.refreshedAt = judge.NewIndex(o, b.known, b.Options.judgePolicy()), b.Clock.Now()
	return nil
}

// read makes a live read and puts the result into the index.
func (b *liveIndex) read(ctx context.Context, need judge.LiveKeys) error {
	live, err := b.Source.GetLive(ctx, b.observation(), need)
	if err != nil {
		return fmt.Errorf("live read: %w", err)
	}
	b.x = b.x.With(live)
	s := b.known.WithVersions(live.Pools)
	if live.Restored != "" {
		s = s.Detected(live.Restored, b.observation().Now)
	}
	next := b.known.with(s)
	if s.IsNewerThan(b.known.State) { // what the restore may have brought back proves nothing now
		b.x = b.x.WithDoubts(next)
	}
	b.known = next
	return nil
}
