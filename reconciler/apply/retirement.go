package apply

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

// Retirement is the delete of an empty pool. It has one step, which leaves nothing to undo:
//
//	Waiting ─delete─► Done
//	   │                ▲
//	   └► PatchSent ────┘
//
// In the state PatchSent the delete was sent, with unknown outcome. The next second check reads whether that pool still
// exists. Then it deletes the pool again, by the version that it reads: a late first delete cannot match that, unless
// nothing has changed, and then it ends the same empty pool.
type Retirement struct {
	Pool *ippool.Pool // as the last check read it
	progress
	removal *ippool.Removal // of the pool as the second check read it; nil before that
}

// NewRetirement returns the retirement of a pool, of which nothing is written.
func NewRetirement(p *ippool.Pool) *Retirement { return &Retirement{Pool: p} }

// Leases returns the namespace of the pool, and its Leases: the shared one, and its own if it may be a node slice.
func (r *Retirement) Leases() (namespace string, names []string) {
	return r.Pool.Namespace, r.Pool.LeaseNames()
}

// Keys names the pool.
func (r *Retirement) Keys(*facts.Facts) facts.LiveKeys {
	return facts.LiveKeys{Pools: []types.NamespacedName{r.Pool.NamespacedName}}
}

// Presence is what the second check shows of the pool of a Retirement.
type Presence int

const (
	StillThere   Presence = iota // the very pool exists
	PoolArrived                  // an earlier delete of this process arrived, its answer did not
	PoolIsAbsent                 // somebody else has deleted the pool
	PoolIsOther                  // it was deleted, and created again
)

// Recheck compares the pool with that of the second check, nil for none.
func (r *Retirement) Recheck(now *ippool.Pool) Presence {
	isGone := now == nil || now.UID != r.Pool.UID
	switch {
	case isGone && r.state == PatchSent:
		return PoolArrived
	case now == nil:
		return PoolIsAbsent
	case isGone:
		return PoolIsOther
	}
	return StillThere
}

// Stand takes over the pool as the second check read it, if that version may be deleted.
func (r *Retirement) Stand(now *ippool.Pool) (err error) {
	r.removal, err = ippool.NewRemoval(now)
	r.Pool = now
	return err
}

// Steps returns the delete of the pool.
func (r *Retirement) Steps() Steps { return Steps{Retire: r.removal} }

// Note records the answer to the only step.
func (r *Retirement) Note(step Step, err error) State {
	r.err, r.state = err, r.state.next(step, answerOf(err))
	return r.state
}

// isPartial is false: a delete whose outcome is unknown leaves nothing to recreate.
func (r *Retirement) isPartial() bool { return false }

func (r *Retirement) undo() []*ippool.Reservation { return nil }

func (r *Retirement) noteUndone([]*ippool.Reservation) {}

// CheckedRetirements is the second check of retirements: what stands, and of what an earlier delete has arrived. All
// others of todo end.
func CheckedRetirements(todo, stand, arrived []*Retirement) Checked[*Retirement] {
	endOthers(todo, stand, arrived)
	return Checked[*Retirement]{stand: stand, arrived: arrived}
}
