package reconciler

import (
	"fmt"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/memory"
)

// Options are the decisions of an operator.
type Options struct {
	facts.Policy
	Overrides        judge.Overrides
	ConfirmAfter     time.Duration // how long an unconfirmed verdict must stand
	MaxWait          time.Duration // how long a run waits for confirmations; 0 has no limit
	AllowMassRelease bool          // switches the breaker off
	PodsComplete     bool          // the listed pods are all pods, even if there are none
	DryRun           bool          // plans, and writes nothing
	Repair           bool          // writes what findings show to be missing or wrong
	AllowMassRepair  bool          // switches the breaker for repairs off
	// ByHand: a person has read the evidence on what Only selects, so that no verdict waits for ConfirmAfter.
	ByHand  bool
	Because string // the person's sentence for the log of each release by hand
	// Only, where set, selects what may be released and what plans contain. OnlyFindings does so for repairs.
	Only         func(*judge.Item) bool
	OnlyFindings func(*findings.Finding) bool
}

// isInScope reports whether Only selects an item.
func (o Options) isInScope(it *judge.Item) bool { return o.Only == nil || o.Only(it) }

// confirmAfter is how long an unconfirmed verdict must stand. By hand that is as long as a report is fresh: a report
// that is fresh then is younger than the first pass, and an ADD that was in progress then is in it. No person sees the
// ADD of a Pending pod, which a runtime may not list for longer.
func (o Options) confirmAfter(it *judge.Item) time.Duration {
	switch e := it.Evidence(); {
	case !o.ByHand, e != nil && e.Phase == podstate.Pending:
		return o.ConfirmAfter
	case e != nil && e.Sandbox == judge.NoSource:
		return 0
	}
	return facts.MinAbsenceWhilePending
}

func (o Options) judgePolicy() facts.Policy {
	p := o.Policy
	p.MissingAfter = max(o.ConfirmAfter, memory.NodeQuarantine)
	return p
}

// Plan is what a pass releases now, and what it refuses.
type Plan struct {
	Release     []*judge.Item
	Refused     []Refused
	Until       time.Time // when the next refused item is confirmed; zero for none
	CommonGates []Gate    // the gates against a pool or everything, even if nothing there is Stale

	unconfirmed int // items that the breaker counts
}

const breakerFloor = 20 // how many unconfirmed releases the breaker always allows

// plan picks what may be released now: each item must pass the gates, and all unconfirmed ones the breaker.
func (r *Reconciler) plan(j *judge.Judgement) *Plan {
	p := r.Process.Known.passGates(j, r.Options)
	text := r.Process.releases.breaker(j.Observation.Now, p.unconfirmed, j.Total)
	if text != "" && !r.Options.AllowMassRelease {
		p.refuseUnconfirmed(Gate{Why: Breaker, Detail: text})
	}
	return p
}

// passGates is plan without the breaker. A reservation that is released with its allocation is not in the plan.
func (k Known) passGates(j *judge.Judgement, opts Options) *Plan {
	p := &Plan{CommonGates: k.commonGates(j)}
	var unconfirmed []*judge.Item
	for _, it := range j.StaleItems() {
		if it.Reservation != nil && len(it.Related()) > 0 || !opts.isInScope(it) {
			continue
		}
		gates := k.gatesOf(it, j.Observation, p.CommonGates, opts)
		switch {
		case len(gates) > 0:
			p.block(it, gates...)
		case it.Proven:
			p.Release = append(p.Release, it)
		default:
			unconfirmed = append(unconfirmed, it)
		}
	}
	p.Release, p.unconfirmed = append(p.Release, unconfirmed...), len(unconfirmed)
	return p
}

// commonGates are the gates against more than one item: pauses, and a restore of etcd.
func (k Known) commonGates(j *judge.Judgement) (gates []Gate) {
	if j.Observation.Paused {
		text := fmt.Sprintf("everything is paused: the reconciler's namespace has the annotation %s, or cannot be read",
			ippool.PausedAnnotation)
		gates = append(gates, Gate{Why: Paused, Detail: text})
	}
	if text := k.Pauses(j); text != "" {
		gates = append(gates, Gate{Why: EtcdRestored, Detail: text})
	}
	for _, p := range j.Observation.Pools {
		if p.Paused {
			gates = append(gates, Gate{Why: Paused, Pool: p.Ref(),
				Detail: fmt.Sprintf("pool %s is paused by its annotation %s", p.Ref(), ippool.PausedAnnotation)})
		}
	}
	return gates
}

// gatesOf returns all gates against the release of one item. The first one is the reason of the refusal.
func (k Known) gatesOf(it *judge.Item, o *facts.Observation, common []Gate, opts Options) (gates []Gate) {
	paused := it.PausedPool()
	for _, g := range common {
		if g.Pool == "" || paused != nil && g.Pool == paused.Ref() {
			gates = append(gates, g)
		}
	}
	if it.Proven {
		return gates
	}
	if at := k.ConfirmedAt(it, o, opts.confirmAfter(it)); at.After(o.Now) {
		gates = append(gates, Gate{Why: AwaitingConfirmation, At: at,
			Detail: fmt.Sprintf("the verdict is confirmed at %s unless something contradicts it",
				at.UTC().Format(time.RFC3339))})
	}
	return gates
}

func (p *Plan) refuseUnconfirmed(g Gate) {
	p.Release = slices.DeleteFunc(p.Release, func(it *judge.Item) bool {
		if !it.Proven {
			p.block(it, g)
		}
		return !it.Proven
	})
}

// block adds an item that is refused because of the gates, at least one.
func (p *Plan) block(it *judge.Item, gates ...Gate) {
	p.Refused = append(p.Refused, Refused{Item: it, Gate: gates[0], Also: gates[1:]})
	if gates[0].Why == AwaitingConfirmation {
		p.Until = EarliestNonZero(p.Until, gates[0].At)
	}
}
