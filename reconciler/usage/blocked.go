package usage

import (
	"fmt"
	"net/netip"
)

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
	if len(p.reserved) <= mostSkipped {
		return 0
	}
	fewest := -1
	for _, d := range p.Definitions {
		free := p.freeOf(d.Usable, d.unguarded()).Ranges()
		if len(free) == 0 {
			continue
		}
		if n := p.skippedBefore(free[0].From(), d); fewest < 0 || n < fewest {
			fewest = n
		}
	}
	return max(fewest, 0)
}

// skippedBefore counts the addresses below the first free one that are reserved, have no entry, and are tried by a definition.
func (p *Pool) skippedBefore(first netip.Addr, d *Definition) (n int) {
	for _, a := range p.reserved {
		if a.Less(first) && d.Usable.Contains(a) && !p.hasEntry(a) {
			n++
		}
	}
	return n
}
