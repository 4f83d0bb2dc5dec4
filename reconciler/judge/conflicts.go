package judge

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// networkPool is a network on which an address is carried. Isolated networks of one name differ by their pool.
type networkPool struct{ network, pool string }

func networkPoolOf(network string, from []*pool) networkPool {
	if len(from) != 1 {
		return networkPool{network: network}
	}
	return networkPool{network, from[0].ref}
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
	reports                  []*report
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

// pool names the pools, at most namesShown.
func (c *carriers) pool() string {
	slices.Sort(c.pools)
	return strings.Join(c.pools[:min(len(c.pools), namesShown)], ",")
}

// conflictsAt are the findings on networks in which two pods, or two sandboxes, carry an address, and on pods of which
// only the network-status names the address.
func (x *finder) conflictsAt(addr netip.Addr) []Finding {
	var found []Finding
	configured, named := x.SandboxesAt(addr), x.podsNaming(addr)
	if len(configured) < 2 && len(named) < 2 {
		return nil
	}
	pods, sandboxes := map[networkPool][]string{}, map[networkPool][]mention{}
	carried, refuted := map[string][]string{}, map[string][]string{}
	var unknown []podAddress // on networks that are unknown
	isRenamed := false       // a network: its carriers count for both names
	running := x.runningAt(addr)
	for _, c := range named {
		if x.hasStopped(c.pod) { // its network-status stays until it is deleted, and is no mismatch
			continue
		}
		isRefuted := x.isRefutedAt(c.pod, running)
		if c.nad == nil {
			if _, isNamed := x.unknownDefinition(c); isNamed && !isRefuted && !x.isReported(c.pod) {
				unknown = append(unknown, c)
			}
			continue
		}
		for _, n := range c.nad.Networks {
			if at := networkPoolOf(n.Name, x.isolatedOfPod(addr, c)); isRefuted {
				refuted[n.Name] = append(refuted[n.Name], c.pod.String())
			} else if !x.isReported(c.pod) {
				pods[at] = append(pods[at], c.pod.String())
				carried[n.Name] = append(carried[n.Name], c.pod.String())
			}
		}
	}
	for _, b := range configured {
		if x.wasReady(&b.mention) && !x.isOvertaken(&b) {
			names := x.networksOfSandbox(&b, addr)
			isRenamed = isRenamed || len(names) > 1
			for _, network := range names {
				at := networkPoolOf(network, x.isolatedOfSandbox(addr, &b))
				sandboxes[at] = append(sandboxes[at], b.mention)
				carried[network] = append(carried[network], b.pod())
				if pod := x.podOf(&b.mention); pod != nil && x.isReported(pod) {
					pods[at] = append(pods[at], pod.String())
				}
			}
		}
	}
	joinUnknown(pods)
	joinUnknown(sandboxes)
	sets := carrierSets{}
	for at, names := range pods {
		if names = sortedUnique(names); len(names) > 1 && !podstate.AreOneMigration(x.podsByRef(names)) {
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
				c.ids, c.pods = append(c.ids, g.ID), append(c.pods, g.pod())
				owners = append(owners, x.podOf(&g))
				c.where, c.reports = append(c.where, g.pod()+" on "+g.report.Name), append(c.reports, g.report)
			}
		}
		if len(c.ids) > 1 && !podstate.AreOneMigration(owners) {
			c.pods = sortedUnique(c.pods)
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
func (x *finder) networksOfSandbox(b *sandboxAddress, addr netip.Addr) []string {
	names := []string{b.NetworkName}
	if len(x.SandboxesAt(addr))+len(x.podsNaming(addr)) < 2 {
		return names
	}
	for _, at := range x.carriageOf(b, addr).own {
		if !slices.Contains(names, at.network) {
			names = append(names, at.network)
		}
	}
	return names
}

// statusMismatches are the findings on pods whose network-status names an address that others name or carry, and that
// the pods do not have by their nodes' reports.
func (x *finder) statusMismatches(addr netip.Addr, refuted, carried map[string][]string) (found []Finding) {
	sets := carrierSets{}
	for network, pods := range refuted {
		pods, others := sortedUnique(pods), sortedUnique(carried[network])
		if len(sortedUnique(slices.Concat(pods, others))) > 1 {
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
	for _, p := range x.poolsAt(addr) {
		if p.isOfNetwork(network) {
			return p.ref
		}
	}
	first := ""
	for _, at := range x.definedAt(network, addr) {
		if p := x.missingPool(at); p != nil && (first == "" || p.ref < first) {
			first = p.ref
		}
	}
	return first
}
