package plan

import (
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Refusal is why a Stale item is not released now: one word for CLI, JSON, metrics, Events and logs.
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

// Refusals returns all of them except DryRun, which is no defect.
func Refusals() []Refusal {
	return []Refusal{Paused, EtcdRestored, Breaker, AwaitingConfirmation, Changed, LeaseBusy, NoLease, WriteFailed}
}

// IsFailure reports whether a release was tried and failed.
func (r Refusal) IsFailure() bool {
	return r == Changed || r == LeaseBusy || r == NoLease || r == WriteFailed
}

// Refused is a Stale item that is not released, with the gate that refuses it.
type Refused struct {
	*judge.Item
	Gate
	Also []Gate // its other gates
}

// Gates returns all gates of the item.
func (x Refused) Gates() []Gate { return append([]Gate{x.Gate}, x.Also...) }

// Main returns the gate by which the item is reported: the first, or one that does not open by itself.
func (x Refused) Main() Gate {
	main := x.Gate
	for _, g := range x.Also {
		if !main.At.IsZero() && g.At.IsZero() {
			main = g
		}
	}
	return main
}

// At returns when the item will be released if nothing contradicts it; zero where a gate does not open by itself.
func (x Refused) At() time.Time {
	var at time.Time
	for _, g := range x.Gates() {
		if g.At.IsZero() {
			return time.Time{}
		}
		at = later(at, g.At)
	}
	return at
}
