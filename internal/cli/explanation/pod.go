package explanation

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// podsOf is the pod that is asked about, where anything is known of it.
func podsOf(j *judge.Judgement, s Subject, pools *usage.Pools) []document.ExplainedPod {
	if s.Kind != Pod {
		return []document.ExplainedPod{}
	}
	name := types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
	pod := j.Observation.Pods[name]
	d := document.ExplainedPod{Name: s.ref(), InAPI: pod != nil, Carries: []string{},
		Sandboxes: []document.ExplainedSandbox{}}
	for _, b := range sandboxes(j.Observation) {
		if b.pod == name {
			d.Sandboxes = append(d.Sandboxes, b.ExplainedSandbox)
		}
	}
	switch {
	case pod != nil:
		d.UID, d.Node, d.Phase, d.NetworkStatus = pod.UID, pod.Node, pod.Phase.String(), networkStatus(pod)
		d.Carries, d.Waits = carried(j.Observation, pod), waits(j, pod, d.Sandboxes, pools)
	case len(d.Sandboxes) == 0:
		return []document.ExplainedPod{}
	}
	return []document.ExplainedPod{d}
}

// sandbox is a sandbox with the pod that its runtime names.
type sandbox struct {
	document.ExplainedSandbox
	pod types.NamespacedName
}

// isPhantomOf reports whether the API's pod is another, or there is none; a sandbox without a
// UID is nobody's.
func isPhantomOf(b document.ExplainedSandbox, p *podstate.Pod) bool {
	return p == nil || b.UID != "" && !p.Has(b.UID)
}

// sandboxes are all that reports have, by node.
func sandboxes(o *judge.Observation) (all []sandbox) {
	for _, r := range o.Reports {
		add := func(id, uid, state, namespace, name string, since time.Time, addresses []v1alpha1.Address) {
			d := document.ExplainedSandbox{ID: id, UID: uid, Node: r.Name, State: state, Fresh: r.Fresh(o.Now),
				Created: document.When(since), Addresses: []string{}}
			for _, a := range addresses {
				if addr, ok := podstate.ParseAddress(a); ok {
					d.Addresses = append(d.Addresses, addr.String())
				}
			}
			all = append(all, sandbox{d, types.NamespacedName{Namespace: namespace, Name: name}})
		}
		for _, b := range r.Sandboxes {
			add(b.ID, b.UID, string(b.State), b.Namespace, b.Name, b.CreatedAt.Time, b.Addresses)
		}
		for _, a := range r.Attachments {
			add(a.ID, a.UID, judge.Attached.String(), a.Namespace, a.Name, a.Since.Time, a.Addresses)
		}
	}
	slices.SortStableFunc(all, func(a, b sandbox) int { return cmp.Compare(a.Node, b.Node) })
	return all
}

// waits says why a pod that is Pending may wait, as far as that is known here; "" where it is not.
func waits(j *judge.Judgement, pod *podstate.Pod, sandboxes []document.ExplainedSandbox, pools *usage.Pools) string {
	var full []string
	for _, p := range pools.All {
		if slices.Contains(p.Waiting, pod.NamespacedName) {
			full = append(full, p.Ref())
		}
	}
	ready := func(b document.ExplainedSandbox) bool {
		return b.Fresh && b.State == string(v1alpha1.SandboxReady) && b.Node == pod.Node && !isPhantomOf(b, pod) &&
			len(b.Addresses) > 0
	}
	switch {
	case pod.Phase != podstate.Pending:
		return ""
	case pod.Node == "":
		return "it is not scheduled to a node yet, so that no address was asked for"
	case slices.ContainsFunc(sandboxes, ready):
		return "its sandbox runs and has its address: what it waits for is not its network"
	case len(full) > 0:
		return "it is scheduled, and no address is left for it in " + strings.Join(full, ", ")
	case !j.Restore.Complete():
		return "it is scheduled; etcd was restored, and ADDs wait for as long as the fence holds whereabouts' Leases, " +
			"90 s at the most"
	}
	return "it is scheduled, and no report has an address on a sandbox of it yet: its ADD is under way, or fails; " +
		"its events say which"
}

// carried are the addresses of a pod's network-status that a pool may have, in their order.
func carried(o *judge.Observation, pod *podstate.Pod) []string {
	var all []netip.Addr
	for _, i := range pod.Interfaces {
		all = append(all, i.Addresses...)
	}
	slices.SortFunc(all, netip.Addr.Compare)
	texts := []string{}
	for _, addr := range slices.Compact(all) {
		if slices.ContainsFunc(o.Pools, func(p *ippool.Pool) bool { return p.Problem == "" && p.Range.Contains(addr) }) {
			texts = append(texts, addr.String())
		}
	}
	return texts
}

// networkStatus is the outcome of reading a pod's annotation: Missing, Unreadable or
// Readable.
func networkStatus(p *podstate.Pod) string {
	return map[podstate.NetworkStatus]string{podstate.StatusMissing: "Missing", podstate.StatusUnreadable: "Unreadable",
		podstate.StatusReadable: "Readable"}[p.Status]
}
