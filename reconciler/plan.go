package reconciler

import (
	"fmt"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Options are what an operator decides about releasing.
type Options struct {
	judge.Policy
	// ConfirmAfter is how long an unconfirmed verdict must have held.
	ConfirmAfter time.Duration
	// StaticSource: what is observed cannot change, so that nothing is waited for.
	StaticSource bool
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
}

// judging is the policy by which is judged.
func (o Options) judging() judge.Policy {
	p := o.Policy
	p.MissingAfter = max(o.ConfirmAfter, quarantine)
	return p
}

// Refusal is why a Stale item is not released now.
type Refusal string

const (
	Paused               Refusal = "Paused"
	EtcdRestored         Refusal = "EtcdRestored"
	Breaker              Refusal = "Breaker"
	AwaitingConfirmation Refusal = "AwaitingConfirmation"
	Changed              Refusal = "Changed"
	LeaseBusy            Refusal = "LeaseBusy"
	NoLease              Refusal = "NoLease"
	WriteFailed          Refusal = "WriteFailed"
	DryRunRefusal        Refusal = "DryRun"
)

// Refused is a Stale item that is not released, with why.
type Refused struct {
	*judge.Item
	Why    Refusal
	Detail string // a sentence
}

// Plan is what is to be done about a judgement now.
type Plan struct {
	Release []*judge.Item
	Refused []Refused
	// Until is when the next refused item is confirmed; zero if none waits.
	Until time.Time

	unconfirmed int // what the breaker counts, with what it has refused and is not judged now
}

const pausedText = "everything is paused: the reconciler's namespace has the annotation " + ippool.PausedAnnotation

// breakerFloor is how many unconfirmed releases are never a mass release.
const breakerFloor = 20

// plan picks from a judgement what may be released now: the gates let each item pass or
// not, then the breaker all of those that are unconfirmed. It changes nothing.
func (h *History) plan(j *judge.Judgement, opts Options) *Plan {
	p := h.passGates(j, opts)
	if text := h.released.breaker(j.Observation.Now, p.unconfirmed, j.Total); text != "" && !opts.AllowMassRelease {
		p.withhold(Breaker, text)
	}
	return p
}

// passGates are the items that nothing stands against but the breaker, which is asked
// once about all of them. Reservations that share an allocation's verdict are released
// with it and are not in the plan.
func (h *History) passGates(j *judge.Judgement, opts Options) *Plan {
	o, p := j.Observation, &Plan{}
	restored := h.restoreGate(j)
	var unconfirmed []*judge.Item
	for _, it := range j.StaleItems() {
		if it.Reservation != nil && len(it.Related()) > 0 {
			continue
		}
		switch {
		case o.Paused:
			p.refuse(it, Paused, pausedText)
		case it.PausedPool() != nil:
			p.refuse(it, Paused, fmt.Sprintf("pool %s is paused by its annotation %s", it.PausedPool().Ref(), ippool.PausedAnnotation))
		case restored != "":
			p.refuse(it, EtcdRestored, restored)
		case it.Proven:
			p.Release = append(p.Release, it)
		default:
			at := h.confirmedAt(it, o, opts.ConfirmAfter)
			if !opts.StaticSource && at.After(o.Now) {
				p.refuse(it, AwaitingConfirmation, fmt.Sprintf("must be judged so until %s", at.UTC().Format(time.RFC3339)))
				p.Until = Sooner(p.Until, at)
				continue
			}
			unconfirmed = append(unconfirmed, it)
		}
	}
	p.Release, p.unconfirmed = append(p.Release, unconfirmed...), len(unconfirmed)
	if j.Partial { // else what was refused together would be released bit by bit
		p.unconfirmed += h.refusedByBreaker
	}
	return p
}

// withhold takes what is unconfirmed out of a plan.
func (p *Plan) withhold(why Refusal, text string) {
	var release []*judge.Item
	for _, it := range p.Release {
		if it.Proven {
			release = append(release, it)
		} else {
			p.refuse(it, why, text)
		}
	}
	p.Release = release
}

func (p *Plan) refuse(it *judge.Item, why Refusal, detail string) {
	p.Refused = append(p.Refused, Refused{it, why, detail})
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
