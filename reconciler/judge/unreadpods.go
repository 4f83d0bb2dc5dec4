package judge

import (
	"iter"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// unreadPod is a pod whose addresses on a network are unknown. It may carry any address of the network.
type unreadPod struct {
	pod *podstate.Pod
	nad *ippool.NAD // nil if the definition cannot be read
	why string      // what is unknown
	// isGuest: the addresses of the machine's guest are unknown. It can only have an address of its own namespace's pods.
	isGuest bool
	isAny   bool // nothing at all is known of the pod
}

// maxUnreadNetworks is how many networks of unread pods are distinguished. More of them are taken for any network. This
// bounds the cost of judging, because tenants write definitions.
const maxUnreadNetworks = 256

// findUnreadPods finds the pods whose addresses are unknown:
//   - a running pod without a readable network-status, which no fresh report of its node lists. It may carry an address
//     of the networks that it requests. If a report lists its sandbox, that one may: see unreadSandbox.
//   - a pod that cannot be decoded. It may carry any address.
//   - a virt-launcher pod whose VirtualMachineInstance was not read, by its UID, or does not report its interfaces. The
//     guest may have an address of the pod's networks.
//
// Two for each network are enough, because at most one of two is the item's own.
func (x *Index) findUnreadPods(pods iter.Seq[*podstate.Pod]) (found []unreadPod) {
	type claim struct {
		nad      *ippool.NAD
		guestsIn string // the namespace of the guests, "" for pods
	}
	known, networks := map[claim]int{}, 0
	add := func(u unreadPod, names []string) {
		isAdded := map[claim]bool{} // several networks of one pod may be unknown
		for _, name := range names {
			u.nad = x.nads[name]
			if u.nad != nil && len(u.nad.Networks) == 0 || u.nad == nil && !u.isGuest && x.isNotDefined(name) {
				continue
			}
			c := claim{nad: u.nad}
			if u.isGuest {
				c.guestsIn = u.pod.Namespace
			}
			if known[c] == 0 {
				if networks++; networks > maxUnreadNetworks && u.nad != nil {
					u.nad, c.nad = nil, nil
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
			found = append(found, unreadPod{pod: p, why: "the pod cannot be read", isAny: true})
		}
		if x.isUnread(p) {
			add(unreadPod{pod: p, why: "the pod has no readable network-status"}, p.Networks())
		}
		if p.Machine != nil && p.Phase != podstate.Finished {
			if why := x.guestUnknown(p.Machine.UID); why != "" {
				add(unreadPod{pod: p, why: why, isGuest: true}, p.Networks())
			}
		}
	}
	return found
}

// isUnread reports whether a running pod has no readable network-status, and no fresh report of its node lists it.
func (x *Index) isUnread(p *podstate.Pod) bool {
	runs := p.Phase == podstate.Live || p.Phase == podstate.Terminating
	return runs && p.Status != podstate.StatusReadable && !x.isListed(p) && !x.isRefuted(p)
}

// isNotDefined reports whether all definitions are known, and none has the name. A tenant who deletes the definition of
// a running pod must not hold the addresses of all networks.
func (x *Index) isNotDefined(name string) bool {
	namespace, short, _ := strings.Cut(name, "/")
	definitions, known := x.o.NADs.Get()
	return known && definitions[types.NamespacedName{Namespace: namespace, Name: short}] == nil
}

// isListed reports whether the fresh report of a pod's node lists a sandbox of the pod, with or without its addresses.
func (x *Index) isListed(p *podstate.Pod) bool {
	r := x.byNode[p.Node]
	return x.isReported(p) || r != nil && r.IsFresh(x.now) && r.incomplete[p.String()]
}

// guestUnknown is why the addresses of a machine's guest are unknown, "" if they are known.
func (x *Index) guestUnknown(uid string) string {
	if why := x.o.Guests.Why(); why != "" {
		return "VirtualMachineInstances: " + why
	}
	switch g := x.guestsByUID[uid]; {
	case g == nil:
		return "no VirtualMachineInstance has the UID " + uid
	case g.IsUnread:
		return "the VirtualMachineInstance does not report its interfaces"
	}
	return ""
}
