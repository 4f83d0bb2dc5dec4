package sim

import (
	"math/rand/v2"
	"time"
)

// restoreSteps are the steps of a restore-heavy plan: what restores etcd, and what a restore has to outlast.
var restoreSteps = []string{
	"etcd is restored", "etcd is restored", "a backup of etcd", "a backup of etcd",
	"a restore forgets who has an address now", "a restore forgets who has an address now",
	"a restore brings back a taint", "a restore brings back an earlier boot", "the product is killed",
	"the link of a node", "an agent stops", "an agent starts",
}

// NewRestorePlan draws a plan in which etcd is restored again and again: two thirds of the steps are of restoreSteps.
// It has a random source of its own beside that of NewPlan, so that ordinary plans are as without it.
func NewRestorePlan(seed uint64) *Plan {
	p, r := NewPlan(seed), newRand(seed+1<<40)
	p.Agents, p.Liar, p.Trust, p.Unreachable = 1<<p.Nodes-1, 0, false, 0
	if p.Visits = false; r.IntN(6) == 0 {
		p.Serve, p.Replicas = true, 1+r.IntN(2)
	}
	for i := range p.Steps {
		if r.IntN(3) == 0 {
			continue
		}
		x := &p.Steps[i]
		x.Kind, x.A, x.B = drawRestoreStep(r), r.IntN(8), r.IntN(8)
		if r.IntN(2) == 0 {
			x.Gap = time.Duration(r.IntN(30_000)) * time.Millisecond
		}
	}
	for range 2 + r.IntN(3) {
		x := Step{Gap: time.Duration(r.IntN(40_000)) * time.Millisecond, A: r.IntN(8), B: r.IntN(8)}
		x.Kind = drawRestoreStep(r)
		p.Steps = append(p.Steps, x)
	}
	return p
}

func drawRestoreStep(r *rand.Rand) int { return kindOf(restoreSteps[r.IntN(len(restoreSteps))]) }
