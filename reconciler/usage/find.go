package usage

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
)

// Find are the pools with a text as "<namespace>/<name>", name, range, or address in their range.
func (u *Pools) Find(text string) []*Pool {
	var found []*Pool
	addr, addrErr := netip.ParseAddr(text)
	prefix, prefixErr := netip.ParsePrefix(text)
	for _, p := range u.All {
		switch {
		case p.Ref() == text, p.Name == text, p.RangeText == text && text != "":
		case p.Problem == "" && prefixErr == nil && p.Range.Prefix() == prefix.Masked():
		case p.Problem == "" && addrErr == nil && p.Range.Contains(addr):
		default:
			continue
		}
		found = append(found, p)
	}
	return found
}

// Known lists the pools, for an error about an unknown one.
func (u *Pools) Known() string {
	all := make([]string, len(u.All))
	for i, p := range u.All {
		all[i] = p.Ref()
	}
	return "there are " + cmp.Or(facts.AtMost(all, 10), "none")
}

// Networks are the names of the pool's definitions, each once.
func (p *Pool) Networks() []string {
	networks := make([]string, 0, len(p.Definitions))
	for _, d := range p.Definitions {
		networks = append(networks, d.String())
	}
	return slices.Compact(networks)
}

// Owner is a namespace, or a workload as "<namespace>/<kind>/<name>", with entries in a pool.
type Owner struct {
	Name    string
	Entries int
}

// mostOwners is how many owners of a kind are listed.
const mostOwners = 10

// ByNamespace are the namespaces with the most entries, in descending order.
func (p *Pool) ByNamespace() []Owner {
	counts := map[string]int{}
	for i := range p.Allocations {
		counts[p.Allocations[i].Owner.Namespace]++
	}
	delete(counts, "") // of entries that cannot be read
	return most(counts)
}

// ByWorkload are the controllers with the most entries, as "<namespace>/<kind>/<name>", in descending order. A pod
// without a controller, or that does not exist, counts as itself.
func (u *Pools) ByWorkload(p *Pool) []Owner {
	counts := map[string]int{}
	for i := range p.Allocations {
		o := p.Allocations[i].Owner
		if o.Name == "" {
			continue
		}
		name := "Pod/" + o.Name
		pod := u.o.Pods[types.NamespacedName{Namespace: o.Namespace, Name: o.Name}]
		if pod != nil && o.UID == "" && pod.Workload != "" {
			name = pod.Workload
		}
		counts[o.Namespace+"/"+name]++
	}
	return most(counts)
}

func most(counts map[string]int) []Owner {
	owners := make([]Owner, 0, len(counts))
	for name := range counts {
		owners = append(owners, Owner{name, counts[name]})
	}
	slices.SortFunc(owners, func(a, b Owner) int {
		return cmp.Or(cmp.Compare(b.Entries, a.Entries), cmp.Compare(a.Name, b.Name))
	})
	return owners[:min(mostOwners, len(owners))]
}

// KeepUnused keeps, by name, the pools without allocations, reservations in their range and findings that no definition
// names. A definition or a whole source that was not read may be about any pool: KeepUnused then keeps none, and notes
// why.
func (u *Pools) KeepUnused(j *findings.Assessment) {
	unread, networks := slices.Clone(u.o.Unreadable), []ippool.Network{}
	for _, s := range u.o.UnknownSources() {
		unread = append(unread, string(s.Name)+" could not be read")
	}
	if u.o.NADs.IsKnown() && len(u.o.NADs.Or(nil)) == 0 {
		unread = append(unread, "no NetworkAttachmentDefinition was read")
	}
	for name, nad := range u.o.NADs.Or(nil) {
		if networks = append(networks, nad.Networks...); nad.Problem != "" {
			unread = append(unread, "NetworkAttachmentDefinition "+name.String()+" cannot be parsed")
		}
	}
	if slices.Sort(unread); len(unread) > 0 {
		u.Notes = append(u.Notes, "it is unknown which pools are unused: "+facts.AtMost(unread, 3))
	}
	u.All = slices.DeleteFunc(u.All, func(p *Pool) bool {
		isNamed := func(n ippool.Network) bool {
			_, isSlice := n.SliceOf(p.Pool) // also of a node that is gone
			return isSlice || n.Maps(p.Pool, p.Pool.Networks(nil))
		}
		mayReserve := func(r *ippool.Reservation) bool { return r.Namespace == p.Namespace && mayBeIn(r.Name, p.Range) }
		return len(unread) > 0 || p.Problem != "" || len(p.Allocations) > 0 || slices.ContainsFunc(networks, isNamed) ||
			slices.ContainsFunc(u.o.Reservations.Or(nil), mayReserve) || j.HasFindingOn(p.Ref())
	})
}

// mayBeIn reports whether the name of a reservation may be that of an address in a range, in any network.
func mayBeIn(name string, r ippool.Range) bool {
	for isMore := true; isMore; _, name, isMore = strings.Cut(name, "-") {
		if a, ok := ippool.ReservedAddress(name, ""); ok && r.Contains(a) {
			return true
		}
	}
	return false
}
