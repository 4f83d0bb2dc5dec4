package reconciler

import (
	"fmt"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/memory"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
)

// Known is what the passes of one process have learned, as a value. It is a judge.Past, which a judgement keeps.
type Known struct {
	memory.Memory
	restore.State
}

// with is Known with another State. What stood before a restore has not waited.
func (k Known) with(s restore.State) Known {
	if s.IsNewerThan(k.State) {
		k.Memory = k.Unconfirmed()
	}
	k.State = s
	return k
}

// afterFailure is Known after a read that failed. What it has read, nil for nothing, may show a restore that no later
// read shows again; restored says so, as that of Observe. now is for one that has not read the API server's time.
func (k Known) afterFailure(o *facts.Observation, now time.Time) (next Known, restored string) {
	if o == nil {
		return k, ""
	}
	if o.Now.IsZero() {
		o.Now = now
	}
	detected, restored := k.Detect(o)
	return k.with(detected), restored
}

// ofSnapshot is Known with what a snapshot has stored of restores, which is of the same time as all that it has.
func (k Known) ofSnapshot(o *facts.Observation) (Known, error) {
	if o.RestoreState == "" {
		return k, nil
	}
	s, err := k.Read(o.RestoreState, o.Now)
	if err != nil {
		return k, fmt.Errorf("the Lease %s of the snapshot: %w", restore.Lease, err)
	}
	return k.with(s.BeginRead()), nil
}

// After is Known after a full pass.
func (k Known) After(j *judge.Judgement) Known { return Known{k.Next(j), k.Settle(j)} }

// Process is what a process keeps from one pass for the next. Its Reconcilers share it, and one goroutine uses it. It
// is empty after a start, which makes releases slower and never wrong.
type Process struct {
	Known            Known
	releases         plan.Window          // what the breaker counted last
	isStoreForbidden bool                 // the last use of the BreakerStore was forbidden
	repairs          map[string]time.Time // when each waiting finding was found first, by plan.RepairKey
	repairCounts     plan.RepairCounts
	pauses           map[string]string // the pauses of the last pass in words, by pool
}
