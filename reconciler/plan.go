package reconciler

import (
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Options are what an operator decides about releasing.
type Options struct {
	judge.Policy
	// ConfirmAfter is how long an unconfirmed verdict must have held.
	ConfirmAfter time.Duration
	// MaxWait is how long a run waits for verdicts to be confirmed; 0 for as long as there are any.
	MaxWait time.Duration
	// AllowMassRelease switches the breaker off.
	AllowMassRelease bool
	// PodsComplete: the operator is certain of the pods that are listed, even for none.
	PodsComplete bool
	// DryRun: plan, and write nothing.
	DryRun bool
	// Repair writes back what the findings say is missing or wrong.
	Repair bool
	// AllowMassRepair switches off the breaker for what is written back.
	AllowMassRepair bool
	// Only, where set, picks what may be released; all else stays as it is and out of
	// plans. OnlyFindings does so for repairs.
	Only         func(*judge.Item) bool
	OnlyFindings func(*judge.Finding) bool
}

// inScope reports whether an item is one of those that are asked for.
func (o Options) inScope(it *judge.Item) bool { return o.Only == nil || o.Only(it) }

// judging is the policy by which is judged.
func (o Options) judging() judge.Policy {
	p := o.Policy
	p.MissingAfter = max(o.ConfirmAfter, quarantine)
	return p
}

// Plan is what is to be done about a judgement now.
type Plan struct {
	Release []*judge.Item
	Refused []Refused
	// Until is when the next refused item is confirmed; zero if none waits.
	Until time.Time
	// CommonGates are the gates that stand against a pool or everything, whether or not anything there is stale.
	CommonGates []Gate

	unconfirmed int // what the breaker counts, with what it has refused and is not judged now
}

// breakerFloor is how many unconfirmed releases are never a mass release.
const breakerFloor = 20

// plan picks from a judgement what may be released now: the gates let each item pass or
// not, then the breaker all of those that are unconfirmed. It changes nothing.
func (h *History) plan(j *judge.Judgement, opts Options) *Plan {
	p := h.passGates(j, opts)
	if text := h.released.breaker(j.Observation.Now, p.unconfirmed, j.Total); text != "" && !opts.AllowMassRelease {
		p.withhold(Gate{Why: Breaker, Detail: text})
	}
	return p
}

// passGates are the items that nothing stands against but the breaker, which is asked once about all of them.
// Reservations that share an allocation's verdict are released with it and are not in the plan.
func (h *History) passGates(j *judge.Judgement, opts Options) *Plan {
	p := &Plan{CommonGates: h.standing(j)}
	var unconfirmed []*judge.Item
	for _, it := range j.StaleItems() {
		if it.Reservation != nil && len(it.Related()) > 0 || !opts.inScope(it) {
			continue
		}
		gates := h.gatesOf(it, j.Observation, p.CommonGates, opts)
		switch {
		case len(gates) > 0:
			p.refuse(it, gates...)
		case it.Proven:
			p.Release = append(p.Release, it)
		default:
			unconfirmed = append(unconfirmed, it)
		}
	}
	p.Release, p.unconfirmed = append(p.Release, unconfirmed...), len(unconfirmed)
	return p
}

// standing are the gates that stand against more than one item: the pauses, and a restore of etcd.
func (h *History) standing(j *judge.Judgement) (gates []Gate) {
	if j.Observation.Paused {
		gates = append(gates, Gate{Why: Paused, Detail: everythingPaused()})
	}
	if text := h.restoreGate(j); text != "" {
		gates = append(gates, Gate{Why: EtcdRestored, Detail: text})
	}
	for _, p := range j.Observation.Pools {
		if p.Paused {
			gates = append(gates, Gate{Why: Paused, Detail: poolPaused(p), Pool: p.Ref()})
		}
	}
	return gates
}

// gatesOf are all gates that stand against the release of one item, the first of which is why it is refused.
func (h *History) gatesOf(it *judge.Item, o *judge.Observation, standing []Gate, opts Options) (gates []Gate) {
	paused := it.PausedPool()
	for _, g := range standing {
		if g.Pool == "" || paused != nil && g.Pool == paused.Ref() {
			gates = append(gates, g)
		}
	}
	if it.Proven {
		return gates
	}
	if at := h.confirmedAt(it, o, opts.ConfirmAfter); at.After(o.Now) {
		gates = append(gates, Gate{Why: AwaitingConfirmation, Detail: awaitsConfirmation(at), At: at})
	}
	return gates
}

// withhold takes what is unconfirmed out of a plan.
func (p *Plan) withhold(g Gate) {
	var release []*judge.Item
	for _, it := range p.Release {
		if it.Proven {
			release = append(release, it)
		} else {
			p.refuse(it, g)
		}
	}
	p.Release = release
}

// refuse notes an item that is not released because of the gates, of which there is one at least.
func (p *Plan) refuse(it *judge.Item, gates ...Gate) {
	p.Refused = append(p.Refused, Refused{Item: it, Gate: gates[0], Also: gates[1:]})
	if gates[0].Why == AwaitingConfirmation {
		p.Until = EarliestNonZero(p.Until, gates[0].At)
	}
}

// count is how many items are refused for a reason.
func (p *Plan) count(why Refusal) (n int) {
	for _, x := range p.Refused {
		if x.Why == why {
			n++
		}
	}
	return n
}
