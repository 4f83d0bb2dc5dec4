package ranges

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Cluster is an assessment of everything that was observed in a cluster, with a label that no other one has.
type Cluster struct {
	Label string
	*findings.Assessment
}

// Network is what the definitions of a cluster have in common that have one network_name and one segment. A definition
// whose segment is unknown has a network of its own.
type Network struct {
	Cluster     string // its label
	Name        string // network_name
	Segment     ippool.Segment
	Definitions []string

	group int // of networks that somebody says are one; 0 for none
	wire  int // of networks whose segments somebody says are one; 0 for none
}

// String names the network for a person.
func (n *Network) String() string {
	if n.Name == "" {
		return n.Segment.String()
	}
	return fmt.Sprintf("%s, network_name %s", n.Segment, n.Name)
}

// side is one of two clusters that are compared.
type side struct {
	Cluster
	*holders
	sections     []section // of the readable definitions, by name
	byName       map[string][]section
	byDefinition map[string][]section
	ofPools      map[*facts.Pool][]*Network // cache of ofPool
}

// section is a whereabouts section of a definition.
type section struct {
	ippool.Network
	definition string
	of         *Network
}

func newSide(c Cluster) *side {
	x := &side{Cluster: c, byName: map[string][]section{}, byDefinition: map[string][]section{},
		ofPools: map[*facts.Pool][]*Network{}}
	type key struct {
		name, definition string
		segment          ippool.Segment
	}
	known := map[key]*Network{}
	for _, nad := range c.definitions() {
		for _, n := range nad.Networks {
			at := key{name: n.Name, segment: n.Segment}
			if !n.Segment.IsKnown() {
				at.definition = nad.String()
			}
			if known[at] == nil {
				known[at] = &Network{Cluster: c.Label, Name: n.Name, Segment: n.Segment}
			}
			of := known[at]
			if !slices.Contains(of.Definitions[max(0, len(of.Definitions)-1):], nad.String()) { // they are sorted
				of.Definitions = append(of.Definitions, nad.String())
			}
			s := section{n, nad.String(), of}
			x.sections, x.byName[n.Name] = append(x.sections, s), append(x.byName[n.Name], s)
			x.byDefinition[s.definition] = append(x.byDefinition[s.definition], s)
		}
	}
	return x
}

// definitions are the readable definitions, by name.
func (c Cluster) definitions() (found []*ippool.NAD) {
	for _, nad := range c.Observation.NADs.Or(nil) {
		if nad != nil && nad.Problem == "" {
			found = append(found, nad)
		}
	}
	slices.SortFunc(found, func(a, b *ippool.NAD) int { return cmp.Compare(a.String(), b.String()) })
	return found
}

// ofPool are the networks of the definitions that assign from a pool.
func (x *side) ofPool(p *facts.Pool) []*Network {
	found, isKnown := x.ofPools[p]
	if !isKnown {
		var assigning []section
		for _, s := range x.sections {
			if _, ok := s.Assigns(p.Pool); ok {
				assigning = append(assigning, s)
			}
		}
		found = networksOf(assigning)
		x.ofPools[p] = found
	}
	return found
}

// ofEntry are the networks of an allocation: those of its pool. None is known if its pod has none of their definitions:
// the pool was that of another one when the pod started.
func (x *side) ofEntry(it *judge.Item) []*Network {
	found, pod := x.ofPool(it.IndexedPool()), x.Facts().Owner(it.Owner())
	if pod == nil || len(pod.Networks()) == 0 {
		return found
	}
	isOfPod := func(name string) bool { return slices.Contains(pod.Networks(), name) }
	if !slices.ContainsFunc(found, func(n *Network) bool { return slices.ContainsFunc(n.Definitions, isOfPod) }) {
		return nil
	}
	return found
}

// ofName are the networks of the definitions with a network_name and with an address in a range.
func (x *side) ofName(name string, addr netip.Addr) []*Network { return around(x.byName[name], addr) }

