package facts

import (
	"iter"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// UnreadPod is a pod whose addresses on a network are unknown. It may carry any address of the network.
type UnreadPod struct {
	Pod *podstate.Pod
	NAD *ippool.NAD // nil if the definition cannot be read
	Why string      // what is unknown
	// IsGuest: the addresses of the machine's guest are unknown. It can only have an address of its own namespace's pods.
	IsGuest bool
	IsAny   bool // nothing at all is known of the pod
}

// maxUnreadNetworks is how many networks of unread pods are distinguished. More of them are taken for any network. This
// bounds the cost of judging, because tenants write definitions.
const maxUnreadNetworks = 256

// findUnreadPods finds the pods whose addresses are unknown:
//   - a running pod without a readable network-status, which no fresh report of its node lists. It may carry an address
//     of the networks that it requests. If a report lists its sandbox, that one may: see UnreadSandbox.
//   - a pod that cannot be decoded. It may carry any address.
//   - a virt-launcher pod whose VirtualMachineInstance was not read, by its UID, or does not report its interfaces. The
//     guest may have an address of the pod's networks.
//
// Two for each network are enough, because at most one of two is the item's own.
func (f *Facts) findUnreadPods(pods iter.Seq[*podstate.Pod]) (found []UnreadPod) {
	type claim struct {
		nad      *ippool.NAD
		guestsIn string // the namespace of the guests, "" for pods
	}
	known, networks := map[claim]int{}, 0
	add := func(u UnreadPod, names []string) {
		isAdded := map[claim]bool{} // several networks of one pod may be unknown
		for _, name := range names {
			u.NAD = f.nads[name]
			if u.NAD != nil && len(u.NAD.Networks) == 0 || u.NAD == nil && !u.IsGuest && f.isNotDefined(name) {
				continue
			}
			c := claim{nad: u.NAD}
			if u.IsGuest {
				c.guestsIn = u.Pod.Namespace
			}
			if known[c] == 0 {
				if networks++; networks > maxUnreadNetworks && u.NAD != nil {
					u.NAD, c.nad = nil, nil
				}
			}
			if isAdded[c] {
				continue
			}
			isAdded[c] = true
			if known[c]++; known[c] <= 2 {
				found = append(found, u)
			}
		}
	}
	for p := range pods {
		if p.MayCarryAny() {
			found = append(found, UnreadPod{Pod: p, Why: "the pod cannot be read", IsAny: true})
		}
		if f.IsUnread(p) {
			add(UnreadPod{Pod: p, Why: "the pod has no readable network-status"}, p.Networks())
		}
		if p.Machine != nil && p.Phase != podstate.Finished {
			if why := f.guestUnknown(p.Machine.UID); why != "" {
				add(UnreadPod{Pod: p, Why: why, IsGuest: true}, p.Networks())
			}
		}
	}
	return found
}

// IsUnread reports whether a running pod has no readable network-status, and no fresh report of its node lists it.
func (f *Facts) IsUnread(p *podstate.Pod) bool {
	runs := p.Phase == podstate.Live || p.Phase == podstate.Terminating
	return runs && p.Status != podstate.StatusReadable && !f.isListed(p) && !f.isRefuted(p)
}

// isNotDefined reports whether all definitions are known, and none has the name. A tenant who deletes the definition of
// a running pod must not hold the addresses of all networks.
func (f *Facts) isNotDefined(name string) bool {
	namespace, short, _ := strings.Cut(name, "/")
	definitions, known := f.o.NADs.Get()
	return known && definitions[types.NamespacedName{Namespace: namespace, Name: short}] == nil
}

// isListed reports whether the fresh report of a pod's node lists a sandbox of the pod, with or without its addresses.
func (f *Facts) isListed(p *podstate.Pod) bool {
	r := f.byNode[p.Node]
	return f.IsReported(p) || r != nil && r.IsFresh(f.now) && r.incomplete[p.String()]
}

// guestUnknown is why the addresses of a machine's guest are unknown, "" if they are known.
func (f *Facts) guestUnknown(uid string) string {
	if why := f.o.Guests.Why(); why != "" {
		return "VirtualMachineInstances: " + why
	}
	switch g := f.guestsByUID[uid]; {
	case g == nil:
		return "no VirtualMachineInstance has the UID " + uid
	case g.IsUnread:
		return "the VirtualMachineInstance does not report its interfaces"
	}
	return ""
}
