package apply

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Release is the release of an allocation with its reservations, or that of a reservation without an allocation.
type Release struct {
	Item *judge.Item // what is released, as the last check judged it
	progress
	leases []string
	// pools may have allocations that need the reservations. Reads after a delete do not show them.
	pools   []types.NamespacedName
	deletes []*ippool.Reservation // to delete before the allocation is removed
	deleted []*ippool.Reservation // deleted, or perhaps, while the allocation is not removed
}

// NewRelease returns the release of an item, of which nothing is written.
func NewRelease(it *judge.Item) *Release {
	return &Release{Item: it, leases: it.LeaseNames(), pools: it.PoolNames()}
}

// Leases returns the namespace of the item, and the Leases of its pools.
func (r *Release) Leases() (namespace string, names []string) { return r.Item.Namespace(), r.leases }

// ID identifies the item.
func (r *Release) ID() judge.ID { return r.Item.ID() }

// Deleted returns the reservations that were deleted, or perhaps.
func (r *Release) Deleted() []*ippool.Reservation { return r.deleted }

// Keys leaves out a known reservation, since its delete tests the UID and the resourceVersion.
func (r *Release) Keys(f *facts.Facts) (need facts.LiveKeys) {
	it := r.Item
	if r.err != nil && it.Reservation != nil {
		need.Reservations = append(need.Reservations, it.Reservation.NamespacedName)
	}
	if it.Pool != nil && (r.err != nil || len(it.Related()) == 0) {
		need.Reservations = append(need.Reservations, judge.ReservationsOf(f, it)...)
	}
	for _, x := range slices.Concat(it.Related(), []*judge.Item{it}) {
		if claim := x.IPAMClaim(); claim != nil {
			need.IPAMClaims = append(need.IPAMClaims, *claim)
		}
	}
	need.Pools = slices.Concat(r.pools, it.PoolNames(), judge.PoolNamesOf(f, it))
	if owner := it.Owner(); owner.UID == "" {
		need.Pods = append(need.Pods, types.NamespacedName{Namespace: owner.Namespace, Name: owner.Name})
	}
	return need
}

// Standing is what the second check shows of a Release.
type Standing int

const (
	StillStale   Standing = iota // it stands if the gates let it pass
	MayBeAdopted                 // the reservation is deleted, or perhaps: the delete is completed, or undone for an ADD
	Arrived                      // an earlier patch arrived, its answer did not
	Rewritten                    // the allocation or reservation was deleted or rewritten
	HasEntry                     // the reservation has an allocation now
	Contradicted                 // it is not Stale any more
)

// Recheck compares the item with that of the second check; nil if that does not have it any more.
func (r *Release) Recheck(f *facts.Facts, now *judge.Item) Standing {
	switch {
	case now == nil && r.state == PatchSent && judge.HasNoEntry(f, r.Item):
		return Arrived
	case now == nil && r.isDeletedAlone(): // it is deleted again, unless rollback recreates it for an ADD that adopted it
		return MayBeAdopted
	case now == nil || !now.HasClaimOf(r.Item): // its claim was not read live
		return Rewritten
	case now.Reservation != nil && len(now.Related()) > 0:
		return HasEntry
	case now.Verdict != judge.Stale:
		return Contradicted
	}
	return StillStale
}

// isDeletedAlone reports whether a reservation without an allocation was deleted, or perhaps, when an ADD may have
// adopted it.
func (r *Release) isDeletedAlone() bool { return r.isPartial() && r.Item.Allocation == nil }

// Steps returns the deletes of the reservations, and the removal of the allocation where there is one.
func (r *Release) Steps() Steps {
	return Steps{Delete: r.deletes, Pool: r.Item.Pool, Remove: r.Item.Allocation}
}

// takeReservations decides which reservations are deleted for releases that stand.
func takeReservations(releases []*Release) {
	isReleased := judge.IDs(releases)
	for _, r := range releases {
		r.deletes = r.Item.ReservationsWithout(isReleased)
	}
}

// Note records the answer to a step. A delete that may have arrived counts as arrived.
func (r *Release) Note(step Step, err error) State {
	if step.Delete == nil {
		r.err, r.state = err, r.state.next(step, answerOf(err))
		return r.state
	}
	r.err = moreSevere(r.err, err)
	if answerOf(err) != notWritten {
		r.noteDeleted(step.Delete)
	}
	if r.Item.Allocation == nil && answerOf(err) == succeeded {
		r.state, r.deleted = Done, nil
	}
	return r.state
}

func (r *Release) noteDeleted(res *ippool.Reservation) {
	r.state = r.state.next(Step{Delete: res}, uncertain)
	if !slices.ContainsFunc(r.deleted, func(x *ippool.Reservation) bool { return isSame(x, res) }) {
		r.deleted = append(r.deleted, res)
	}
}

// isPartial reports whether its reservations must be recreated if an allocation needs them.
func (r *Release) isPartial() bool { return r.state == ReservationDeleted || r.state == PatchSent }

func (r *Release) undo() []*ippool.Reservation {
	if r.state == Done {
		return nil
	}
	return r.deleted
}

func (r *Release) noteUndone(remaining []*ippool.Reservation) {
	r.deleted = slices.DeleteFunc(r.deleted, func(res *ippool.Reservation) bool {
		return !slices.ContainsFunc(remaining, func(x *ippool.Reservation) bool { return isSame(x, res) })
	})
	if len(r.deleted) == 0 && r.state == ReservationDeleted {
		r.state = Waiting
	}
}

func isSame(x, y *ippool.Reservation) bool { return x.Ref() == y.Ref() && x.UID == y.UID }
