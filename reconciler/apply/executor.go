package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"k8s.io/utils/clock"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
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
	// ErrLeaseMissing is that of a change for which the hold never had all Leases.
	ErrLeaseMissing = errors.New("ADDs and DELs held the pool's own Lease each time")
	// errAfterHold: an ADD that took the Lease meanwhile may have adopted the reservation that was deleted.
	errAfterHold = fmt.Errorf("%w before the answer", ErrHoldSpent)
	errNoAnswer  = errors.New("the API server did not answer")
)

// Deps are what the executor reads and writes with.
type Deps struct {
	Reader   Reader
	Leases   Leases
	Clock    clock.Clock
	Jitter   func(time.Duration) time.Duration // spreads a pause
	Log      *slog.Logger
	Progress func(string) // receives progress messages, from several goroutines at once; nil for none
}

// Reader reads what the second check judges on.
type Reader interface {
	// Refresh reads again what live reads leave out, if that is too old.
	Refresh(ctx context.Context) error
	// Read makes a live read.
	Read(ctx context.Context, need facts.LiveKeys) error
	// Wrote adds what was written.
	Wrote(written *facts.Live)
	// Index returns all of that together; nil before the first Refresh.
	Index() *facts.Facts
}

// Rules are how changes of one kind are judged again, and who is told how they end.
type Rules[C Change] interface {
	// Recheck judges changes again on what was read last.
	Recheck(x *facts.Facts, todo []C) Checked[C]
	// FollowUps returns what is written after a change that was just done, because of it.
	FollowUps(x *facts.Facts, c C) []C
	// GaveUp receives each change that writes did not complete. leases are those that were to be held.
	GaveUp(c C, leases []string, err error)
	// Finished receives each change that is done.
	Finished(c C)
}

// Terms are how changes of one kind are written.
type Terms struct {
	Activity string // for the progress messages
	// WriteFor is for how long after the start of a hold writes may begin, and for half as long at least after the second
	// check. Zero is as long as the hold allows.
	WriteFor time.Duration
}

// executor writes the changes of a pass that need the same Leases. Nothing else writes to pools and reservations.
type executor[C Change] struct {
	Deps
	Terms
	rules     Rules[C]
	namespace string
	leases    []string
	writes    int               // changes that were written
	conflicts map[string]string // the resourceVersion at which the last patch of a pool met a conflict
}

// Execute writes changes of one kind. One group that fails does not stop the others.
func Execute[C Change](ctx context.Context, d Deps, t Terms, rules Rules[C], changes []C) {
	for _, g := range groupChanges(changes) {
		e := &executor[C]{
			Deps: d, Terms: t, rules: rules, namespace: g.namespace, leases: g.leases, conflicts: map[string]string{},
		}
		e.run(ctx, g.changes)
	}
}

// run writes the changes, a batch under each hold. Changes for which a hold had no time come first under the next one.
// Changes that failed go back to the end of the queue, and are given up when they have failed too often.
func (e *executor[C]) run(ctx context.Context, queue []C) {
	size, isSpent, fruitless := firstBatch, false, 0 // isSpent: the last hold was too short; fruitless: holds in a row
	for len(queue) > 0 {
		e.progress("%s in namespace %s: %d to go", e.Activity, e.namespace, len(queue)) // also a sign of life for the probe
		n := countAffordable(queue[:min(size, len(queue))])
		partial, writes := countPartial(queue[:n]), e.writes
		if isSpent && partial > 0 { // these have their allocations removed before more reservations are deleted
			n = partial
		}
		remaining, err := e.attempt(ctx, queue[:n])
		if remaining = e.endUnwritten(remaining, len(queue)-n); err == nil || errors.Is(err, ErrForbidden) {
			if err = worstError(remaining); err == nil && len(remaining) > 0 {
				err = ErrConflict
			}
		}
		rest := queue[n:]
		isSpent = errors.Is(err, ErrHoldSpent)
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
			failed, others := partition(remaining, func(c C) bool {
				p := c.soFar()
				p.tries++
				return p.tries == maxTries
			})
			e.giveUp(failed, err)
			remaining = others
		case isSpent: // what a hold reads for changes that it has no time for is read again under the next one
			size = max(size/2, e.writes-writes, 1)
		}
		if queue = slices.Concat(rest, remaining); isSpent {
			partial, others := partition(remaining, C.isPartial)
			queue = slices.Concat(partial, others, rest)
		}
		if isFruitless && len(queue) > 0 {
			e.wait(ctx, 100*time.Millisecond<<min(fruitless, maxTries)) // the hold was too short, or another writer was faster
		}
	}
}