// ofDefinition are the networks of a definition with an address in a range. After an edit no range may have it: then
// they are all of the definition.
func (x *side) ofDefinition(name string, addr netip.Addr) []*Network {
	all := x.byDefinition[name]
	if found := around(all, addr); len(found) > 0 {
		return found
	}
	return networksOf(all)
}

func around(sections []section, addr netip.Addr) []*Network {
	var with []section
	for _, s := range sections {
		if slices.ContainsFunc(s.Ranges, func(r netip.Prefix) bool { return r.Contains(addr) }) {
			with = append(with, s)
		}
	}
	return networksOf(with)
}

// networksOf are the networks of sections, each once.
func networksOf(sections []section) (found []*Network) {
	isThere := map[*Network]bool{}
	for _, s := range sections {
		if !isThere[s.of] {
			isThere[s.of], found = true, append(found, s.of)
		}
	}
	return found
}

// Relation says whether two networks of two clusters are one.
type Relation int

const (
	Other   Relation = iota // they are two
	Unknown                 // they may be one
	Same                    // they are one
)

// relate says how two networks are related, and why that is unknown. They are one if somebody says so, or if they have
// the same master, VLAN and network_name. Other masters and other VLANs are other segments. A definition without a
// master may be on any of the segments with its VLAN.
func relate(a, b *Network) (Relation, string) {
	isStated := a.wire != 0 && a.wire == b.wire
	switch {
	case a.group != 0 && a.group == b.group:
		return Same, ""
	case !isStated && a.Segment.VLAN != 0 && b.Segment.VLAN != 0 && a.Segment.VLAN != b.Segment.VLAN:
		return Other, ""
	case !isStated && !a.Segment.IsKnown():
		return Unknown, a.unnamed()
	case !isStated && !b.Segment.IsKnown():
		return Unknown, b.unnamed()
	case !isStated && a.Segment != b.Segment:
		return Other, ""
	case a.Name != b.Name:
		return Unknown, fmt.Sprintf("the segment is one, but network_name is %q in %s and %q in %s", a.Name, a.Cluster,
			b.Name, b.Cluster)
	}
	return Same, ""
}

func (n *Network) unnamed() string {
	return fmt.Sprintf("definition %s of %s names no master", strings.Join(n.Definitions, ", "), n.Cluster)
}

// mostNetworks is how many networks of an address are told apart. Tenants write definitions. An address on more of them
// may be on any.
const mostNetworks = 16

// relateAll says how the networks on one of which an address is are related to those of another cluster.
func relateAll(a, b []*Network) (Relation, string) {
	if len(a) > mostNetworks || len(b) > mostNetworks {
		return Unknown, fmt.Sprintf("definitions of more than %d networks assign it", mostNetworks)
	}
	found, why := map[Relation]bool{}, ""
	for _, one := range a {
		for _, other := range b {
			r, text := relate(one, other)
			found[r], why = true, cmp.Or(why, text)
		}
	}
	switch {
	case len(found) > 1:
		return Unknown, cmp.Or(why, "definitions of several segments assign it")
	case found[Same]:
		return Same, ""
	case found[Other]:
		return Other, ""
	}
	return Unknown, why
}

// join makes networks one, and those whose segments are the same as theirs.
func (c *Comparison) join(all []*Network) {
	c.joined++
	groups, wires := map[int]bool{}, map[int]bool{}
	for _, n := range all {
		groups[n.group], wires[n.wire] = true, true
	}
	delete(groups, 0)
	delete(wires, 0)
	for _, x := range c.sides {
		for _, s := range x.sections {
			n := s.of
			if groups[n.group] || slices.Contains(all, n) {
				n.group = c.joined
			}
			isOn := func(m *Network) bool {
				return m == n || m.Cluster == n.Cluster && m.Segment.IsKnown() && m.Segment == n.Segment
			}
			if wires[n.wire] || slices.ContainsFunc(all, isOn) {
				n.wire = c.joined
			}
		}
	}
}
