package plan

import (
	"fmt"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/memory"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
)

// Gate is one reason why something Stale is not released now.
type Gate struct {
	Why    Refusal
	Detail string    // a sentence
	At     time.Time // when the gate opens by itself if nothing contradicts the verdict; zero where that is unknown
	Pool   string    // the pool that the gate concerns, as "namespace/name"; "" for everything or one item
}

// CommonGates are the gates against more than one item: pauses, and a restore of etcd.
func CommonGates(j *judge.Judgement, s restore.State) (gates []Gate) {
	if j.Observation.Paused {
		text := fmt.Sprintf("everything is paused: the reconciler's namespace has the annotation %s, or cannot be read",
			ippool.PausedAnnotation)
		gates = append(gates, Gate{Why: Paused, Detail: text})
	}
	if text := s.Pauses(j); text != "" {
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
func gatesOf(it *judge.Item, now *facts.Observation, common []Gate, m memory.Memory, o Options) (gates []Gate) {
	paused := it.PausedPool()
	for _, g := range common {
		if g.Pool == "" || paused != nil && g.Pool == paused.Ref() {
			gates = append(gates, g)
		}
	}
	if it.Proven {
		return gates
	}
	if at := m.ConfirmedAt(it, now, o.confirmAfter(it)); at.After(now.Now) {
		gates = append(gates, Gate{Why: AwaitingConfirmation, At: at,
			Detail: fmt.Sprintf("the verdict is confirmed at %s unless something contradicts it",
				at.UTC().Format(time.RFC3339))})
	}
	return gates
}
