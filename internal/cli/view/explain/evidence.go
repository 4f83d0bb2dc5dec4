package explain

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

func (a *answer) item(it *judge.Item) view.ExplainedItem {
	var gates []plan.Gate
	if x, isRefused := a.RefusedOf(it); isRefused {
		gates = x.Gates()
	}
	d := view.ExplainedItem{AllocationRow: a.Row(it), Key: it.Key(), Network: it.Network(),
		RuleText: it.Rule(),
		Gates: lists.Map(gates, func(g plan.Gate) view.ExplainedGate {
			return view.ExplainedGate{Refusal: g.Why, Detail: g.Detail, Pool: g.Pool, OpensAt: view.When(g.At)}
		}),
		Advice: lists.Clone(a.adviseItem(it, gates)),
	}
	if d.IsReservation {
		d.Reservation, d.Pool = d.Pool, ""
	}
	if shared := it.SharesVerdictOf(); shared != nil {
		d.SharesVerdictOf = shared.Object()
	} else {
		d.Evidence, d.ClaimedBy = view.NewEvidence(it.Evidence()), a.claimant(it.Evidence())
	}
	return d
}

func podsOf(
	out *reconciler.Result, s Subject, pools *usage.Pools, all []view.ExplainedSandbox,
) []view.ExplainedPod {
	name := types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
	pod := out.Observation.Pods[name]
	found := lists.Filter(all, func(b view.ExplainedSandbox) bool { return b.Pod == name })
	if s.Kind != Pod || pod == nil && len(found) == 0 {
		return []view.ExplainedPod{}
	}
	d := view.ExplainedPod{Name: s.ref(), InAPI: pod != nil, Carries: []string{}, Sandboxes: found}
	if pod != nil {
		d.UID, d.Node, d.Phase, d.NetworkStatus = pod.UID, pod.Node, pod.Phase.String(), pod.Status.String()
		d.Carries, d.Waits = carried(out.Observation, pod), waits(!out.Restore.Complete(), pod, found, pools)
	}
	return []view.ExplainedPod{d}
}

// sandboxes returns the sandboxes and attachments of all reports, by node.
func sandboxes(o *facts.Observation) (all []view.ExplainedSandbox) {
	for _, r := range o.Reports.Or(nil) {
		listed := slices.Clone(r.Sandboxes)
		for _, a := range r.Attachments {
			listed = append(listed, v1alpha1.Sandbox{ID: a.ID, UID: a.UID, Namespace: a.Namespace, Name: a.Name,
				State: v1alpha1.SandboxState(judge.Attached.String()), CreatedAt: a.Since, Addresses: a.Addresses})
		}
		for _, b := range listed {
			d := view.ExplainedSandbox{ID: b.ID, UID: b.UID, Node: r.Name, State: string(b.State), Fresh: r.IsFresh(o.Now),
				Created: view.When(b.CreatedAt.Time), Addresses: []string{},
				Pod: types.NamespacedName{Namespace: b.Namespace, Name: b.Name}}
			for _, a := range b.Addresses {
				if addr, ok := podstate.ParseAddress(a); ok {
					d.Addresses = append(d.Addresses, addr.String())
				}
			}
			all = append(all, d)
		}
	}
	slices.SortStableFunc(all, func(a, b view.ExplainedSandbox) int { return cmp.Compare(a.Node, b.Node) })
	return all
}

// waits returns why a Pending pod may wait, "" where that is unknown. isRestored says that a restore of etcd pauses
// releases.
func waits(isRestored bool, pod *podstate.Pod, sandboxes []view.ExplainedSandbox, pools *usage.Pools) string {
	full := lists.Filter(pools.All, func(p *usage.Pool) bool { return slices.Contains(p.Waiting, pod.NamespacedName) })
	hasAddress := func(b view.ExplainedSandbox) bool {
		runsHere := b.Fresh && b.State == string(v1alpha1.SandboxReady) && b.Node == pod.Node
		isOfPod := b.UID == "" || pod.HasUID(b.UID)
		return runsHere && isOfPod && len(b.Addresses) > 0
	}
	switch {
	case pod.Phase != podstate.Pending:
		return ""
	case pod.Node == "":
		return "it is not scheduled to a node yet, and has not asked for an address"
	case slices.ContainsFunc(sandboxes, hasAddress):
		return "its sandbox runs and has its address: it does not wait for its network"
	case len(full) > 0:
		return "it is scheduled, and has no free address in " + strings.Join(lists.Map(full, (*usage.Pool).Ref), ", ")
	case isRestored:
		return "it is scheduled; after the etcd restore ADDs wait while the fence holds whereabouts' Leases, 90 s at most"
	}
	return "it is scheduled, and no report lists an address for it yet: its ADD is in progress or fails; read its events"
}

