package reconciler

import (
	"fmt"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Refusal is why a Stale item is not released now. It is the same word in the CLI, JSON, metrics, events and logs.
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

// Refusals are all of them, DryRun left out: it is a question, not an answer.
func Refusals() []Refusal {
	return []Refusal{Paused, EtcdRestored, Breaker, AwaitingConfirmation, Changed, LeaseBusy, NoLease, WriteFailed}
}

// Gate is one cause for which something stale is not released now.
type Gate struct {
	Why    Refusal
	Detail string // a sentence
	// At is when the gate opens by itself, if nothing contradicts the verdict; zero where that is not known.
	At time.Time
	// Pool is the pool that it is about, as "<namespace>/<name>"; "" for all or one item.
	Pool string
}

// Refused is a Stale item that is not released, with the gate that stands against it.
type Refused struct {
	*judge.Item
	Gate
	// Also are the other gates that stand against it.
	Also []Gate
}

// Gates are all that stand against the release of the item.
func (x Refused) Gates() []Gate { return append([]Gate{x.Gate}, x.Also...) }

// At is when the item will be released if nothing contradicts it and no gate is added;
// zero where a gate does not open by itself.
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

func refusedBecause(it *judge.Item, why Refusal, detail string) Refused {
	return Refused{Item: it, Gate: Gate{Why: why, Detail: detail}}
}

// The sentences of the refusals, in one place so that they read as a set.

func everythingPaused() string {
	return "everything is paused: the reconciler's namespace has the annotation " + ippool.PausedAnnotation + ", or cannot be read"
}

func poolPaused(p *ippool.Pool) string {
	return fmt.Sprintf("pool %s is paused by its annotation %s", p.Ref(), ippool.PausedAnnotation)
}

func awaitsConfirmation(at time.Time) string {
	return fmt.Sprintf("is confirmed at %s unless something contradicts it", at.UTC().Format(time.RFC3339))
}

func massRelease(n, total int) string {
	return fmt.Sprintf("%d unconfirmed releases within an hour of %d allocations look like a fault elsewhere; "+
		"check a few with 'ip-reconcile explain' and, if they are right, run with --allow-mass-release", n, total)
}

func notCounted(err error) string {
	return fmt.Sprintf("nothing unconfirmed is released without being counted for the breaker: %v", err)
}

func noLease(namespace string, leases []string) string {
	return fmt.Sprintf("no right to whereabouts' Lease %s in namespace %s: grant get, create and update on leases, or use --without-lease",
		strings.Join(leases, ", "), namespace)
}

func restoreSeen(why string) string {
	return "etcd was restored (" + why + "): nothing is released by a pass that began before"
}

func restoresUnread(err error) string {
	return fmt.Sprintf("what is kept of restores of etcd could not be read: %v", err)
}
