package findings

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// notAttached are the findings on running pods without a network of whereabouts that they request. Three sources agree:
// the network-status, which may be missing, lacks the network, the last report shows the running sandbox without an
// address of its ranges, and no pool of the network has an allocation of the pod. Without agents nothing is found.
func (x *finder) notAttached() (found []Finding) {
	var owners map[ownedPool]bool
	for _, r := range x.Reports() {
		for i := range r.Sandboxes {
			g := r.MentionOf(&r.Sandboxes[i])
			p := x.PodOf(g)
			if p == nil || p.Phase != podstate.Live || p.Node != r.Name || len(p.MissingNetworks()) == 0 || g.AddressesUnread ||
				!x.wasReady(g) || !r.IsSettled(g.Sandbox, x.Now()) {
				continue
			}
			if owners == nil {
				owners = x.ownedPools()
			}
			for _, name := range p.MissingNetworks() {
				if nad := x.NAD(name.String()); nad != nil && x.lacks(g, nad, owners) {
					f := Finding{Kind: NotAttached, Pods: []string{p.String()}, ContainerIDs: []string{g.ID},
						Node: r.Name, Message: fmt.Sprintf("%s runs on %s without the network %s that it requests: its network-status, "+
							"its sandbox and the pools do not have it", p, r.Name, name)}
					x.asReported(&f, r)
					found = append(found, f)
				}
			}
		}
	}
	return found
}

// ownedPool is a pool that has an allocation of a pod.
type ownedPool struct {
	pool   *facts.Pool
	podRef string
}

func (x *finder) ownedPools() map[ownedPool]bool {
	all := map[ownedPool]bool{}
	for _, p := range x.Pools() {
		for i := range p.Allocations {
			all[ownedPool{p, p.Allocations[i].PodRef}] = true
		}
	}
	return all
}

// lacks reports whether a sandbox has no address of a definition of whereabouts, and its pod no allocation.
func (x *finder) lacks(g *facts.Mention, nad *ippool.NAD, owners map[ownedPool]bool) bool {
	hasAddress := func(a v1alpha1.Address) bool {
		addr, ok := podstate.ParseAddress(a)
		return !ok || slices.ContainsFunc(nad.Networks, func(n ippool.Network) bool {
			return slices.ContainsFunc(n.Ranges, func(r netip.Prefix) bool { return r.Contains(addr) })
		})
	}
	return len(nad.Networks) > 0 && !slices.ContainsFunc(g.Addresses, hasAddress) &&
		!slices.ContainsFunc(x.Pools(), func(p *facts.Pool) bool { return owners[ownedPool{p, g.Pod()}] && p.IsMapped(nad) })
}

// foreignPools are the findings on pools with nothing of this cluster: at least MinForeign allocations, and all of pods
// that the API does not have and of sandboxes that no node knows. Each node that could run them has a fresh report.
func (x *finder) foreignPools(items []*judge.Item) (found []Finding) {
	count, isKnown := map[*ippool.Pool]int{}, map[*ippool.Pool]bool{}
	for _, it := range items {
		if it.Allocation == nil {
			continue
		}
		e := it.Evidence()
		count[it.Pool]++
		isForeign := e != nil && it.Verdict == judge.Stale && e.Pod == nil && e.Sandbox == judge.Absent &&
			len(x.Mentions(it.ContainerID())) == 0 && len(x.j.Past().Of(it.ID()).RanOn) == 0
		isKnown[it.Pool] = isKnown[it.Pool] || !isForeign
	}
	for p, n := range count {
		if n >= judge.MinForeign && !isKnown[p] {
			found = append(found, Finding{Kind: ForeignPool, Pool: p.Ref(), Message: fmt.Sprintf("all %d allocations of pool "+
				"%s are of pods and sandboxes that this cluster does not have: it may come from a backup of another cluster",
				n, p.Ref())})
		}
	}
	return found
}
