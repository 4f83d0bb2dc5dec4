package explanation

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
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
	d := document.ExplainedPod{Name: s.ref(), InAPI: pod != nil, Carries: []string{}, Sandboxes: []document.ExplainedSandbox{}}
	for _, b := range sandboxes(j.Observation) {
		if b.pod == name {
			d.Sandboxes = append(d.Sandboxes, b.ExplainedSandbox)
		}
	}
	switch {
	case pod != nil:
		d.UID, d.Node, d.Phase, d.NetworkStatus = pod.UID, pod.Node, pod.Phase.String(), networkStatus(pod)
		d.Carries = texts(inPools(j, interfaceAddresses(pod)))
		d.Waits = waits(j, pod, d.Sandboxes, pools)
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
		fresh := r.Fresh(o.Now)
		for i := range r.Sandboxes {
			b := &r.Sandboxes[i]
			all = append(all, sandbox{document.ExplainedSandbox{ID: b.ID, UID: b.UID, Node: r.Name, State: string(b.State), Fresh: fresh,
				Created: document.When(b.CreatedAt.Time), Addresses: texts(parsed(b.Addresses))}, types.NamespacedName{Namespace: b.Namespace, Name: b.Name}})
		}
		for i := range r.Attachments {
			a := &r.Attachments[i]
			all = append(all, sandbox{document.ExplainedSandbox{ID: a.ID, UID: a.UID, Node: r.Name, State: judge.Attached.String(), Fresh: fresh,
				Created: document.When(a.Since.Time), Addresses: texts(parsed(a.Addresses))}, types.NamespacedName{Namespace: a.Namespace, Name: a.Name}})
		}
	}
	slices.SortStableFunc(all, func(a, b sandbox) int { return cmp.Compare(a.Node, b.Node) })
	return all
}

func parsed(addresses []v1alpha1.Address) (all []netip.Addr) {
	for _, a := range addresses {
		if addr, ok := podstate.ParseAddress(a); ok {
			all = append(all, addr)
		}
	}
	return all
}

func texts(all []netip.Addr) []string {
	list := make([]string, 0, len(all))
	for _, addr := range all {
		list = append(list, addr.String())
	}
	return list
}

// waits says why a pod that is Pending may wait, as far as that is known here; "" where it is not.
func waits(j *judge.Judgement, pod *podstate.Pod, sandboxes []document.ExplainedSandbox, pools *usage.Pools) string {
	var full []string
	for _, p := range pools.All {
		if slices.Contains(p.Waiting, pod.NamespacedName) {
			full = append(full, p.Ref())
		}
	}
	switch {
	case pod.Phase != podstate.Pending:
		return ""
	case pod.Node == "":
		return "it is not scheduled to a node yet, so that no address was asked for"
	case slices.ContainsFunc(sandboxes, func(b document.ExplainedSandbox) bool {
		return b.Fresh && b.State == string(v1alpha1.SandboxReady) && b.Node == pod.Node && !isPhantomOf(b, pod) && len(b.Addresses) > 0
	}):
		return "its sandbox runs and has its address: what it waits for is not its network"
	case len(full) > 0:
		return "it is scheduled, and no address is left for it in " + strings.Join(full, ", ")
	case !j.Restore.Complete():
		return "it is scheduled; etcd was restored, and ADDs wait for as long as the fence holds whereabouts' Leases, 90 s at the most"
	}
	return "it is scheduled, and no report has an address on a sandbox of it yet: its ADD is under way, or fails; its events say which"
}

// inPools are those of the addresses that a pool may have.
func inPools(j *judge.Judgement, all []netip.Addr) []netip.Addr {
	all = slices.DeleteFunc(all, func(addr netip.Addr) bool {
		for _, p := range j.Observation.Pools {
			if p.Problem == "" && p.Range.Contains(addr) {
				return false
			}
		}
		return true
	})
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}

// interfaceAddresses are those of a pod's network-status.
func interfaceAddresses(p *podstate.Pod) (all []netip.Addr) {
	for _, i := range p.Interfaces {
		all = append(all, i.Addresses...)
	}
	return all
}

// networkStatus is the outcome of reading a pod's annotation: Missing, Unreadable or
// Readable.
func networkStatus(p *podstate.Pod) string {
	return [...]string{podstate.StatusMissing: "Missing", podstate.StatusUnreadable: "Unreadable", podstate.StatusReadable: "Readable"}[p.Status]
}
