package apply

import (
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"k8s.io/apimachinery/pkg/types"
)

// Repair is the repair of a finding: it writes an allocation, or creates a reservation.
type Repair struct {
	Finding *findings.Finding // as the last check found it; it has a findings.Repair
	progress
	leases     []string
	IsDue      bool // it has stood for long enough
	IsFollowUp bool // the reservation of an allocation that was repaired
	HasNoPod   bool // no pod in the API asks for the allocation, see plan.Repair
	IsWatched  bool // it was found in watch caches, so that the second check reads its pod
}

// NewRepair returns the repair of a finding, of which nothing is written.
func NewRepair(f *findings.Finding) *Repair {
	return &Repair{Finding: f, leases: f.Repair.Pool.LeaseNames()}
}

// FollowUp returns the repair that creates the reservation of the allocation that was written, if it needs one.
func (r *Repair) FollowUp(f *facts.Facts) []*Repair {
	missing := findings.ReservationOf(f, r.Finding)
	if missing == nil {
		return nil
	}
	return []*Repair{{Finding: missing, leases: r.leases, IsDue: r.IsDue, IsFollowUp: true}}
}

// Leases returns the namespace of the pool, and its Leases.
func (r *Repair) Leases() (namespace string, names []string) {
	return r.Finding.Repair.Pool.Namespace, r.leases
}

// Keys names the pool, the pod that only watches have shown, and the reservation of which a write failed.
func (r *Repair) Keys(*facts.Facts) (need facts.LiveKeys) {
	w := r.Finding.Repair
	need.Pools = []types.NamespacedName{w.Pool.NamespacedName}
	if ref, err := ippool.ParsePodRef(w.PodRef); err == nil && r.IsWatched && w.Key != "" {
		need.Pods = []types.NamespacedName{{Namespace: ref.Namespace, Name: ref.Name}}
	}
	if r.err != nil {
		need.Reservations = []types.NamespacedName{
			{Namespace: w.Pool.Namespace, Name: ippool.ReservationName(w.Network, w.Address)},
		}
	}
	return need
}

// Recheck takes the finding over as the second check found it.
func (r *Repair) Recheck(found *findings.Finding) { r.Finding = found }

// HasArrived reports whether what it writes is there, after a write whose answer was lost.
func (r *Repair) HasArrived(f *facts.Facts) bool {
	w := r.Finding.Repair
	switch {
	case r.state != PatchSent:
		return false
	case w.Key == "":
		own := f.ReservationNamed(w.Pool.Namespace, ippool.ReservationName(w.Network, w.Address))
		return own != nil && own.Problem == "" && own.PodRef == w.PodRef
	}
	p := f.PoolNamed(w.Pool.Ref())
	if p == nil || p.Problem != "" {
		return false
	}
	a := p.Find(w.Key)
	return a != nil && a.Problem == "" && a.ContainerID == w.ContainerID && a.PodRef == w.PodRef && a.IfName == w.IfName
}

// Steps returns the allocation that is added to the pool, or the reservation that is created. The reservation of a pod
// that has ended is replaced: that one would let its pod have the address from a pool with an overlapping range.
func (r *Repair) Steps() Steps {
	w := r.Finding.Repair
	if w.Key == "" {
		return Steps{Replace: w.PreviousReservation, Create: w.NewReservation()}
	}
	entry := w.NewEntry()
	return Steps{Pool: w.Pool, IsNewPool: w.NewPool, Add: &entry}
}

// Note records the answer to the only step.
func (r *Repair) Note(step Step, err error) State {
	r.err, r.state = err, r.state.next(step, answerOf(err))
	return r.state
}

// isPartial is false: a patch whose outcome is unknown leaves nothing to recreate.
func (r *Repair) isPartial() bool { return false }

func (r *Repair) undo() []*ippool.Reservation { return nil }

func (r *Repair) noteUndone([]*ippool.Reservation) {}
