package explanation

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// PodState is what is known of a pod by the API and by the nodes' reports.
type PodState struct {
	// Pod is what the API has by that name; nil for nothing.
	Pod *podstate.Pod
	// Carries are the addresses of pools in its network-status, sorted.
	Carries []netip.Addr
	// Sandboxes are those that reports have by that name, the pod's own and others'.
	Sandboxes []SandboxState
	// Waits says why it may wait while it is Pending, as far as that is known here; ""
	// where it is not.
	Waits string
}

// SandboxState is a sandbox or attachment as the report of its node has it.
type SandboxState struct {
	ID, UID, Node string
	// State is Ready, NotReady or Attached.
	State string
	// Fresh: the report may be relied upon.
	Fresh     bool
	Created   time.Time // zero where that is not known
	Addresses []netip.Addr
}

// phantom reports whether the API's pod is another, or there is none; a sandbox without a
// UID is nobody's.
func (s SandboxState) phantom(p *podstate.Pod) bool {
	return p == nil || s.UID != "" && !p.Has(s.UID)
}

func (p PodState) addresses() []netip.Addr {
	all := slices.Clone(p.Carries)
	for _, s := range p.Sandboxes {
		all = append(all, s.Addresses...)
	}
	return all
}

// podsOf is the pod that is asked about, where anything is known of it.
func podsOf(j *judge.Judgement, s Subject) []PodState {
	if s.Kind != Pod {
		return nil
	}
	p := PodState{Pod: j.Observation.Pods[types.NamespacedName{Namespace: s.Namespace, Name: s.Name}]}
	if p.Pod != nil {
		p.Carries = inPools(j, interfaceAddresses(p.Pod))
	}
	for _, x := range sandboxes(j.Observation) {
		if x.namespace == s.Namespace && x.name == s.Name {
			p.Sandboxes = append(p.Sandboxes, x.SandboxState)
		}
	}
	if p.Pod == nil && len(p.Sandboxes) == 0 {
		return nil
	}
	return []PodState{p}
}

// namedSandbox is a sandbox with the pod that its runtime names.
type namedSandbox struct {
	SandboxState
	namespace, name string
}

// sandboxes are all that reports have, by node.
func sandboxes(o *judge.Observation) (all []namedSandbox) {
	for _, r := range o.Reports {
		fresh := r.Fresh(o.Now)
		for i := range r.Sandboxes {
			b := &r.Sandboxes[i]
			all = append(all, namedSandbox{SandboxState{b.ID, b.UID, r.Name, string(b.State), fresh, b.CreatedAt.Time, parsed(b.Addresses)}, b.Namespace, b.Name})
		}
		for i := range r.Attachments {
			a := &r.Attachments[i]
			all = append(all, namedSandbox{SandboxState{a.ID, a.UID, r.Name, judge.Attached.String(), fresh, a.Since.Time, parsed(a.Addresses)}, a.Namespace, a.Name})
		}
	}
	slices.SortStableFunc(all, func(a, b namedSandbox) int { return cmp.Compare(a.Node, b.Node) })
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

// waits says why a pod that is Pending may wait.
func (p PodState) waits(j *judge.Judgement, pools *usage.Pools) string {
	var full []string
	for _, x := range pools.All {
		if p.Pod != nil && slices.Contains(x.Waiting, p.Pod.NamespacedName) {
			full = append(full, x.Ref())
		}
	}
	switch {
	case p.Pod == nil || p.Pod.Phase != podstate.Pending:
		return ""
	case p.Pod.Node == "":
		return "it is not scheduled to a node yet, so that no address was asked for"
	case slices.ContainsFunc(p.Sandboxes, func(b SandboxState) bool {
		return b.Fresh && b.State == string(v1alpha1.SandboxReady) && b.Node == p.Pod.Node && !b.phantom(p.Pod) && len(b.Addresses) > 0
	}):
		return "its sandbox runs and has its address: what it waits for is not its network"
	case len(full) > 0:
		return "it is scheduled, and no address is left for it in " + strings.Join(full, ", ")
	case !j.Restore.Complete():
		return "it is scheduled; etcd was restored, and ADDs wait for as long as the fence holds whereabouts' Leases, 90 s at the most"
	}
	return "it is scheduled, and no report has an address on a sandbox of it yet: its ADD is under way, or fails; its events say which"
}

// NetworkStatus is the outcome of reading a pod's annotation: Missing, Unreadable or
// Readable.
func NetworkStatus(p *podstate.Pod) string {
	return [...]string{podstate.StatusMissing: "Missing", podstate.StatusUnreadable: "Unreadable", podstate.StatusReadable: "Readable"}[p.Status]
}
