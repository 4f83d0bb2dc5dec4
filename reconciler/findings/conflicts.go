package findings

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

// networkPool is a network on which an address is carried. Isolated networks of one name differ by their pool.
type networkPool struct{ network, pool string }

func networkPoolOf(network string, from []*facts.Pool) networkPool {
	if len(from) != 1 {
		return networkPool{network: network}
	}
	return networkPool{network, from[0].Ref()}
}

// joinUnknown joins all carriers on networks of one name, unless the isolated network of each is known.
func joinUnknown[T any](carriers map[networkPool][]T) {
	for _, at := range inOrder(carriers) {
		unknown := networkPool{network: at.network}
		if all, there := carriers[unknown]; there && at != unknown {
			carriers[unknown] = append(all, carriers[at]...)
			delete(carriers, at)
		}
	}
}

// inOrder are the keys in a stable order, so that the same observation always gives the same messages.
func inOrder[T any](carriers map[networkPool][]T) []networkPool {
	return slices.SortedFunc(maps.Keys(carriers), func(a, b networkPool) int {
		return cmp.Or(cmp.Compare(a.network, b.network), cmp.Compare(a.pool, b.pool))
	})
}

// carriers are pods or sandboxes that carry an address, on one network or several.
type carriers struct {
	pods, others, ids, where []string
	reports                  []*facts.Report
	pools                    []string // of the networks
}

// carrierSets are sets of carriers, by who they are: a definition may have hundreds of networks.
type carrierSets map[string]*carriers

func (s carrierSets) add(c carriers, pool string) {
	ids := slices.Clone(c.ids)
	slices.Sort(ids)
	key := strings.Join(c.pods, " ") + "|" + strings.Join(c.others, " ") + "|" + strings.Join(ids, " ")
	if s[key] == nil {
		s[key] = &c
	}
	if pool != "" && !slices.Contains(s[key].pools, pool) {
		s[key].pools = append(s[key].pools, pool)
	}
}

// pool names the pools, at most NamesShown.
func (c *carriers) pool() string {
	slices.Sort(c.pools)
	return strings.Join(c.pools[:min(len(c.pools), facts.NamesShown)], ",")
}

