package explanation

import (
	"fmt"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// addItem adds an allocation or reservation with its evidence and what stands against its release.
func (e *Explanation) addItem(it *judge.Item, judged document.Judged) {
	gates := e.gatesOf(it)
	d := document.ExplainedItem{
		Key: it.Key(), Network: it.Network(), IP: it.Text(), PodRef: it.PodRef(), ContainerID: it.ContainerID(),
		IfName: it.IfName(), Judged: judged, RuleText: it.Rule(), Gates: []document.ExplainedGate{},
		Advice:          list(e.adviseItem(it, gates)),
		KnownForSeconds: int64(it.Age(e.Observation.Now).Seconds()),
	}
	if it.Allocation != nil {
		d.Pool = it.Object()
	} else {
		d.Reservation = it.Object()
	}
	if shared := it.SharesVerdictOf(); shared != nil {
		d.SharesVerdictOf = shared.Object()
	}
	if ev := it.Evidence(); ev != nil {
		d.Evidence = evidence(ev)
	}
	for _, g := range gates {
		gate := document.ExplainedGate{Refusal: g.Why, Detail: g.Detail, Pool: g.Pool, OpensAt: document.When(g.At)}
		if g.Why == reconciler.AwaitingConfirmation && len(gates) > 1 { // no gate promises more than itself
			gate.Detail = fmt.Sprintf("confirmed at %s unless something contradicts it; that alone releases nothing",
				g.At.UTC().Format(time.RFC3339))
		}
		d.Gates = append(d.Gates, gate)
	}
	e.Document.Items = append(e.Document.Items, d)
}

// gatesOf are all that stand against the release of something Stale, the one by which it
// is refused first. Something Stale without any is released by the next pass.
func (e *Explanation) gatesOf(it *judge.Item) []reconciler.Gate {
	x, refused := e.RefusedOf(it)
	if !refused {
		return nil
	}
	return append([]reconciler.Gate{x.Gate}, x.Also...)
}

func evidence(ev *judge.Evidence) *document.Evidence {
	d := &document.Evidence{Problem: string(ev.Problem), Detail: ev.Detail, Claimant: ev.Claimant, ClaimantNode: ev.ClaimantNode}
	d.Sandbox = document.EvidenceSandbox{State: ev.Sandbox.String(), UID: ev.SandboxUID, Nodes: list(ev.Nodes),
		WithoutReport: list(ev.WithoutReport)}
	if p := ev.Pod; p != nil {
		owns := map[judge.Ownership]string{judge.OwnerUnknown: "Unknown", judge.ItsPod: "ItsPod", judge.NotItsPod: "NotItsPod"}
		d.Pod = &document.EvidencePod{Name: p.String(), UID: p.UID, Node: p.Node, Phase: ev.Phase.String(),
			Ownership: owns[ev.Ownership], OnPod: ev.OnPod, NetworkStatus: networkStatus(p)}
	}
	return d
}
