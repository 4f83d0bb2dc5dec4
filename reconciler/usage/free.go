package usage

import (
	"fmt"
	"math/big"
	"net/netip"
	"slices"

	"go4.org/netipx"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// network is what a reservation is looked up by, beside its address.
type network struct{ namespace, name string }

// reservedAddresses are those that have a reservation, by network, each list by address; of the networks
// of these definitions alone. A name that can be read in two ways counts in both.
func reservedAddresses(reservations []*ippool.Reservation, definitions []*Definition) map[network][]netip.Addr {
	networks := map[string]bool{}
	for _, d := range definitions {
		networks[d.Network.Name] = true
	}
	all := map[network][]netip.Addr{}
	for _, r := range reservations {
		for name := range networks {
			if a, ok := ippool.ReservedAddress(r.Name, name); ok {
				all[network{r.Namespace, name}] = append(all[network{r.Namespace, name}], a)
			}
		}
	}
	for _, list := range all {
		slices.SortFunc(list, netip.Addr.Compare)
	}
	return all
}

// count finds what is usable, and what of it is free: an address without an entry that is not reserved, be it by
// another pool of the network. A definition without overlapping ranges assigns what is reserved, too (whereabouts
// v0.9.4, pkg/storage/kubernetes/ipam.go, IPManagementKubernetesUpdate).
func (p *Pool) count(reserved map[network][]netip.Addr, unrecorded []netip.Addr) {
	if p.Unknown != "" {
		return
	}
	all := netipx.RangeOfPrefix(p.Range.Prefix())
	var entries, elsewhere, usable, free netipx.IPSetBuilder
	for i := range p.Allocations {
		if a := p.Allocations[i].Address; a.IsValid() {
			entries.Add(a)
		}
	}
	list := reserved[network{p.Namespace, p.Definitions[0].Network.Name}] // by the pool's name all have the same
	first, _ := slices.BinarySearchFunc(list, all.From(), netip.Addr.Compare)
	for _, a := range list[first:] {
		if !all.Contains(a) {
			break
		}
		elsewhere.Add(a)
	}
	withEntry, withReservation := setOf(&entries), setOf(&elsewhere)
	for i, d := range p.Definitions {
		var open, skipped netipx.IPSetBuilder
		open.AddSet(d.Usable)
		open.RemoveSet(withEntry)
		skipped.AddSet(setOf(&open))
		if d.Network.Overlapping {
			open.RemoveSet(withReservation)
		}
		if left := setOf(&open).Ranges(); len(left) > 0 {
			d.next = left[0].From()
			skipped.RemoveRange(netipx.IPRangeFrom(d.next, all.To()))
		}
		if n := ippool.Size(setOf(&skipped)); i == 0 || n.Cmp(p.skipped) < 0 {
			p.skipped = n
		}
		usable.AddSet(d.Usable)
		free.AddSet(setOf(&open))
	}
	for _, a := range unrecorded { // an ADD may assign the address, but a pod uses it
		free.Remove(a)
	}
	p.FreeAddresses = setOf(&free)
	p.Usable, p.Free = ippool.Size(setOf(&usable)), ippool.Size(p.FreeAddresses)
}

// setOf is what was built of valid addresses and sets, which give no error.
func setOf(b *netipx.IPSetBuilder) *netipx.IPSet {
	s, _ := b.IPSet()
	return s
}

// mostSkipped is how many addresses that are reserved elsewhere an ADD surely skips. It asks for one after the
// other, with two requests each at client-go's 5 a second, and has 10 s (whereabouts v0.9.4,
// pkg/storage/kubernetes/ipam.go, IPManagementKubernetesUpdate; pkg/storage/storage.go, RequestTimeout): 24 were
// skipped in 9 s, and with 27 the ADD failed.
const mostSkipped = 24

// noteBlocked notes of a pool that no ADD reaches its free addresses in time, because too many that other pools have
// reserved come before the first of them.
func (p *Pool) noteBlocked(u *Pools) {
	if p.Free == nil || p.Free.Sign() == 0 || p.skipped.Cmp(big.NewInt(mostSkipped)) <= 0 {
		return
	}
	u.Notes = append(u.Notes, fmt.Sprintf("%d addresses that other pools of the network have reserved come before the first free one of %s: "+
		"whereabouts tries them one by one and runs out of time after some 25, so that ADDs fail although %s are free", p.skipped, p.Ref(), p.Free))
}