// carried returns the addresses of a pod's network-status that are in the range of a pool.
func carried(o *facts.Observation, pod *podstate.Pod) []string {
	var all []netip.Addr
	for _, i := range pod.Interfaces {
		all = append(all, i.Addresses...)
	}
	slices.SortFunc(all, netip.Addr.Compare)
	ofPool := func(addr netip.Addr) bool {
		return slices.ContainsFunc(o.Pools, func(p *ippool.Pool) bool { return p.Problem == "" && p.Range.Contains(addr) })
	}
	return lists.Map(lists.Filter(slices.Compact(all), ofPool), netip.Addr.String)
}

func (a *answer) nodeNames() []string {
	if a.q.Subject.Kind == Node {
		return []string{a.q.Subject.Name}
	}
	names := sets.New[string]()
	for _, it := range a.Items() {
		names.Insert(nodesOf(it)...)
	}
	for _, f := range a.Findings {
		names.Insert(f.Node)
	}
	for _, p := range a.d.Pods {
		names.Insert(p.Node)
		for _, b := range p.Sandboxes {
			names.Insert(b.Node)
		}
	}
	isReady := func(name string) int {
		if n := a.Observation.Nodes.Or(nil)[name]; n != nil && n.Ready {
			return 1
		}
		return 0
	}
	return slices.SortedFunc(maps.Keys(names.Delete("")), func(x, y string) int { // what decides is first
		return cmp.Or(cmp.Compare(isReady(x), isReady(y)), cmp.Compare(x, y))
	})
}

func (a *answer) node(name string) view.ExplainedNode {
	d := view.ExplainedNode{Name: name, Agent: string(a.Assessment.Nodes[name])}
	d.Unknown = !a.Observation.Nodes.IsKnown()
	d.Awaited = a.Restore != nil && slices.Contains(a.Restore.Awaiting, name)
	if n := a.Observation.Nodes.Or(nil)[name]; n != nil {
		d.InAPI, d.Ready, d.NotReadySince, d.OutOfService = true, n.Ready, view.When(n.NotReadySince), n.OutOfService
	}
	for _, r := range a.Observation.Reports.Or(nil) {
		if r.Name == name {
			d.Report = &view.NodeReport{Fresh: r.IsFresh(a.Observation.Now), LeaseRenewed: view.When(r.LeaseRenewedAt),
				ObservedAt: view.When(r.ObservedAt.Time), Runtime: r.Runtime.Name + " " + r.Runtime.Version,
				BootIDKnown: r.BootID != "", Sandboxes: len(r.Sandboxes), Attachments: len(r.Attachments)}
		}
	}
	return d
}

// nodesOf returns the nodes that decided about an item: those that are not Ready, if that holds it, else those without
// a fresh report, else the item's own.
func nodesOf(it *judge.Item) []string {
	ev := it.Evidence()
	switch {
	case ev == nil:
		return nil
	case len(ev.NotReady) > 0 && it.Verdict == judge.Held:
		return ev.NotReady
	case len(ev.WithoutReport) > 0 && it.Verdict != judge.InUse:
		return ev.WithoutReport
	case it.Node() != "":
		return []string{it.Node()}
	case slices.Contains([]judge.Sandbox{judge.NodeDead, judge.NodeMissing, judge.Ready, judge.NotReady}, ev.Sandbox):
		return ev.Nodes
	}
	return nil
}
