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
	maxIdleHolds = 15 // how many holds in a row that brought no change further end the pass for all that wait
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
	// Facts returns all of that together; nil before the first Refresh.
	Facts() *facts.Facts
}

// Rules are how changes of one kind are judged again, and who is told how they end.
type Rules[C Change] interface {
	// Recheck judges changes again on what was read last.
	Recheck(f *facts.Facts, todo []C) Checked[C]
	// FollowUps returns what is written after a change that was just done, because of it.
	FollowUps(f *facts.Facts, c C) []C
	// GaveUp receives each change that writes did not complete, and why.
	GaveUp(c C, why Failure)
	// Finished receives each change that is done.
	Finished(c C)
}

// Failure is why a change was given up.
type Failure struct {
	Err    error
	Leases []string // that were to be held
	Tries  int      // that failed by themselves, not for lack of time
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
	backlog   *backlog[C]
	conflicts map[string]string // the resourceVersion at which the last patch of a pool met a conflict
}

// Execute writes changes of one kind. One group that fails does not stop the others.
func Execute[C Change](ctx context.Context, d Deps, t Terms, rules Rules[C], changes []C) {
	for _, g := range groupChanges(changes) {
		e := &executor[C]{
			Deps: d, Terms: t, rules: rules, namespace: g.namespace, leases: g.leases,
			backlog: newBacklog(g.changes), conflicts: map[string]string{},
		}
		e.run(ctx)
	}
}

// run takes a batch of changes from the backlog under each hold, until all have ended. An error that concerns all of
// them ends all of them.
func (e *executor[C]) run(ctx context.Context) {
	idle := 0 // holds in a row
	for len(e.backlog.waiting) > 0 {
		e.progress("%s in namespace %s: %d to go", e.Activity, e.namespace, len(e.backlog.waiting)) // a sign of life, too
		batch, pause := e.backlog.take(e.Clock.Now())
		e.wait(ctx, pause)
		before := statesOf(batch)
		all, err := e.attempt(ctx, batch)
		left, moved := notEnded(all), countMoved(before, all)
		if idle++; moved > 0 {
			idle = 0
		}
		switch rest := slices.Concat(left, e.backlog.waiting); {
		case isFatal(err), idle == maxIdleHolds:
			e.giveUp(rest, cmp.Or(err, worstError(left), ErrConflict))
			return
		case ctx.Err() != nil: // no failure of its kind
			e.giveUp(rest, errors.New(cmp.Or(err, worstError(left), ctx.Err()).Error()))
			return
		}
		isSpent := e.putBack(left, err, len(batch) == 1 && moved == 0)
		e.backlog.resize(len(batch), moved, isSpent, len(left) == 0)
	}
}

// putBack puts changes that were tried back into the backlog, or gives them up. err is that of their hold, if it has
// one. A hold that was too short, isSpent, is no failure of its changes, unless it is stuck: it had a single one, and
// did not bring that further. A write that was not answered took all of its hold. It is tried once more if no other
// change waits.
func (e *executor[C]) putBack(changes []C, err error, isStuck bool) (isSpent bool) {
	othersWait := len(e.backlog.waiting) > 0 || slices.ContainsFunc(changes, func(c C) bool {
		return !errors.Is(errorOf(c, err), errNoAnswer)
	})
	var noTime, lost []C
	for _, c := range changes {
		switch why := errorOf(c, err); {
		case errors.Is(why, ErrForbidden), errors.Is(why, ErrLeaseForbidden),
			errors.Is(why, errNoAnswer) && (othersWait || e.backlog.tries(c) > 0):
			lost = append(lost, c)
		case errors.Is(why, ErrHoldSpent) && !isStuck:
			noTime = append(noTime, c)
		case !e.backlog.retry(c, e.Clock.Now()):
			lost = append(lost, c)
		}
	}
	e.backlog.putFirst(noTime)
	e.giveUp(lost, err)
	return len(noTime) > 0
}

// isFatal reports whether an error of a hold concerns all changes that need its Leases.
func isFatal(err error) bool {
	return errors.Is(err, ErrLeaseForbidden) || errors.Is(err, ErrLeaseBusy) ||
		errors.Is(err, ErrLeaseFailed)
}

