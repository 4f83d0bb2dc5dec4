package reconciler

import (
	"fmt"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
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

// Gate is one reason why something Stale is not released now.
type Gate struct {
	Why    Refusal
	Detail string // a sentence
	// At is when the gate opens by itself if nothing contradicts the verdict; zero where that is unknown.
	At time.Time
	// Pool is the pool that the gate concerns, as "namespace/name"; "" for everything or one item.
	Pool string
}

// Refused is a Stale item that is not released, with the gate that refuses it.
type Refused struct {
	*judge.Item
	Gate
	// Also are its other gates.
	Also []Gate
}

// Gates returns all gates of the item.
func (x Refused) Gates() []Gate { return append([]Gate{x.Gate}, x.Also...) }

// At returns when the item will be released if nothing contradicts it and no gate is added; zero where a gate does not
// open by itself.
func (x Refused) At() time.Time {
	var at time.Time
	for _, g := range x.Gates() {
		if g.At.IsZero() {
			return time.Time{}
		}
		at = maxTime(at, g.At)
	}
	return at
}

func refusedBecause(it *judge.Item, why Refusal, detail string) Refused {
	return Refused{Item: it, Gate: Gate{Why: why, Detail: detail}}
}

// The details of the gates.

func allPausedDetail() string {
	return "everything is paused: the reconciler's namespace has the annotation " + ippool.PausedAnnotation +
		", or cannot be read"
}

func poolPausedDetail(p *ippool.Pool) string {
	return fmt.Sprintf("pool %s is paused by its annotation %s", p.Ref(), ippool.PausedAnnotation)
}

func confirmationDetail(at time.Time) string {
	return fmt.Sprintf("is confirmed at %s unless something contradicts it", at.UTC().Format(time.RFC3339))
}

func breakerDetail(n, total int) string {
	return fmt.Sprintf("%d unconfirmed releases within an hour of %d allocations look like a fault elsewhere; "+
		"check a few with 'ip-reconcile explain' and, if they are right, run with --allow-mass-release", n, total)
}

func uncountedDetail(err error) string {
	return fmt.Sprintf("cannot count releases for the breaker, so nothing unconfirmed is released: %v", err)
}

func leaseForbiddenDetail(namespace string, leases []string) string {
	return fmt.Sprintf("cannot take whereabouts' Lease %s in namespace %s: forbidden; "+
		"grant get, create and update on leases, or use --without-lease", strings.Join(leases, ", "), namespace)
}

func restoreDetail(why string) string {
	return "etcd was restored (" + why + "): a pass that began before releases nothing"
}

func restoreUnreadDetail(err error) string {
	return fmt.Sprintf("cannot read the etcd restore state: %v", err)
}
