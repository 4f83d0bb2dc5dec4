package ranges

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// Comparison is what two clusters have in common that may be on one layer 2.
type Comparison struct {
	// Addresses are those that both clusters record, reserve or carry on one network, or may. They are ordered by network.
	Addresses []SharedAddress
	// Ranges are those of definitions of both clusters with addresses in common, also on networks that are not one.
	Ranges []SharedRange
	// Unknown has a sentence for each thing because of which more may be in common than is seen.
	Unknown []string

	sides  []*side
	joined int // calls of join
}

// SharedAddress is an address that both clusters have.
type SharedAddress struct {
	Address netip.Addr
	// Relation is Same or Unknown, and Why says why it is unknown.
	Relation Relation
	Why      string
	Network  string   // names the network for a person
	Holders  []Holder // of the first cluster, then of the second one
}

// Holder is who has an address in a cluster.
type Holder struct {
	Cluster string // its label
	Who     string // a pod as "<namespace>/<name>", or a Node or guest as "node/<name>" and "vmi/<namespace>/<name>"
	Node    string // "" if it is unknown
	How     []How
	// Object is the pool of what is recorded, or the reservation of what is only reserved, "" for neither. Verdict is that
	// on it.
	Object  string
	Verdict *judge.Verdict
	// Networks are those on one of which the address is; empty if that is unknown.
	Networks []*Network

	isOther bool // not by whereabouts, as far as known
}

// How says how somebody has an address.
type How string

const (
	Recorded How = "Recorded" // a pool has an allocation
	Reserved How = "Reserved" // only a reservation has it
	Carried  How = "Carried"  // a pod, a guest, a sandbox or a Node has it
)

// Statement says that the definitions of two networks, each as "<label>/<namespace>/<name>" or "<label>/<name>", are of
// one segment.
type Statement struct{ A, B string }

// Compare compares two clusters. An address counts if whereabouts has assigned it in one of them, as far as known, also
// outside of today's ranges. What neither has assigned, as the addresses of two pod networks, is no matter of it.
func Compare(a, b Cluster, statements []Statement) (*Comparison, error) {
	c := &Comparison{sides: []*side{newSide(a), newSide(b)}}
	for _, s := range statements {
		var all []*Network
		for _, text := range []string{s.A, s.B} {
			named, err := c.named(text)
			if err != nil {
				return nil, err
			}
			all = append(all, named...)
		}
		c.join(all)
	}
	for _, x := range c.sides {
		x.holders = holdersOf(x.Assessment, netip.Addr.IsValid)
		c.Unknown = append(c.Unknown, x.unknown()...)
	}
	for _, addr := range c.sides[0].addresses(func(netip.Addr) bool { return true }) {
		if c.sides[1].hasAny(addr) {
			c.addAddress(addr)
		}
	}
	slices.SortStableFunc(c.Addresses, func(a, b SharedAddress) int { // addresses are in order
		return cmp.Or(cmp.Compare(b.Relation, a.Relation), cmp.Compare(a.Network, b.Network))
	})
	c.addRanges()
	return c, nil
}

// IsShared reports whether something is in both clusters on one network, for certain.
func (c *Comparison) IsShared() bool {
	return slices.ContainsFunc(c.Addresses, func(s SharedAddress) bool { return s.Relation == Same }) ||
		slices.ContainsFunc(c.Ranges, func(s SharedRange) bool { return s.Relation == Same })
}

// IsUnknown reports whether something may be in both clusters on one network.
func (c *Comparison) IsUnknown() bool {
	return len(c.Unknown) > 0 ||
		slices.ContainsFunc(c.Addresses, func(s SharedAddress) bool { return s.Relation == Unknown }) ||
		slices.ContainsFunc(c.Ranges, func(s SharedRange) bool { return s.Relation == Unknown })
}

func (c *Comparison) labels() []string { return []string{c.sides[0].Label, c.sides[1].Label} }

// named are the networks of a definition with its label. A label may have slashes.
func (c *Comparison) named(text string) (found []*Network, err error) {
	for _, x := range c.sides {
		name, isOf := strings.CutPrefix(text, x.Label+"/")
		if !isOf {
			continue
		}
		var definitions []string
		for _, s := range x.sections {
			if _, short, _ := strings.Cut(s.definition, "/"); s.definition == name || short == name {
				definitions, found = append(definitions, s.definition), append(found, s.of)
			}
		}
		switch definitions = facts.SortedUnique(definitions); len(definitions) {
		case 0:
			return nil, fmt.Errorf("%q: no readable definition of %s with whereabouts has the name %s", text, x.Label, name)
		case 1:
			return found, nil
		}
		return nil, fmt.Errorf("%q: several definitions have the name, give the namespace, too: %s", text,
			facts.AtMost(definitions, 5))
	}
	return nil, fmt.Errorf("%q: must begin with %s/ or %s/", text, c.sides[0].Label, c.sides[1].Label)
}

