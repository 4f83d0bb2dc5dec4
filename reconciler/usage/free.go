package usage

import (
	"fmt"
	"net/netip"
	"slices"

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

// count finds what is usable, and what of it is free: an address without an entry that is not reserved, be it by
// another pool of the network. A definition without overlapping ranges assigns what is reserved, too (whereabouts v0.9.4,
// pkg/storage/kubernetes/ipam.go, IPManagementKubernetesUpdate).
func (p *Pool) count(reserved map[network][]netip.Addr) {
	if p.Unknown != "" {
		return
	}
	name := p.Definitions[0].Network.Name // by the pool's name all have the same
	p.reserved = inside(reserved[network{p.Namespace, name}], p.Range.Prefix())
	addresses := make([]netip.Addr, 0, len(p.Allocations))
	for i := range p.Allocations {
		if a := p.Allocations[i].Address; a.IsValid() {
			addresses = append(addresses, a)
		}
	}
	var taken, usable, free netipx.IPSetBuilder
	addAll(&taken, addresses)
	withEntry := setOf(&taken)
	addAll(&taken, p.reserved)
	withEither := setOf(&taken)
	for _, d := range p.Definitions {
		var of netipx.IPSetBuilder
		of.AddSet(d.Usable)
		if d.Network.Overlapping {
			of.RemoveSet(withEither)
		} else {
			of.RemoveSet(withEntry)
		}
		if d.free = setOf(&of); len(d.free.Ranges()) > 0 {
			d.next = d.free.Ranges()[0].From()
		}
		usable.AddSet(d.Usable)
		free.AddSet(d.free)
	}
	p.free = setOf(&free)
	p.Usable, p.Free = ippool.Size(setOf(&usable)), ippool.Size(p.free)
}

// addAll adds addresses, which are ordered, by runs: a set is built by its ranges.
func addAll(b *netipx.IPSetBuilder, addresses []netip.Addr) {
	for i := 0; i < len(addresses); {
		first, last := addresses[i], addresses[i]
		for i++; i < len(addresses) && addresses[i].Compare(last.Next()) <= 0; i++ {
			last = addresses[i]
		}
		b.AddRange(netipx.IPRangeFrom(first, last))
	}
}

// setOf is what was built of valid addresses and sets, which give no error.
func setOf(b *netipx.IPSetBuilder) *netipx.IPSet {
	s, _ := b.IPSet()
	return s
}

// inside are those of the addresses, which are ordered, that are in a range.
func inside(addresses []netip.Addr, prefix netip.Prefix) []netip.Addr {
	all := netipx.RangeOfPrefix(prefix)
	from, _ := slices.BinarySearchFunc(addresses, all.From(), netip.Addr.Compare)
	to, last := slices.BinarySearchFunc(addresses, all.To(), netip.Addr.Compare)
	if last {
		to++
	}
	return addresses[from:max(from, to)]
}

func (p *Pool) hasEntry(a netip.Addr) bool {
	_, found := slices.BinarySearchFunc(p.Allocations, a, func(e ippool.Allocation, a netip.Addr) int { return e.Address.Compare(a) })
	return found
}

// FreeAddresses are the addresses that are free; nil where that is not known.
func (p *Pool) FreeAddresses() *netipx.IPSet { return p.free }

// mostSkipped is how many addresses that are reserved elsewhere an ADD surely skips. It asks for one after the
// other, with two requests each at client-go's 5 a second, and has 10 s (whereabouts v0.9.4,
// pkg/storage/kubernetes/ipam.go, IPManagementKubernetesUpdate; pkg/storage/storage.go, RequestTimeout): 24 were
// skipped in 9 s, and with 27 the ADD failed.
const mostSkipped = 24

// AddBlocked notes the pools whose free addresses no ADD reaches in time, because too many that other
// pools have reserved come before the first of them.
func (u *Pools) AddBlocked() {
	for _, p := range u.All {
		if n := p.skipped(); n > mostSkipped {
			u.Notes = append(u.Notes, fmt.Sprintf("%d addresses that other pools of the network have reserved come before the first free one of %s: "+
				"whereabouts tries them one by one and runs out of time after some 25, so that ADDs fail although %s are free", n, p.Ref(), p.Free))
		}
	}
}

// skipped is how many addresses an ADD has to skip before it gets a free one, by the definition with the
// fewest; 0 where nothing is free.
func (p *Pool) skipped() int {
	fewest := -1
	for _, d := range p.Definitions {
		if !d.next.IsValid() || len(p.reserved) <= mostSkipped {
			continue
		}
		n := 0
		for _, a := range p.reserved {
			if a.Less(d.next) && d.Usable.Contains(a) && !p.hasEntry(a) {
				n++
			}
		}
		if fewest < 0 || n < fewest {
			fewest = n
		}
	}
	return max(fewest, 0)
}