// attempt takes the Leases, checks a batch of changes and writes it. Each change has its state and its error then. all
// are the batch and the changes that follow it. The error is that of the hold.
func (e *executor[C]) attempt(ctx context.Context, batch []C) (all []C, err error) {
	all = batch
	if err := e.Reader.Refresh(ctx); err != nil {
		e.settleWithoutHold(ctx, all)
		return all, err
	}
	isSettled := false
	err = e.Leases.Hold(ctx, e.namespace, e.leases, func(ctx context.Context, s Session) (err error) {
		all, err = e.underHold(ctx, newHold(s), batch)
		isSettled = e.settle(ctx, all)
		return err
	})
	left := notEnded(all)
	e.Log.Debug("Held whereabouts' Leases", "namespace", e.namespace, "leases", e.leases, "items", len(batch),
		"remaining", len(left), "error", cmp.Or(err, worstError(left)))
	if !isSettled {
		e.settleWithoutHold(ctx, all)
	}
	return all, err
}

// settleWithoutHold settles changes while no Lease is held. If nothing can be read, it tries to recreate every
// reservation that was deleted, since an allocation may need it.
func (e *executor[C]) settleWithoutHold(ctx context.Context, changes []C) {
	reading, cancel := context.WithTimeout(ctx, maxSettle)
	defer cancel()
	for reading.Err() == nil {
		if e.settle(reading, changes) {
			return
		}
		e.wait(reading, 500*time.Millisecond)
	}
	if ctx.Err() == nil { // otherwise they are given up
		e.tryToRecreate(changes, 2, 0)
	}
}

// settle checks changes again after writes failed, if a reservation was deleted. It recreates the reservations of items
// that prove live: best under the hold, while no ADD can miss them. It reports whether that was possible.
func (e *executor[C]) settle(ctx context.Context, changes []C) bool {
	left := notEnded(changes)
	if !slices.ContainsFunc(left, C.isPartial) {
		return true
	}
	_, _, err := e.check(ctx, left) // only repairs have changes that follow, and no repair is partial
	return err == nil
}

// underHold checks what can have changed since the Leases were requested, and writes. It returns what attempt does.
func (e *executor[C]) underHold(ctx context.Context, h *hold, batch []C) (all []C, err error) {
	requested := e.Clock.Now()
	if err := e.Reader.Refresh(ctx); err != nil { // the wait for the Lease may have been long
		return batch, err
	}
	start, isBounded := e.Clock.Now(), !h.until.IsZero()
	if isBounded { // the time for the refresh does not count
		h.until = h.until.Add(start.Sub(requested))
	}
	work, without := partition(batch, func(c C) bool { _, leases := c.Leases(); return h.covers(leases) })
	for _, c := range without {
		_, leases := c.Leases()
		c.soFar().err = h.missing(leases)
	}
	if len(work) == 0 {
		return batch, nil
	}
	stand, followUps, err := e.check(ctx, work)
	if err != nil {
		return batch, err
	}
	batch = slices.Concat(batch, followUps)
	if isBounded && e.WriteFor > 0 {
		h.until = start.Add(e.WriteFor)
		if later := e.Clock.Now().Add(e.WriteFor / 2); later.After(h.until) {
			h.until = later
		}
	}
	return slices.Concat(batch, e.write(ctx, h, slices.Concat(stand, followUps))), nil
}

// check is the second check: it reads live what can have changed, and judges again. It returns the changes that stand,
// and those that follow what an earlier write has completed. All others have ended.
func (e *executor[C]) check(ctx context.Context, todo []C) (stand, followUps []C, err error) {
	var need facts.LiveKeys
	for _, c := range todo {
		need = need.And(c.Keys(e.Reader.Facts()))
	}
	if err := e.Reader.Read(ctx, need.Unique()); err != nil {
		return nil, nil, err
	}
	checked := e.rules.Recheck(e.Reader.Facts(), todo)
	e.recreateReservations(checked.undo)
	for _, c := range checked.arrived {
		c.soFar().state = Done
		e.rules.Finished(c)
		followUps = append(followUps, e.rules.FollowUps(e.Reader.Facts(), c)...)
	}
	return checked.stand, followUps, nil
}

// giveUp ends changes for this pass, and recreates the reservations of those that may be incomplete. One reservation
// too many is found and released later; one too few may hand out a live address. err is that of their hold, if it has
// one.
func (e *executor[C]) giveUp(changes []C, err error) {
	for _, c := range changes {
		why, leases := errorOf(c, err), e.leases
		if errors.Is(why, ErrLeaseForbidden) {
			_, leases = c.Leases()
		}
		e.rules.GaveUp(c, Failure{why, leases, e.backlog.tries(c)})
		c.soFar().state = GivenUp
	}
	e.recreateReservations(changes)
}

func (e *executor[C]) progress(format string, args ...any) {
	if e.Progress != nil {
		e.Progress(fmt.Sprintf(format, args...))
	}
}

// wait pauses for about d; it ends early with the context.
func (e *executor[C]) wait(ctx context.Context, d time.Duration) {
	if d == 0 {
		return
	}
	t := e.Clock.NewTimer(e.Jitter(d))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C():
	}
}