// hasAny reports whether anybody may have an address.
func (x *side) hasAny(addr netip.Addr) bool {
	return len(x.entries[addr])+len(x.alone[addr])+len(x.carriers[addr])+len(x.sandboxes[addr]) > 0
}

// have are all who have an address, each by one record or one network.
func (x *side) have(addr netip.Addr) (all []Holder) {
	for _, it := range x.entries[addr] {
		all = append(all, x.ofItem(it, Recorded, x.ofEntry(it)))
	}
	for _, it := range x.alone[addr] {
		all = append(all, x.ofItem(it, Reserved, x.ofName(it.Network(), addr)))
	}
	for _, b := range x.sandboxes[addr] {
		all = append(all, Holder{Who: b.Pod(), Node: b.Report.Name, How: []How{Carried},
			Networks: x.ofName(b.NetworkName, addr)})
	}
	for _, c := range x.carriers[addr] {
		h := Holder{Who: c.String(), Node: c.Node, How: []How{Carried}, isOther: c.Kind == usage.GatewayCarrier}
		switch {
		case c.IsReported:
			h.Networks = x.ofName(c.ReportedNetwork, addr)
		case c.Definition != nil:
			h.Networks = x.ofDefinition(c.Definition.String(), addr)
		default:
			h.isOther = true
			h.Node = cmp.Or(h.Node, map[bool]string{true: c.Name}[c.Kind == usage.NodeCarrier])
		}
		all = append(all, h)
	}
	for i := range all {
		all[i].Cluster = x.Label
	}
	return all
}

// ofItem is who has an address by an allocation or a reservation.
func (x *side) ofItem(it *judge.Item, how How, networks []*Network) Holder {
	h := Holder{Who: it.PodRef(), Node: it.Node(), How: []How{how}, Object: it.Object(), Verdict: &it.Verdict,
		Networks: networks}
	if pod := x.Facts().Owner(it.Owner()); pod != nil {
		h.Node = cmp.Or(pod.Node, h.Node)
	}
	return h
}

// addAddress adds an address that both clusters have, unless all of it is on networks that are not one.
func (c *Comparison) addAddress(addr netip.Addr) {
	first, second := c.sides[0].have(addr), c.sides[1].have(addr)
	s := SharedAddress{Address: addr}
	isMeant := make([]bool, len(first)+len(second))
	for i, a := range first {
		for j, b := range second {
			if a.isOther && b.isOther { // as the one gateway of a segment
				continue
			}
			r, why := relateAll(a.Networks, b.Networks)
			if r == Other {
				continue
			}
			isMeant[i], isMeant[len(first)+j] = true, true
			s.Relation, s.Why = max(s.Relation, r), cmp.Or(s.Why, why, a.whyUnknown(), b.whyUnknown())
		}
	}
	if s.Relation == Same {
		s.Why = ""
	}
	for i, h := range slices.Concat(first, second) {
		if isMeant[i] {
			s.Holders = merge(s.Holders, h)
		}
	}
	if s.Relation != Other {
		s.Network = networkText(c.labels(), s.Holders)
		c.Addresses = append(c.Addresses, s)
	}
}

// whyUnknown says why the networks of a holder are unknown, "" if they are known.
func (h Holder) whyUnknown() string {
	switch {
	case len(h.Networks) > 0:
		return ""
	case h.isOther:
		return fmt.Sprintf("whereabouts has not assigned it to %s of %s, so its segment is unknown", h.Who, h.Cluster)
	case h.Object != "" && h.How[0] == Recorded:
		return fmt.Sprintf("no readable definition of %s assigns from pool %s", h.Cluster, h.Object)
	}
	return fmt.Sprintf("no readable definition of %s has the network of %s", h.Cluster, h.Who)
}

// merge adds a holder. What somebody carries is added to its record, if there is one.
func merge(all []Holder, h Holder) []Holder {
	for i := range all {
		is := &all[i]
		if is.Cluster != h.Cluster || is.Who != h.Who || h.Object != "" && h.Object != is.Object {
			continue
		}
		is.Node = cmp.Or(is.Node, h.Node)
		if !slices.Contains(is.How, h.How[0]) {
			is.How = append(is.How, h.How[0])
		}
		for _, n := range h.Networks {
			if !slices.Contains(is.Networks, n) {
				is.Networks = append(slices.Clone(is.Networks), n)
			}
		}
		return all
	}
	return append(all, h)
}

// namesShown is how many definitions or segments a text names.
const namesShown = 3

// networkText names the network of holders, once if it has one name in both clusters.
func networkText(labels []string, holders []Holder) string {
	var texts []string
	for _, label := range labels {
		var of []string
		for _, h := range holders {
			for _, n := range h.Networks {
				if h.Cluster == label {
					of = append(of, n.String())
				}
			}
		}
		texts = append(texts, cmp.Or(facts.AtMost(facts.SortedUnique(of), namesShown), "unknown"))
	}
	if texts[0] == texts[1] {
		return texts[0]
	}
	return fmt.Sprintf("%s in %s; %s in %s", texts[0], labels[0], texts[1], labels[1])
}
