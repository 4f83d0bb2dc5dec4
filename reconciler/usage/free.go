package usage

import (
	"fmt"
	"math/big"
	"net/netip"
	"slices"

	"go4.org/netipx"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// network is what reservations are found by, beside their address.
type network struct{ namespace, name string }

// reservedAddresses are the addresses with a reservation, sorted, by the networks of these definitions. A name that can
// be read in two ways counts in both.
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

// count finds which addresses are usable, and which of these are free: not carried unrecorded, without an entry and
// without a reservation, even of another pool. A definition without overlapping ranges assigns what is reserved, too
// (whereabouts v0.9.4, pkg/storage/kubernetes/ipam.go, IPManagementKubernetesUpdate).
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
	list := reserved[network{p.Namespace, p.Definitions[0].Network.Name}] // the same for all definitions
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
		if rest := setOf(&open).Ranges(); len(rest) > 0 {
			d.next = rest[0].From()
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
	p.countOthers(setOf(&usable))
}

// readsReservations reports whether an ADD to the pool leaves out what is reserved.
func (p *Pool) readsReservations() bool {
	return slices.ContainsFunc(p.Definitions, func(d *Definition) bool { return d.Network.Overlapping })
}

// countOthers counts which allocations are of no usable address, and which usable addresses have none and are not free.
func (p *Pool) countOthers(usable *netipx.IPSet) {
	allocated := 0
	seen := map[netip.Addr]bool{}
	for i := range p.Allocations {
		if a := p.Allocations[i].Address; usable.Contains(a) && !seen[a] {
			seen[a] = true
			allocated++
		}
	}
	p.Outside = p.Used - allocated
	p.Blocked = new(big.Int).Sub(p.Usable, p.Free)
	p.Blocked.Sub(p.Blocked, big.NewInt(int64(allocated)))
}

// setOf is the set of valid addresses and sets, which give no error.
func setOf(b *netipx.IPSetBuilder) *netipx.IPSet {
	s, _ := b.IPSet()
	return s
}

// MostSkipped is how many reserved addresses an ADD can skip in its 10 s. It tries one after the other, with two
// requests each at client-go's 5 a second (whereabouts v0.9.4, pkg/storage/kubernetes/ipam.go,
// IPManagementKubernetesUpdate; pkg/storage/storage.go, RequestTimeout). Measured: it skipped 24 in 9 s, and failed
// with 27.
const MostSkipped = 24

// noteBlocked notes a pool whose free addresses an ADD cannot reach in time.
func (p *Pool) noteBlocked(u *Pools) {
	if p.Free == nil || p.Free.Sign() == 0 || p.skipped.Cmp(big.NewInt(MostSkipped)) <= 0 {
		return
	}
	u.Notes = append(u.Notes, fmt.Sprintf("ADDs to pool %s fail although %s addresses are free: %d addresses before the "+
		"first free one are reserved by other pools of the network, and whereabouts can try only some 25 in time",
		p.Ref(), p.Free, p.skipped))
}
