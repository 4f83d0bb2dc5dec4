package apply

import (
	"cmp"
	"errors"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

// Change is one thing that a pass writes: a Release, a Repair or a Retirement. The executor takes it through these
// states until it is Done or GivenUp. A write that fails leaves it in one of them. Then it is in the backlog until the
// next hold, whose second check goes on there:
//
//	   ┌─create again──┐
//	   ▼               │
//	Waiting ─delete─► ReservationDeleted
//	   │               │
//	 patch           patch ───► Done
//	   │               │         ▲
//	   └► PatchSent ◄──┘         │
//	         └────────patch──────┘
//
// A reservation is deleted before its allocation, because an ADD adopts a reservation of its own pod without writing
// it: then only the pool's resourceVersion, which the patch tests, reveals that ADD. A reservation that was deleted for
// an allocation that stays is created again. The delete of a reservation without allocation has no such patch. It is
// done when its answer arrives while the hold lasts. Otherwise the next second check reads whether an ADD adopted it.
// If nothing can be read, a deleted reservation is created again without a check.
type Change interface {
	// Leases returns the namespace of what is written, and those of whereabouts' Leases in it that this needs.
	Leases() (namespace string, names []string)
	// Keys names what the second check reads live. The facts are what was read last.
	Keys(f *facts.Facts) facts.LiveKeys
	// Steps returns what has yet to be written.
	Steps() Steps
	// Note records the answer to a step, and returns the state after it.
	Note(step Step, err error) State
	// undo returns the reservations to recreate if the change ends here.
	undo() []*ippool.Reservation
	// noteUndone records that of the reservations to recreate only those remain that are still deleted.
	noteUndone(remaining []*ippool.Reservation)
	// isPartial reports whether it is half done, and must be checked again before it ends.
	isPartial() bool
	soFar() *progress
}

// progress is how far a change has come.
type progress struct {
	state   State
	err     error     // of its last write
	retryAt time.Time // before then no hold tries it again; zero for at once
}

func (p *progress) soFar() *progress { return p }

// State is how far a change has come.
type State int

const (
	Waiting            State = iota // nothing was written
	ReservationDeleted              // a reservation is deleted, or perhaps
	PatchSent                       // a patch of the pool was sent, with unknown outcome
	Done
	GivenUp // until the next pass
)

// Steps are what a change writes, in this order.
type Steps struct {
	Delete []*ippool.Reservation // before the allocation is removed
	// Pool is patched once for all changes of a hold, or created; nil where the change concerns only a reservation.
	Pool      *ippool.Pool
	IsNewPool bool                // the pool does not exist
	Remove    *ippool.Allocation  // from the pool; nil for none
	Add       *ippool.NewEntry    // to the pool; nil for none
	Replace   *ippool.Reservation // deleted before Create; nil for none
	Create    *ippool.Reservation // nil for none
	Retire    *ippool.Removal     // the pool that is deleted, after all else; nil for none
}

// Step is one write of a change: the delete of a reservation, or else the last one, which completes the change.
type Step struct {
	Delete *ippool.Reservation // nil for the last step
}

type answer int // what is known about a write

const (
	succeeded  answer = iota
	notWritten        // not sent, or lost a race
	uncertain         // an error, but the write may have arrived
)

type notSent struct{ error } // the error of a write that was not sent

func (e notSent) Unwrap() error { return e.error }

func answerOf(err error) answer {
	switch _, unsent := errors.AsType[notSent](err); {
	case err == nil:
		return succeeded
	case errors.Is(err, errAfterHold):
		return uncertain
	case unsent, errors.Is(err, ErrConflict), errors.Is(err, ErrHoldSpent):
		return notWritten
	}
	return uncertain
}

func (s State) next(at Step, a answer) State {
	switch {
	case a == notWritten, s >= Done:
		return s
	case at.Delete != nil:
		return max(s, ReservationDeleted) // a patch that was sent before may still arrive
	case a == succeeded:
		return Done
	}
	return PatchSent
}

// moreSevere returns the error that concerns more. A conflict or a busy Lease concerns one object.
func moreSevere(a, b error) error {
	if a == nil || b != nil && severity(b) > severity(a) {
		return b
	}
	return a
}

func severity(err error) int {
	switch {
	case errors.Is(err, ErrLeaseMissing):
		return 0
	case errors.Is(err, ErrConflict):
		return 1
	}
	return 2
}

func worstError[C Change](changes []C) (err error) {
	for _, c := range changes {
		err = moreSevere(err, c.soFar().err)
	}
	return err
}

// errorOf is why a change has not ended. err is that of its hold, if it has one.
func errorOf[C Change](c C, err error) error {
	return cmp.Or(err, c.soFar().err, ErrConflict)
}

func notEnded[C Change](changes []C) []C {
	left, _ := partition(changes, func(c C) bool { return c.soFar().state < Done })
	return left
}

func statesOf[C Change](changes []C) []State {
	states := make([]State, 0, len(changes))
	for _, c := range changes {
		states = append(states, c.soFar().state)
	}
	return states
}

// countMoved counts the changes that are further than before. Those after the end of before were Waiting.
func countMoved[C Change](before []State, changes []C) (n int) {
	for i, c := range changes {
		was := Waiting
		if i < len(before) {
			was = before[i]
		}
		if c.soFar().state > was {
			n++
		}
	}
	return n
}

func partition[C any](changes []C, is func(C) bool) (with, without []C) {
	for _, c := range changes {
		if is(c) {
			with = append(with, c)
		} else {
			without = append(without, c)
		}
	}
	return with, without
}