// conflictsAt are the findings on networks in which two pods, or two sandboxes, carry an address, and on pods of which
// only the network-status names the address.
func (x *finder) conflictsAt(addr netip.Addr) []Finding {
	var found []Finding
	configured, named := x.SandboxesAt(addr), x.PodsNaming(addr)
	if len(configured) < 2 && len(named) < 2 {
		return nil
	}
	pods, sandboxes := map[networkPool][]string{}, map[networkPool][]facts.Mention{}
	carried, refuted := map[string][]string{}, map[string][]string{}
	var unknown []facts.PodAddress // on networks that are unknown
	isRenamed := false             // a network: its carriers count for both names
	running := x.RunningAt(addr)
	for _, c := range named {
		if x.HasStopped(c.Pod) { // its network-status stays until it is deleted, and is no mismatch
			continue
		}
		isRefuted := x.IsRefutedAt(c.Pod, running)
		if c.NAD == nil {
			if _, isNamed := x.unknownDefinition(c); isNamed && !isRefuted && !x.IsReported(c.Pod) {
				unknown = append(unknown, c)
			}
			continue
		}
		for _, n := range c.NAD.Networks {
			if at := networkPoolOf(n.Name, x.IsolatedOfPod(addr, c)); isRefuted {
				refuted[n.Name] = append(refuted[n.Name], c.Pod.String())
			} else if !x.IsReported(c.Pod) {
				pods[at] = append(pods[at], c.Pod.String())
				carried[n.Name] = append(carried[n.Name], c.Pod.String())
			}
		}
	}
	for _, b := range configured {
		if x.wasReady(&b.Mention) && !x.isOvertaken(&b) {
			names := x.networksOfSandbox(&b, addr)
			isRenamed = isRenamed || len(names) > 1
			for _, network := range names {
				at := networkPoolOf(network, x.IsolatedOfSandbox(addr, &b))
				sandboxes[at] = append(sandboxes[at], b.Mention)
				carried[network] = append(carried[network], b.Pod())
				if pod := x.PodOf(&b.Mention); pod != nil && x.IsReported(pod) {
					pods[at] = append(pods[at], pod.String())
				}
			}
		}
	}
	joinUnknown(pods)
	joinUnknown(sandboxes)
	sets := carrierSets{}
	for at, names := range pods {
		if names = facts.SortedUnique(names); len(names) > 1 && !podstate.AreOneMigration(x.PodsByRef(names)) {
			sets.add(carriers{pods: names}, x.poolNameOf(addr, at.network))
		}
	}
	for _, at := range inOrder(sandboxes) {
		var c carriers
		var owners []*podstate.Pod
		isListed := map[string]bool{}
		for _, g := range sandboxes[at] {
			if !isListed[g.ID] {
				isListed[g.ID] = true
				c.ids, c.pods = append(c.ids, g.ID), append(c.pods, g.Pod())
				owners = append(owners, x.PodOf(&g))
				c.where, c.reports = append(c.where, g.Pod()+" on "+g.Report.Name), append(c.reports, g.Report)
			}
		}
		if len(c.ids) > 1 && !podstate.AreOneMigration(owners) {
			c.pods = facts.SortedUnique(c.pods)
			sets.add(c, x.poolNameOf(addr, at.network))
		}
	}
	for _, c := range sets {
		f := Finding{Kind: Conflict, IP: addr.String(), Pool: c.pool(), Pods: c.pods, ContainerIDs: c.ids}
		if isRenamed { // the networks are two names of one
			f.Pool, _, _ = strings.Cut(f.Pool, ",")
		}
		if len(c.ids) == 0 {
			f.Message, f.nodes = fmt.Sprintf("%s is carried by %s", addr, andOthers(c.pods)), x.nodesOf(c.pods)
		} else {
			f.Message = fmt.Sprintf("%s is in use in two running sandboxes: %s", addr, andOthers(c.where))
			x.asReported(&f, c.reports...)
			for _, r := range c.reports {
				f.nodes = append(f.nodes, r.Name)
			}
		}
		found = append(found, f)
	}
	found = append(found, x.unknownConflict(addr, unknown, carried)...)
	return append(found, x.statusMismatches(addr, refuted, carried)...)
}

// networksOfSandbox are the network of a sandbox's address by its CNI cache and, if its definition was edited to
// another network_name since, the network of today.
func (x *finder) networksOfSandbox(b *facts.SandboxAddress, addr netip.Addr) []string {
	names := []string{b.NetworkName}
	if len(x.SandboxesAt(addr))+len(x.PodsNaming(addr)) < 2 {
		return names
	}
	for _, at := range x.carriageOf(b, addr).own {
		if !slices.Contains(names, at.Network) {
			names = append(names, at.Network)
		}
	}
	return names
}

// statusMismatches are the findings on pods whose network-status names an address that others name or carry, and that
// the pods do not have by their nodes' reports.
func (x *finder) statusMismatches(addr netip.Addr, refuted, carried map[string][]string) (found []Finding) {
	sets := carrierSets{}
	for network, pods := range refuted {
		pods, others := facts.SortedUnique(pods), facts.SortedUnique(carried[network])
		if len(facts.SortedUnique(slices.Concat(pods, others))) > 1 {
			sets.add(carriers{pods: pods, others: others}, x.poolNameOf(addr, network))
		}
	}
	for _, c := range sets {
		found = append(found, Finding{Kind: StatusMismatch, IP: addr.String(), Pool: c.pool(), Pods: c.pods,
			nodes: x.nodesOf(slices.Concat(c.pods, c.others)),
			Message: fmt.Sprintf("the network-status of %s names %s, but a fresh SandboxReport shows that the pod does not "+
				"have it; carried by %s", andOthers(c.pods), addr, cmp.Or(andOthers(c.others), "no pod"))})
	}
	return found
}

// poolNameOf names the pool that has, or should have, an address of a network; "" for none.
func (x *finder) poolNameOf(addr netip.Addr, network string) string {
	for _, p := range x.PoolsAt(addr) {
		if p.IsOfNetwork(network) {
			return p.Ref()
		}
	}
	first := ""
	for _, at := range x.DefinedAt(network, addr) {
		if p := x.MissingPool(at); p != nil && (first == "" || p.Ref() < first) {
			first = p.Ref()
		}
	}
	return first
}
