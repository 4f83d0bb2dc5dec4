package usage

import (
	"cmp"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

// The kinds of carriers.
const (
	NodeCarrier    = "Node"
	GatewayCarrier = "Gateway"
	PodCarrier     = "Pod"
	GuestCarrier   = "Guest"
)

// Carrier is a Node, a gateway, a pod or a guest that has an address, whatever assigned it.
type Carrier struct {
	Kind       string
	Name, Node string // the node of a guest is "", and the name of a gateway is that of its definition
	// Network and Interface are those of the pod's network-status or of the guest's status.
	Network, Interface string
	// Definition is one of whereabouts; nil for an address that whereabouts did not assign, as far as known.
	Definition *ippool.NAD
	// ReportedNetwork is the network by a report, if IsReported.
	ReportedNetwork string
	IsReported      bool
}

// String names the carrier: a pod as "<namespace>/<name>".
func (c Carrier) String() string {
	switch c.Kind {
	case NodeCarrier:
		return "node/" + c.Name
	case GatewayCarrier:
		return "gateway/" + c.Name
	case GuestCarrier:
		return "vmi/" + c.Name
	}
	return c.Name
}

// MayBeOn reports whether a carrier may have its address on the network of a pool. Another network of whereabouts may
// have the same addresses.
func (c Carrier) MayBeOn(p *Pool) bool {
	if c.Definition != nil && !mayAssign(p, c.Definition) {
		return false
	}
	return !c.IsReported || admits(p, c.ReportedNetwork)
}

// mayAssign reports whether an interface of a definition may have an address of a pool: the definition is one of the
// pool's, or the pool has none, since it was edited, and the name of the pool admits its network.
func mayAssign(p *Pool, definition *ippool.NAD) bool {
	if len(p.Definitions) > 0 {
		return slices.ContainsFunc(p.Definitions, func(d *Definition) bool {
			return d.NamespacedName == definition.NamespacedName
		})
	}
	return slices.ContainsFunc(definition.Networks, func(n ippool.Network) bool { return admits(p, n.Name) })
}

// admits reports whether a pool may be one of a network, by the pool's name.
func admits(p *Pool, network string) bool {
	names := p.Pool.Networks(nil)
	return names == nil || slices.Contains(names, network)
}

// carriers collects the carriers of the addresses that are asked about.
type carriers struct {
	o       *facts.Observation
	isAsked func(netip.Addr) bool
	hasNone func(*podstate.Pod) bool
	found   map[netip.Addr][]Carrier
	guests  map[guestAt]bool // whose pod has the address
}

type guestAt struct {
	uid  string
	addr netip.Addr
}

// CarriersOf returns what has each of the addresses that are asked about: Nodes, gateways, pods, guests, by name. A
// pod on its host's network is listed as the Node, and a guest as the pod that it runs in if that one has the address,
// too. A pod for which hasNone is true has none of the interfaces that its network-status names; nil is for none.
func CarriersOf(o *facts.Observation, isAsked func(netip.Addr) bool,
	hasNone func(*podstate.Pod) bool,
) map[netip.Addr][]Carrier {
	c := &carriers{o: o, isAsked: isAsked, hasNone: hasNone, found: map[netip.Addr][]Carrier{},
		guests: map[guestAt]bool{}}
	for _, n := range o.Nodes.Or(nil) {
		for _, addr := range n.Addresses {
			c.add(addr, Carrier{Kind: NodeCarrier, Name: n.Name, Node: n.Name})
		}
	}
	for _, nad := range o.NADs.Or(nil) {
		c.addGateways(nad)
	}
	for _, p := range o.Pods {
		if p.Node != "" { // another one has no network
			c.addPod(p)
		}
	}
	for _, r := range o.Reports.Or(nil) {
		c.addPhantoms(r)
	}
	for _, g := range o.Guests.Or(nil) {
		for _, i := range g.Interfaces {
			on := Carrier{Kind: GuestCarrier, Name: g.String(), Network: i.Network, Interface: i.Name,
				Definition: whereaboutsOf(o, &i)}
			for _, addr := range i.Addresses {
				if !c.guests[guestAt{g.UID, addr}] {
					c.add(addr, on)
				}
			}
		}
	}
	rank := map[string]int{NodeCarrier: 0, GatewayCarrier: 1, PodCarrier: 2, GuestCarrier: 3}
	for _, found := range c.found {
		slices.SortFunc(found, func(a, b Carrier) int {
			return cmp.Or(cmp.Compare(rank[a.Kind], rank[b.Kind]), cmp.Compare(a.Name, b.Name),
				cmp.Compare(a.Interface, b.Interface))
		})
	}
	return c.found
}

func (c *carriers) add(addr netip.Addr, carrier Carrier) {
	if c.isAsked(addr) && !slices.Contains(c.found[addr], carrier) {
		c.found[addr] = append(c.found[addr], carrier)
	}
}

// addGateways adds the gateways of a definition that are in one of its ranges. Tenants write definitions, which say
// nothing about the addresses of others.
func (c *carriers) addGateways(nad *ippool.NAD) {
	if nad == nil || nad.Problem != "" {
		return
	}
	for _, n := range nad.Networks {
		if slices.ContainsFunc(n.Ranges, func(r netip.Prefix) bool { return r.Contains(n.Gateway) }) {
			c.add(n.Gateway, Carrier{Kind: GatewayCarrier, Name: nad.String(), Definition: nad})
		}
	}
}

func (c *carriers) addPod(p *podstate.Pod) {
	has := Carrier{Kind: PodCarrier, Name: p.String(), Node: p.Node}
	isNamed := map[netip.Addr]bool{}
	isGone := c.hasNone != nil && len(p.Interfaces) > 0 && c.hasNone(p)
	for _, i := range p.Interfaces {
		on := has
		on.Definition, on.Network, on.Interface = whereaboutsOf(c.o, &i), i.Network, i.Name
		for _, addr := range i.Addresses {
			if isNamed[addr] = true; isGone && on.Definition != nil {
				continue
			}
			c.add(addr, on)
			if p.Machine != nil && c.isAsked(addr) {
				c.guests[guestAt{p.Machine.UID, addr}] = true
			}
		}
	}
	host := c.o.Nodes.Or(nil)[p.Node]
	for _, addr := range p.IPs {
		if !isNamed[addr] && (host == nil || !slices.Contains(host.Addresses, addr)) {
			c.add(addr, has)
		}
	}
}

// addPhantoms adds the sandboxes of a report whose pods the API does not have.
func (c *carriers) addPhantoms(r *podstate.Report) {
	for i := range r.Sandboxes {
		b := &r.Sandboxes[i]
		if b.State != v1alpha1.SandboxReady {
			continue
		}
		phantom := Carrier{Kind: PodCarrier, Name: b.Namespace + "/" + b.Name, Node: r.Name, IsReported: true}
		for _, a := range b.Addresses {
			addr, ok := podstate.ParseAddress(a)
			phantom.ReportedNetwork = a.NetworkName
			if ok && !slices.ContainsFunc(c.found[addr], func(c Carrier) bool { return c.Name == phantom.Name }) {
				c.add(addr, phantom)
			}
		}
	}
}

// whereaboutsOf returns the definition of an interface if it is one of whereabouts.
func whereaboutsOf(o *facts.Observation, i *podstate.Interface) *ippool.NAD {
	namespace, name, ok := i.NAD()
	nad := o.NADs.Or(nil)[types.NamespacedName{Namespace: namespace, Name: name}]
	if !ok || nad == nil || nad.Problem != "" || len(nad.Networks) == 0 {
		return nil
	}
	return nad
}
