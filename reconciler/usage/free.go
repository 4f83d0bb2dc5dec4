package usage

import (
	"math/big"
	"net/netip"
	"slices"
	"sort"

	"go4.org/netipx"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// network is what a reservation is looked up by, beside its address.
type network struct{ namespace, name string }

// reservedAddresses are those that have a reservation, by network, each list by address; of the networks
// of these definitions alone. A name that can be read in two ways counts in both.
func reservedAddresses(reservations []*ippool.Reservation, definitions []*Definition, gone released) map[network][]netip.Addr {
	networks := map[string]bool{}
	for _, d := range definitions {
		networks[d.Network.Name] = true
	}
	all := map[network][]netip.Addr{}
	for _, r := range reservations {
		if gone.reservation(r) {
			continue
		}
		read := func(name string) {
			if !networks[name] {
				return
			}
			if a, ok := ippool.ReservedAddress(r.Name, name); ok {
				at := network{r.Namespace, name}
				all[at] = append(all[at], a)
			}
		}
		read("")
		for i := range r.Name {
			if r.Name[i] == '-' && i > 0 {
				read(r.Name[:i])
			}
		}
	}
	for at, list := range all {
		slices.SortFunc(list, netip.Addr.Compare)
		all[at] = slices.Compact(list)
	}
	return all
}

// released is what a pass has released of what it judged. The items may be those of the second
// check, so that they are known by name.
type released struct {
	entries      map[string][]ippool.Allocation // by pool
	reservations map[string]bool                // "<namespace>/<name>"
}

func releasedOf(items []*judge.Item) released {
	r := released{entries: map[string][]ippool.Allocation{}, reservations: map[string]bool{}}
	for _, it := range items {
		if it.Allocation != nil {
			r.entries[it.Object()] = append(r.entries[it.Object()], *it.Allocation)
		} else {
			r.reservations[it.Object()] = true
		}
	}
	return r
}

func (r released) allocation(it *judge.Item) bool {
	return len(r.entries) > 0 && slices.ContainsFunc(r.entries[it.Object()], func(a ippool.Allocation) bool { return a.Key == it.Key() })
}

func (r released) reservation(o *ippool.Reservation) bool {
	return len(r.reservations) > 0 && r.reservations[o.Ref()]
}

// count counts what is usable, and what of it is free.
func (p *Pool) count(reserved map[network][]netip.Addr) {
	if p.Unknown != "" {
		return
	}
	p.usable, p.unguarded = union(p.Definitions, func(*Definition) bool { return true }), union(p.Definitions, func(d *Definition) bool { return !d.Network.Overlapping })
	name := p.Definitions[0].Network.Name // by the pool's name all have the same
	p.reserved = inside(reserved[network{p.Namespace, name}], p.Range.Prefix())
	p.Usable = ippool.Size(p.usable)
	p.Free = new(big.Int).Sub(p.Usable, big.NewInt(int64(p.taken(p.usable, p.unguarded))))
}

func union(definitions []*Definition, of func(*Definition) bool) *netipx.IPSet {
	var set netipx.IPSetBuilder
	for _, d := range definitions {
		if of(d) {
			set.AddSet(d.Usable)
		}
	}
	s, _ := set.IPSet() // valid sets give no error
	return s
}

// inside are those of the addresses, which are ordered, that are in a range.
func inside(addresses []netip.Addr, prefix netip.Prefix) []netip.Addr {
	all := netipx.RangeOfPrefix(prefix)
	from := sort.Search(len(addresses), func(i int) bool { return addresses[i].Compare(all.From()) >= 0 })
	to := sort.Search(len(addresses), func(i int) bool { return addresses[i].Compare(all.To()) > 0 })
	return addresses[from:max(from, to)]
}

// taken counts the addresses of a set that no ADD gets: those with an entry, and those that are reserved,
// be it by another pool of the network, but for what a definition without overlapping ranges assigns
// (whereabouts v0.9.4, pkg/storage/kubernetes/ipam.go, IPManagementKubernetesUpdate).
func (p *Pool) taken(of, unguarded *netipx.IPSet) (n int) {
	var last netip.Addr
	for i := range p.Allocations {
		if a := p.Allocations[i].Address; a.IsValid() && a != last {
			last = a
			if of.Contains(a) {
				n++
			}
		}
	}
	for _, a := range p.reserved {
		if of.Contains(a) && !unguarded.Contains(a) && !p.hasEntry(a) {
			n++
		}
	}
	return n
}

func (p *Pool) hasEntry(a netip.Addr) bool {
	_, found := slices.BinarySearchFunc(p.Allocations, a, func(e ippool.Allocation, a netip.Addr) int { return e.Address.Compare(a) })
	return found
}

// FreeAddresses are the addresses that are free; nil where that is not known.
func (p *Pool) FreeAddresses() *netipx.IPSet {
	if p.Unknown != "" {
		return nil
	}
	return p.freeOf(p.usable, p.unguarded)
}

func (p *Pool) freeOf(of, unguarded *netipx.IPSet) *netipx.IPSet {
	var set netipx.IPSetBuilder
	for _, a := range p.reserved {
		set.Add(a)
	}
	set.RemoveSet(unguarded)
	for i := range p.Allocations {
		if a := p.Allocations[i].Address; a.IsValid() {
			set.Add(a)
		}
	}
	taken, _ := set.IPSet()
	var free netipx.IPSetBuilder
	free.AddSet(of)
	free.RemoveSet(taken)
	s, _ := free.IPSet() // valid sets give no error
	return s
}

// freeBy is how many free addresses of the pool one of its definitions would assign.
func (p *Pool) freeBy(d *Definition) *big.Int {
	return new(big.Int).Sub(ippool.Size(d.Usable), big.NewInt(int64(p.taken(d.Usable, d.unguarded()))))
}

// unguarded are the addresses that the definition assigns although they are reserved.
func (d *Definition) unguarded() *netipx.IPSet {
	if d.Network.Overlapping {
		return &netipx.IPSet{}
	}
	return d.Usable
}
