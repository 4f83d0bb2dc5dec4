package reconciler

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// A change is one thing that a pass writes: the release of an allocation or of a reservation that stands alone,
// or the repair of a finding. The executor takes it through these states; a write that fails leaves it in one,
// and the next second check goes on from there:
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
// A reservation is deleted before its entry, because an ADD adopts a reservation of its own pod without writing it:
// then only the pool's resourceVersion, which the patch tests, shows that ADD. What was deleted for an entry that
// stays is created again.
type change struct {
	*judge.Item                // what is released; nil for a repair
	finding     *judge.Finding // what is repaired; nil for a release
	leases      []string       // that its writes need
	state       state
	err         error // why its last write failed; nil where it did not
	tries       int   // holds that it was tried under in vain

	// pools may have entries that need the reservations of a release. They are noted before a reservation is
	// deleted, because they do not follow from what is read afterwards.
	pools   []types.NamespacedName
	deletes []*ippool.Reservation // are deleted before the entry is removed
	deleted []*ippool.Reservation // are deleted, or may be, and the entry was not removed

	repairTerms
}

// state is how far a change has come.
type state int

const (
	planned            state = iota // nothing was written
	reservationDeleted              // a reservation is deleted, or may be
	patchSent                       // a patch of the pool was sent, and its outcome is not known
	done
)

// writeStep is a write of a change.
type writeStep int

const (
	deleteStep writeStep = iota // of a reservation whose entry is removed afterwards
	lastStep                    // the patch of the pool, or the only write of a change that has no entry
)

// outcome is what is known of a write.
type outcome int

const (
	succeeded  outcome = iota
	notWritten         // it was not sent, or lost a race
	uncertain          // an error that may hide that it was written
)

// notSent is the error of a write that was not sent.
type notSent struct{ error }

func (e notSent) Unwrap() error { return e.error }

func outcomeOf(err error) outcome {
	switch _, unsent := errors.AsType[notSent](err); {
	case err == nil:
		return succeeded
	case unsent, errors.Is(err, ErrConflict), errors.Is(err, ErrHoldSpent):
		return notWritten
	}
	return uncertain
}

// after is the state after a write.
func (s state) after(at writeStep, o outcome) state {
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

// begun reports whether something is written of a release that is not complete: what was deleted must be created
// again if the entry stays.
func (c *change) begun() bool {
	return c.finding == nil && c.Allocation != nil && (c.state == reservationDeleted || c.state == patchSent)
}

// pool is the pool that the change patches or creates; nil where it is about a reservation alone.
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

// poolNames are the pools whose entries the change is judged by.
func (c *change) poolNames() []types.NamespacedName {
	if c.finding != nil {
		p := c.finding.Repair.Pool
		return []types.NamespacedName{{Namespace: p.Namespace, Name: p.Name}}
	}
	return uniqueNames(slices.Concat(c.pools, c.Item.PoolNames()))
}

// noteDelete takes in the answer to the delete of a reservation of an entry. It is noted as deleted where an error
// may hide that it is.
func (c *change) noteDelete(r *ippool.Reservation, err error) {
	c.err = moreSevere(c.err, err)
	if c.Allocation == nil {
		c.state = c.state.after(lastStep, outcomeOf(err))
		return
	}
	if outcomeOf(err) != notWritten {
		c.noteDeleted(r)
	}
}

func (c *change) noteDeleted(r *ippool.Reservation) {
	c.state = c.state.after(deleteStep, uncertain)
	if !slices.ContainsFunc(c.deleted, func(x *ippool.Reservation) bool { return x.UID == r.UID && x.Ref() == r.Ref() }) {
		c.deleted = append(c.deleted, r)
	}
}

// notePatch takes in the answer to the patch of the pool.
func (c *change) notePatch(err error) {
	c.err, c.state = err, c.state.after(lastStep, outcomeOf(err))
}

// moreSevere is the error that says more. A conflict or a Lease that others hold concerns one object, which is tried
// again.
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
	case errors.Is(err, ErrConflict):
		return 1
	}
	return 2
}

// worst is the most severe error of changes.
func worst(changes []*change) (err error) {
	for _, c := range changes {
		err = moreSevere(err, c.err)
	}
	return err
}

func countBegun(changes []*change) (n int) {
	for _, c := range changes {
		if c.begun() {
			n++
		}
	}
	return n
}

// unique are the keys, each once.
func (k LiveKeys) unique() LiveKeys {
	k.Pools, k.Reservations, k.Pods = uniqueNames(k.Pools), uniqueNames(k.Reservations), uniqueNames(k.Pods)
	return k
}

func uniqueNames(names []types.NamespacedName) []types.NamespacedName {
	slices.SortFunc(names, func(a, b types.NamespacedName) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return slices.Compact(names)
}
