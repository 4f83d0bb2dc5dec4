package reconciler

import (
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Options are the decisions of an operator.
type Options struct {
	judge.Policy
	// ConfirmAfter is how long an unconfirmed verdict must stand.
	ConfirmAfter time.Duration
	// MaxWait is how long a run waits for confirmations; 0 has no limit.
	MaxWait time.Duration
	// AllowMassRelease switches the breaker off.
	AllowMassRelease bool
	// PodsComplete says that the listed pods are all pods, even if there are none.
	PodsComplete bool
	// DryRun plans, and writes nothing.
	DryRun bool
	// Repair writes what findings show to be missing or wrong.
	Repair bool
	// AllowMassRepair switches the breaker for repairs off.
	AllowMassRepair bool
	// Only, where set, selects what may be released and what plans contain. OnlyFindings does so for repairs.
	Only         func(*judge.Item) bool
	OnlyFindings func(*judge.Finding) bool
}

// isInScope reports whether Only selects an item.
func (o Options) isInScope(it *judge.Item) bool { return o.Only == nil || o.Only(it) }

// judgePolicy is the policy for judging.
func (o Options) judgePolicy() judge.Policy {
	p := o.Policy
	p.MissingAfter = max(o.ConfirmAfter, nodeQuarantine)
	return p
}

// Plan is what a pass releases now, and what it refuses.
type Plan struct {
	Release []*judge.Item
	Refused []Refused
	// Until is when the next refused item is confirmed; zero for none.
	Until time.Time
	// CommonGates are the gates against a pool or everything, even if nothing there is Stale.
	CommonGates []Gate

	unconfirmed int // items that the breaker counts
}

// breakerFloor is how many unconfirmed releases the breaker always allows.
const breakerFloor = 20

// plan picks from a judgement what may be released now: each item must pass the gates, and all unconfirmed items
// together the breaker. It changes nothing.
func (h *History) plan(j *judge.Judgement, opts Options) *Plan {
	p := h.passGates(j, opts)
	if text := h.releases.breaker(j.Observation.Now, p.unconfirmed, j.Total); text != "" && !opts.AllowMassRelease {
		p.refuseUnconfirmed(Gate{Why: Breaker, Detail: text})
	}
	return p
}

// passGates is plan without the breaker. A reservation with the verdict of an allocation is released with it, and is
// not in the plan.
func (h *History) passGates(j *judge.Judgement, opts Options) *Plan {
	p := &Plan{CommonGates: h.commonGates(j)}
	var unconfirmed []*judge.Item
	for _, it := range j.StaleItems() {
		if it.Reservation != nil && len(it.Related()) > 0 || !opts.isInScope(it) {
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

// commonGates are the gates against more than one item: pauses, and a restore of etcd.
func (h *History) commonGates(j *judge.Judgement) (gates []Gate) {
	if j.Observation.Paused {
		gates = append(gates, Gate{Why: Paused, Detail: allPausedDetail()})
	}
	if text := h.restoreGate(j); text != "" {
		gates = append(gates, Gate{Why: EtcdRestored, Detail: text})
	}
	for _, p := range j.Observation.Pools {
		if p.Paused {
			gates = append(gates, Gate{Why: Paused, Detail: poolPausedDetail(p), Pool: p.Ref()})
		}
	}
	return gates
}

// gatesOf returns all gates against the release of one item. The first one is the reason of the refusal.
func (h *History) gatesOf(it *judge.Item, o *judge.Observation, common []Gate, opts Options) (gates []Gate) {
	paused := it.PausedPool()
	for _, g := range common {
		if g.Pool == "" || paused != nil && g.Pool == paused.Ref() {
			gates = append(gates, g)
		}
	}
	if it.Proven {
		return gates
	}
	if at := h.confirmedAt(it, o, opts.ConfirmAfter); at.After(o.Now) {
		gates = append(gates, Gate{Why: AwaitingConfirmation, Detail: confirmationDetail(at), At: at})
	}
	return gates
}

// refuseUnconfirmed refuses all unconfirmed items of a plan.
func (p *Plan) refuseUnconfirmed(g Gate) {
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

// refuse adds an item that is refused because of the gates, at least one.
func (p *Plan) refuse(it *judge.Item, gates ...Gate) {
	p.Refused = append(p.Refused, Refused{Item: it, Gate: gates[0], Also: gates[1:]})
	if gates[0].Why == AwaitingConfirmation {
		p.Until = EarliestNonZero(p.Until, gates[0].At)
	}
}

// count returns how many items are refused for a reason.
func (p *Plan) count(why Refusal) (n int) {
	for _, x := range p.Refused {
		if x.Why == why {
			n++
		}
	}
	return n
}
