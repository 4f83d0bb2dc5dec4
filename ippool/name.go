package ippool

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// whereabouts' own functions for names import client-go, which judging must not, and print to stderr. A test compares
// these functions with them.

// normalizeRange is the part of a pool's name that comes from its range
// (whereabouts v0.9.4, pkg/storage/kubernetes/ipam.go, normalizeRange).
func normalizeRange(text string) string {
	if strings.HasSuffix(text, ":") {
		text += "0"
	}
	return strings.NewReplacer(":", "-", "/", "-").Replace(text)
}

// PoolName is the name of the pool of a network's range without slices (whereabouts v0.9.4,
// pkg/storage/kubernetes/ipam.go, IPPoolName).
func PoolName(network string, r netip.Prefix) string {
	return withNetwork(network, normalizeRange(r.Masked().String()))
}

// ReservationName is the name of the reservation of an address in a network, "" being the unnamed network
// (whereabouts v0.9.4, pkg/storage/kubernetes/ipam.go, NormalizeIP).
func ReservationName(network string, a netip.Addr) string {
	return withNetwork(network, normalizeRange(a.Unmap().WithZone("").String()))
}

func withNetwork(network, name string) string {
	if network == "" {
		return name
	}
	return network + "-" + name
}

// ReservedAddress is the address of a reservation's name in a network. It accepts only names that ReservationName
// gives.
func ReservedAddress(name, network string) (netip.Addr, bool) {
	rest := name
	if network != "" {
		var found bool
		if rest, found = strings.CutPrefix(name, network+"-"); !found {
			return netip.Addr{}, false
		}
	}
	if a, err := netip.ParseAddr(rest); err == nil && a.Is4() {
		return a, true // an IPv4 address has one spelling
	}
	// "::0" and "::" parse to the same address.
	a, err := netip.ParseAddr(strings.ReplaceAll(rest, "-", ":"))
	if err != nil || a.Zone() != "" || ReservationName(network, a) != name {
		return netip.Addr{}, false
	}
	return a, true
}

// Networks are the network names that a pool's name admits, given the names of the nodes. "<network>-<range>",
// "<node>-<slice>" and "<network>-<node>-<slice>" are ambiguous. nil is a name that whereabouts does not give: the
// network is unknown.
func (p *Pool) Networks(nodes map[string]bool) []string {
	head, ok := p.namePrefix()
	switch {
	case !ok:
		return nil
	case head == "":
		return []string{""}
	}
	names := []string{head}
	for _, node := range p.SliceNodes(nodes) {
		network := strings.TrimSuffix(strings.TrimSuffix(head, node), "-")
		if !slices.Contains(names, network) {
			names = append(names, network)
		}
	}
	return names
}

// SliceNodes are the nodes whose slice the pool may be, by its name.
func (p *Pool) SliceNodes(nodes map[string]bool) []string {
	head, _ := p.namePrefix()
	var found []string
	for i := 0; i < len(head); i++ {
		if (i == 0 || head[i-1] == '-') && nodes[head[i:]] {
			found = append(found, head[i:])
		}
	}
	return found
}

// RenamedNode is the pool's name with another name of the node whose slice it may be.
func (p *Pool) RenamedNode(nodes map[string]bool, rename func(node string) string) string {
	found := p.SliceNodes(nodes)
	if len(found) == 0 {
		return p.Name
	}
	head, _ := p.namePrefix()
	return strings.TrimSuffix(head, found[0]) + rename(found[0]) + p.Name[len(head):] // the first is the longest
}

// namePrefix is the part of the pool's name before the range, without the dash.
func (p *Pool) namePrefix() (string, bool) {
	for _, text := range []string{p.RangeText, p.Range.Prefix().String()} {
		if text == "" {
			continue
		}
		norm := normalizeRange(text)
		if p.Name == norm {
			return "", true
		}
		if head, ok := strings.CutSuffix(p.Name, "-"+norm); ok {
			return head, true
		}
	}
	return "", false
}

// LeaseNames are the Leases, in the pool's namespace, that ADD and DEL may take for this pool: SharedLease, and for a
// possible slice of a node one named like the pool (whereabouts v0.9.4, newLeaderElector).
func (p *Pool) LeaseNames() []string {
	if head, ok := p.namePrefix(); p.unsliced || ok && head == "" {
		return []string{SharedLease}
	}
	return []string{p.Name, SharedLease}
}

// LeasesOf are the Leases that ADD and DEL may take for these pools, by namespace.
func LeasesOf(pools []*Pool) map[string][]string {
	leases, known := map[string][]string{}, map[[2]string]bool{}
	for _, p := range pools {
		for _, name := range p.LeaseNames() {
			if at := [2]string{p.Namespace, name}; !known[at] {
				known[at] = true
				leases[p.Namespace] = append(leases[p.Namespace], name)
			}
		}
	}
	return leases
}

// SharedLease is the Lease that ADD and DEL take for every pool that is not a slice of a node.
const SharedLease = "whereabouts"

// PodRef is the owner of an allocation. A UID is set only in what a repair wrote for a phantom: no pod can have the
// podref "<namespace>/<name>_<uid>".
type PodRef struct{ Namespace, Name, UID string }

// ParsePodRef parses "<namespace>/<name>" or "<namespace>/<name>_<uid>". A name that no pod can have is an error.
func ParsePodRef(text string) (PodRef, error) {
	if text == "" {
		return PodRef{}, fmt.Errorf("podref is missing")
	}
	ns, name, ok := strings.Cut(text, "/")
	name, uid, repaired := strings.Cut(name, "_")
	if !ok || repaired && !isLabel(uid) || !isLabel(ns) || !isSubdomain(name) {
		return PodRef{}, fmt.Errorf("podref %q is not <namespace>/<name> of a pod", text)
	}
	return PodRef{ns, name, uid}, nil
}

// IsObjectName reports whether a pool or a reservation can have a name. A network_name may make one that none can have:
// whereabouts' ADDs fail there.
func IsObjectName(name string) bool { return isSubdomain(name) }

// isSubdomain is IsDNS1123Subdomain of k8s.io/apimachinery/pkg/util/validation. The regular expressions there would
// take most of the time in which a pool is read. The same holds for isLabel.
func isSubdomain(name string) bool {
	for part := range strings.SplitSeq(name, ".") {
		if !isDNSPart(part) {
			return false
		}
	}
	return len(name) <= 253
}

func isLabel(name string) bool { return len(name) <= 63 && isDNSPart(name) }

func isDNSPart(part string) bool {
	for i := range len(part) {
		c := part[i]
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' && i > 0 && i < len(part)-1) {
			return false
		}
	}
	return part != ""
}

func (r PodRef) String() string {
	if r.UID != "" {
		return r.Namespace + "/" + r.Name + "_" + r.UID
	}
	return r.Namespace + "/" + r.Name
}
