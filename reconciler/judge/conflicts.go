package judge

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// carriedOn is a network on which an address is carried: of isolated ones of that name the one with this pool.
type carriedOn struct{ network, pool string }

func on(network string, from []*pool) carriedOn {
	if len(from) != 1 {
		return carriedOn{network: network}
	}
	return carriedOn{network, from[0].ref}
}

// together puts all carriers on a network together where it is not known of all on which isolated one they are.
func together[T any](carriers map[carriedOn][]T) {
	for at, some := range carriers {
		unknown := carriedOn{network: at.network}
		if all, there := carriers[unknown]; there && at != unknown {
			carriers[unknown] = append(all, some...)
			delete(carriers, at)
		}
	}
}

// conflictsAt are the networks in which two pods, or two sandboxes, carry an
// address, and the pods of which only the network-status names the address.
func (x *Index) conflictsAt(addr netip.Addr) []Finding {
	var found []Finding
	configured, named := x.sandboxesByAddress[addr], x.podsNaming(addr)
	if len(configured) < 2 && len(named) < 2 {
		return nil
	}
	pods, sandboxes := map[carriedOn][]string{}, map[carriedOn][]mention{}
	carriers, refuted, has := map[string][]string{}, map[string][]string{}, map[string]bool{}
	for _, b := range configured {
		has[b.report.Name+"/"+b.pod()] = true
	}
	for _, c := range named {
		if c.nad == nil {
			continue // not known which network: no finding
		}
		isRefuted := !has[c.pod.Node+"/"+c.pod.String()] && x.isRefuted(c.pod)
		for _, n := range c.nad.Networks {
			if at := on(n.Name, x.isolatedOfPod(addr, c)); isRefuted {
				refuted[n.Name] = append(refuted[n.Name], c.pod.String())
			} else if !x.isReported(c.pod) {
				pods[at] = append(pods[at], c.pod.String())
				carriers[n.Name] = append(carriers[n.Name], c.pod.String())
			}
		}
	}
	for _, b := range configured {
		if x.isReady(&b.mention) {
			at := on(b.NetworkName, x.isolatedOfSandbox(addr, &b))
			sandboxes[at] = append(sandboxes[at], b.mention)
			carriers[b.NetworkName] = append(carriers[b.NetworkName], b.pod())
			if pod := x.podOf(&b.mention); pod != nil && x.isReported(pod) {
				pods[at] = append(pods[at], pod.String())
			}
		}
	}
	together(pods)
	together(sandboxes)
	for at, names := range pods {
		if names = sortedUnique(names); len(names) > 1 {
			found = append(found, Finding{Kind: Conflict, IP: addr.String(), Pool: x.poolNameOf(addr, at.network), Pods: names,
				Message: fmt.Sprintf("%s is carried by %s", addr, strings.Join(names, " and "))})
		}
	}
	for at, gs := range sandboxes {
		var ids, names, where []string
		isListed := map[string]bool{}
		for _, g := range gs {
			if !isListed[g.ID] {
				isListed[g.ID] = true
				ids = append(ids, g.ID)
				names = append(names, g.pod())
				where = append(where, g.pod()+" on "+g.report.Name)
			}
		}
		if len(ids) > 1 {
			found = append(found, Finding{Kind: Conflict, IP: addr.String(), Pool: x.poolNameOf(addr, at.network), Pods: sortedUnique(names), ContainerIDs: ids,
				Message: fmt.Sprintf("%s is configured in two running sandboxes: %s", addr, strings.Join(where, " and "))})
		}
	}
	return append(found, x.statusMismatches(addr, refuted, carriers)...)
}

// statusMismatches are the pods, by network, whose network-status names an address that they do not have by the reports of
// their nodes, where others name or carry the address.
func (x *Index) statusMismatches(addr netip.Addr, refuted, carriers map[string][]string) (found []Finding) {
	for network, pods := range refuted {
		pods, others := sortedUnique(pods), sortedUnique(carriers[network])
		if len(sortedUnique(slices.Concat(pods, others))) > 1 {
			found = append(found, Finding{Kind: StatusMismatch, IP: addr.String(), Pool: x.poolNameOf(addr, network), Pods: pods,
				Message: fmt.Sprintf("the network-status of %s names %s, and a fresh SandboxReport shows no sandbox of the pod with it; carried by %s",
					strings.Join(pods, " and "), addr, cmp.Or(strings.Join(others, " and "), "nobody"))})
		}
	}
	return found
}

// poolNameOf names a pool that has the address on the network, or should be there to have it.
func (x *Index) poolNameOf(addr netip.Addr, network string) string {
	for _, p := range x.poolsAt(addr) {
		if p.isOfNetwork(network) {
			return p.ref
		}
	}
	first := ""
	for at, p := range x.missingPools {
		if at.network == network && at.prefix.Contains(addr) && (first == "" || p.ref < first) {
			first = p.ref
		}
	}
	return first
}
