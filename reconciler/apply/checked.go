package apply

import (
	"slices"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Checked are changes that have had the second check: only they are written.
type Checked[C Change] struct {
	stand   []C // as they stand now
	arrived []C // done by an earlier write, whose answer did not arrive
	undo    []C // their reservations are recreated
}

// CheckedReleases is the second check of releases: what stands, and of what an earlier write has arrived. All others of
// todo end. Reservations that were deleted for them are recreated if an allocation of the judgement needs them.
func CheckedReleases(f *facts.Facts, j *judge.Judgement, todo, stand, arrived []*Release) Checked[*Release] {
	endOthers(todo, stand, arrived)
	undo := toRecreate(f, j, todo, stand)
	takeReservations(stand)
	return Checked[*Release]{stand, arrived, undo}
}

// CheckedRepairs is the second check of repairs: what stands, and of what an earlier write has arrived. All others of
// todo end.
func CheckedRepairs(todo, stand, arrived []*Repair) Checked[*Repair] {
	endOthers(todo, stand, arrived)
	return Checked[*Repair]{stand: stand, arrived: arrived}
}

// endOthers ends those of todo that neither stand nor have arrived.
func endOthers[C Change](todo, stand, arrived []C) {
	goesOn := map[*progress]bool{}
	for _, c := range slices.Concat(stand, arrived) {
		goesOn[c.soFar()] = true
	}
	for _, c := range todo {
		if p := c.soFar(); !goesOn[p] {
			p.state = GivenUp
		}
	}
}