// countAffordable is how many of the first changes have pools that one hold can patch: at least those of one pool.
func countAffordable[C Change](queue []C) int {
	pools, entries := map[string]bool{}, 0
	for i, c := range queue {
		if p := c.Steps().Pool; p != nil && !pools[p.Ref()] {
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
	return errors.Is(err, ErrLeaseForbidden) || errors.Is(err, ErrLeaseBusy) ||
		errors.Is(err, ErrLeaseFailed)
}

// attempt takes the Leases, checks changes and writes them. It returns those to try again, and an error of all.
func (e *executor[C]) attempt(ctx context.Context, todo []C) ([]C, error) {
	if err := e.Reader.Refresh(ctx); err != nil {
		return e.settleWithoutHold(ctx, todo), err
	}
	remaining, isSettled := todo, false
	err := e.Leases.Hold(ctx, e.namespace, e.leases, func(ctx context.Context, s Session) (err error) {
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
func (e *executor[C]) settleWithoutHold(ctx context.Context, changes []C) []C {
	reading, cancel := context.WithTimeout(ctx, maxSettle)
	defer cancel()
	for reading.Err() == nil {
		if remaining, isSettled := e.settle(reading, changes); isSettled {
			return remaining
		}
		e.wait(reading, 500*time.Millisecond)
	}
	if ctx.Err() == nil { // otherwise they are given up
		e.tryToRecreate(changes, 2, 0)
	}
	return changes
}

// settle checks changes again after writes failed, if a reservation was deleted. It recreates the reservations of items
// that prove live: best under the hold, while no ADD can miss them.
func (e *executor[C]) settle(ctx context.Context, changes []C) (remaining []C, ok bool) {
	if countPartial(changes) == 0 {
		return changes, true
	}
	checked, err := e.check(ctx, changes)
	if err != nil {
		return changes, false
	}
	return checked.stand, true
}

// underHold checks what can have changed since the Leases were requested, and writes. It returns what attempt does.
func (e *executor[C]) underHold(ctx context.Context, h *hold, todo []C) (remaining []C, err error) {
	requested := e.Clock.Now()
	if err := e.Reader.Refresh(ctx); err != nil { // the wait for the Lease may have been long
		return todo, err
	}
	start, isBounded := e.Clock.Now(), !h.until.IsZero()
	if isBounded { // the time for the refresh does not count
		h.until = h.until.Add(start.Sub(requested))
	}
	work, without := partition(todo, func(c C) bool { _, leases := c.Leases(); return h.covers(leases) })
	for _, c := range without {
		c.soFar().err = ErrLeaseMissing
	}
	if len(work) > 0 {
		checked, err := e.check(ctx, work)
		if err != nil {
			return todo, err
		}
		if isBounded && e.WriteFor > 0 {
			h.until = start.Add(e.WriteFor)
			if later := e.Clock.Now().Add(e.WriteFor / 2); later.After(h.until) {
				h.until = later
			}
		}
		remaining = e.write(ctx, h, checked)
	}
	remaining = append(remaining, without...)
	return remaining, worstError(remaining)
}

// check is the second check: it reads live what can have changed, and judges again.
func (e *executor[C]) check(ctx context.Context, todo []C) (checked Checked[C], err error) {
	var need facts.LiveKeys
	for _, c := range todo {
		need = need.And(c.Keys(e.Reader.Index()))
	}
	if err := e.Reader.Read(ctx, need.Unique()); err != nil {
		return checked, err
	}
	checked = e.rules.Recheck(e.Reader.Index(), todo)
	e.recreateReservations(checked.undo)
	for _, c := range checked.arrived {
		c.soFar().state = Done
		e.rules.Finished(c)
	}
	return checked, nil
}

// giveUp ends changes for this pass, and recreates the reservations of those that may be incomplete. One reservation
// too many is found and released later; one too few may hand out a live address.
func (e *executor[C]) giveUp(changes []C, err error) {
	e.end(changes, err)
	e.recreateReservations(changes)
}

func (e *executor[C]) end(changes []C, err error) {
	for _, c := range changes {
		e.rules.GaveUp(c, e.leases, err)
		c.soFar().state = GivenUp
	}
}

// endUnwritten gives up the changes whose write is forbidden or was not answered, and returns the others. A write
// that was not answered is tried once more if no other change waits. waiting is how many changes are not in all.
func (e *executor[C]) endUnwritten(all []C, waiting int) (others []C) {
	denied, others := partition(all, func(c C) bool { return errors.Is(c.soFar().err, ErrForbidden) })
	unanswered, rest := partition(others, func(c C) bool { return errors.Is(c.soFar().err, errNoAnswer) })
	again, last := partition(unanswered, func(c C) bool {
		p := c.soFar()
		p.unanswered++
		return p.unanswered == 1
	})
	if others = append(rest, again...); len(rest)+waiting > 0 {
		others, last = rest, unanswered
	}
	denied = append(denied, last...)
	for _, c := range denied {
		e.end([]C{c}, c.soFar().err)
	}
	e.recreateReservations(denied)
	return others
}

func (e *executor[C]) progress(format string, args ...any) {
	if e.Progress != nil {
		e.Progress(fmt.Sprintf(format, args...))
	}
}

// wait pauses for about d; it ends early with the context.
func (e *executor[C]) wait(ctx context.Context, d time.Duration) {
	t := e.Clock.NewTimer(e.Jitter(d))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C():
	}
}
