package reconciler

import (
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// change is one thing that a pass writes: the release of an allocation, the release of a reservation without one, or
// the repair of a finding. The executor takes it through these states. A write that fails leaves it in one of them,
// where the next second check goes on:
//
//	   ┌─create again──┐
//	   ▼               │
//	planned ─delete─► reservationDeleted
//	   │               │
//	 patch           patch ───► done
//	   │               │         ▲
//	   └► patchSent ◄──┘         │
//	         └────────patch──────┘
//
// A reservation is deleted before its allocation, because an ADD adopts a reservation of its own pod without writing
// it: then only the pool's resourceVersion, which the patch tests, reveals that ADD. A reservation that was deleted for
// an allocation that stays is created again. The delete of a reservation without allocation has no such patch. It is
// done when its answer arrives while the hold lasts. Otherwise the next second check reads whether an ADD adopted it.
// If nothing can be read, a deleted reservation is created again without a check.
type change struct {
	*judge.Item                // what is released; nil for a repair
	finding     *judge.Finding // what is repaired; nil for a release
	leases      []string       // needed for its writes
	state       state
	err         error // of its last write
	tries       int   // fruitless holds
	unanswered  int   // writes that outlasted their hold without success

	// pools may have allocations that need the reservations of a release. Reads after a delete do not show them.
	pools   []types.NamespacedName
	deletes []*ippool.Reservation // to delete before the allocation is removed
	deleted []*ippool.Reservation // deleted, or perhaps, while the allocation is not removed

	repairTerms
}

type state int // of a change

const (
	planned            state = iota // nothing was written
	reservationDeleted              // a reservation is deleted, or perhaps
	patchSent                       // a patch of the pool was sent, with unknown outcome
	done
)

type writeStep int // a kind of write

const (
	deleteStep writeStep = iota // of a reservation whose allocation is removed afterwards
	lastStep                    // the patch of the pool, or the only write of a change without allocation
)

type outcome int // what is known about a write

const (
	succeeded  outcome = iota
	notWritten         // not sent, or lost a race
	uncertain          // an error, but the write may have arrived
)

type notSent struct{ error } // the error of a write that was not sent

func (e notSent) Unwrap() error { return e.error }

func outcomeOf(err error) outcome {
	switch _, unsent := errors.AsType[notSent](err); {
	case err == nil:
		return succeeded
	case errors.Is(err, errAfterHold):
		return uncertain
	case unsent, errors.Is(err, apply.ErrConflict), errors.Is(err, apply.ErrHoldSpent):
		return notWritten
	}
	return uncertain
}

func (s state) next(at writeStep, o outcome) state {
	switch {
	case o == notWritten, s == done:
		return s
	case at == deleteStep:
		return max(s, reservationDeleted) // a patch that was sent before may still arrive
	case o == succeeded:
		return done
	}
	return patchSent
}

// isPartial reports whether a release is half done: its reservations must be recreated if an allocation needs them.
func (c *change) isPartial() bool {
	return c.finding == nil && (c.state == reservationDeleted || c.state == patchSent)
}

// pool is the pool that the change patches or creates; nil where it concerns only a reservation.
func (c *change) pool() *ippool.Pool {
	switch {
	case c.finding == nil:
		return c.Item.Pool
	case c.finding.Repair.Key != "":
		return c.finding.Repair.Pool
	}
	return nil
}

func (c *change) namespace() string {
	if c.finding != nil {
		return c.finding.Repair.Pool.Namespace
	}
	return c.Item.Namespace()
}

// poolNames are the pools that the second check of the change needs.
func (c *change) poolNames() []types.NamespacedName {
	if c.finding != nil {
		return []types.NamespacedName{c.finding.Repair.Pool.NamespacedName}
	}
	return slices.Concat(c.pools, c.Item.PoolNames())
}

// noteDelete records the answer to the delete of a reservation. One that may have arrived counts as arrived.
func (c *change) noteDelete(r *ippool.Reservation, err error) {
	c.err = moreSevere(c.err, err)
	if outcomeOf(err) != notWritten {
		c.noteDeleted(r)
	}
	if c.Allocation == nil && outcomeOf(err) == succeeded {
		c.state, c.deleted = done, nil
	}
}

// isDeletedAlone reports whether a reservation without an allocation was deleted, or perhaps, when an ADD may have
// adopted it.
func (c *change) isDeletedAlone() bool { return c.isPartial() && c.Allocation == nil }

func (c *change) noteDeleted(r *ippool.Reservation) {
	c.state = c.state.next(deleteStep, uncertain)
	if !slices.ContainsFunc(c.deleted, func(x *ippool.Reservation) bool { return isSame(x, r) }) {
		c.deleted = append(c.deleted, r)
	}
}

func (c *change) notePatch(err error) {
	c.err, c.state = err, c.state.next(lastStep, outcomeOf(err))
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
	case errors.Is(err, errLeaseMissing):
		return 0
	case errors.Is(err, apply.ErrConflict):
		return 1
	}
	return 2
}

func worstError(changes []*change) (err error) {
	for _, c := range changes {
		err = moreSevere(err, c.err)
	}
	return err
}

func countPartial(changes []*change) int {
	partial, _ := partition(changes, (*change).isPartial)
	return len(partial)
}
