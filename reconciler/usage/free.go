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
	for _, d := range p.Definitions {
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
		d.skipped = ippool.Size(setOf(&skipped))
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

// MostSkipped is how many reserved addresses one ADD by a network can skip in its 10 s, in all ranges together. It
// tries one after the other, at client-go's five requests a second after the first ten (whereabouts v0.9.4,
// pkg/storage/kubernetes/ipam.go, IPManagementKubernetesUpdate; pkg/storage/storage.go, RequestTimeout). Each try reads
// the pool and the reservation, and one of a node slice the NodeSlicePool, too. Besides, an ADD lists the pools once.
// For each range it tries one more address, patches the pool and creates the reservation. For slices it reads the
// NodeSlicePool once before. Measured with one range: an ADD skipped 24 in 9 s, which are 53 requests, and failed with
// 27. That makes 22 with two ranges, and 15 with slices.
func MostSkipped(n ippool.Network) *big.Int {
	const requests = 53
	once, eachRange, eachTry := 1, 4, 2
	if n.Slices {
		once, eachRange, eachTry = 2, 5, 3
	}
	return big.NewInt(int64(max(0, requests-once-eachRange*len(n.Ranges)) / eachTry))
}

// sumSkipped adds up what one ADD by each definition skips in all of its pools. For a slice these are the pools of its
// node.
func (u *Pools) sumSkipped() {
	type interfaceOf struct {
		section *Definition
		node    string
	}
	sums := map[interfaceOf]*big.Int{}
	for _, p := range u.All {
		for _, d := range p.Definitions {
			at := interfaceOf{d.section, d.Node}
			if sums[at] == nil {
				sums[at] = new(big.Int)
			}
			if d.skipped != nil {
				sums[at].Add(sums[at], d.skipped)
			}
		}
	}
	for _, p := range u.All {
		for _, d := range p.Definitions {
			d.skipped = sums[interfaceOf{d.section, d.Node}]
		}
	}
}

// noteBlocked notes a pool whose free addresses no ADD reaches in time.
func (p *Pool) noteBlocked(u *Pools) {
	reaches := func(d *Definition) bool { return d.skipped.Cmp(MostSkipped(d.Network)) <= 0 }
	if p.Free == nil || p.Free.Sign() == 0 || slices.ContainsFunc(p.Definitions, reaches) {
		return
	}
	d := slices.MinFunc(p.Definitions, func(a, b *Definition) int { return a.skipped.Cmp(b.skipped) })
	u.Notes = append(u.Notes, fmt.Sprintf("ADDs to pool %s fail although %s addresses are free: before the first free "+
		"ones of all ranges of %s, %s addresses are reserved by other pools of the network, and an ADD can skip only %s in "+
		"time",
		p.Ref(), p.Free, d, d.skipped, MostSkipped(d.Network)))
}
