package explain

import (
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// carrier is a pod or Node that has an address, whatever assigned it.
type carrier struct {
	view.Carrier
	definition *ippool.NAD // of whereabouts; nil for an address that whereabouts did not assign, as far as known
	network    string      // by a report
	isReported bool        // the network is known by a report
}

// maxCarriers is how many carriers of one address are listed.
const maxCarriers = 20

// carriersOf returns the pods and Nodes with each of the addresses, Nodes first. A pod on its host's network is listed
// as the Node.
func carriersOf(o *facts.Observation, asked ...netip.Addr) map[netip.Addr][]carrier {
	all := make(map[netip.Addr][]carrier, len(asked))
	for _, addr := range asked {
		all[addr] = nil
	}
	add := func(addr netip.Addr, c carrier) {
		if _, isAsked := all[addr]; isAsked && !slices.Contains(all[addr], c) {
			all[addr] = append(all[addr], c)
		}
	}
	for _, n := range o.Nodes.Or(nil) {
		for _, addr := range n.Addresses {
			add(addr, carrier{Carrier: view.Carrier{Kind: string(Node), Name: n.Name, Node: n.Name}})
		}
	}
	for _, p := range o.Pods {
		if p.Node == "" {
			continue // it has no network
		}
		has := view.Carrier{Kind: string(Pod), Name: p.String(), Node: p.Node}
		isNamed := map[netip.Addr]bool{}
		for _, i := range p.Interfaces {
			on := carrier{Carrier: has, definition: whereaboutsOf(o, &i)}
			on.Network, on.Interface = i.Network, i.Name
			for _, addr := range i.Addresses {
				isNamed[addr] = true
				add(addr, on)
			}
		}
		host := o.Nodes.Or(nil)[p.Node]
		for _, addr := range p.IPs {
			if !isNamed[addr] && (host == nil || !slices.Contains(host.Addresses, addr)) {
				add(addr, carrier{Carrier: has})
			}
		}
	}
	for _, r := range o.Reports.Or(nil) { // phantoms, which the API does not have
		for i := range r.Sandboxes {
			b := &r.Sandboxes[i]
			if b.State != v1alpha1.SandboxReady {
				continue
			}
			phantom := carrier{Carrier: view.Carrier{Kind: string(Pod), Name: b.Namespace + "/" + b.Name, Node: r.Name}}
			for _, a := range b.Addresses {
				addr, ok := podstate.ParseAddress(a)
				phantom.network, phantom.isReported = a.NetworkName, true
				if ok && !slices.ContainsFunc(all[addr], func(c carrier) bool { return c.Name == phantom.Name }) {
					add(addr, phantom)
				}
			}
		}
	}
	for _, found := range all {
		slices.SortFunc(found, func(a, b carrier) int { return a.Compare(&b.Carrier) })
	}
	return all
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

// mayAssign reports whether an interface of a definition may have an address of a pool: the definition is one of the
// pool's, or the pool has none, since it was edited, and the name of the pool admits its network.
func mayAssign(p *usage.Pool, definition *ippool.NAD) bool {
	if len(p.Definitions) > 0 {
		return slices.ContainsFunc(p.Definitions, func(d *usage.Definition) bool {
			return d.NamespacedName == definition.NamespacedName
		})
	}
	return slices.ContainsFunc(definition.Networks, func(n ippool.Network) bool { return admits(p, n.Name) })
}

// admits reports whether a pool may be one of a network, by the pool's name.
func admits(p *usage.Pool, network string) bool {
	names := p.Pool.Networks(nil)
	return names == nil || slices.Contains(names, network)
}

// in returns the carriers that may have the address on a pool's network; nil stands for no pool. Another network of
// whereabouts may have the same addresses.
func in(p *usage.Pool, all []carrier) (names []string) {
	for _, c := range all {
		isOther := p != nil && (c.definition != nil && !mayAssign(p, c.definition) || c.isReported && !admits(p, c.network))
		if name := c.String(); !isOther && len(names) < maxCarriers && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
