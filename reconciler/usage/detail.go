package usage

import (
	"fmt"
	"net/netip"
	"strings"

	"go4.org/netipx"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// mostRanges is how many ranges of free addresses are told.
const mostRanges = 20

// Detail is the document of one pool.
func (u *Pools) Detail(p *Pool, release Release) Detail {
	d := Detail{Row: p.Row(), Definitions: []DefinitionRow{}, Namespaces: p.ByNamespace(), Workloads: u.ByWorkload(p), StaleEntries: []StaleRow{}}
	for _, n := range p.Definitions {
		ranges, more := texts(n.Usable)
		if more > 0 {
			ranges = append(ranges, fmt.Sprintf("and %d more", more))
		}
		d.Definitions = append(d.Definitions, DefinitionRow{n.String(), Count{ippool.Size(n.Usable)}, ranges})
	}
	if free := p.FreeAddresses(); free != nil {
		d.FreeRanges, d.MoreFreeRanges = texts(free)
	}
	for _, it := range p.stale {
		d.StaleEntries = append(d.StaleEntries, StaleRow{it.Row(it.Message()).(judge.AllocationRow), release(it)})
	}
	return d
}

// texts are the first ranges of a set, and how many more there are.
func texts(set *netipx.IPSet) (ranges []string, more int) {
	all := set.Ranges()
	more = max(0, len(all)-mostRanges)
	ranges = make([]string, 0, len(all)-more)
	for _, r := range all[:len(all)-more] {
		if r.From() == r.To() {
			ranges = append(ranges, r.From().String())
		} else {
			ranges = append(ranges, r.String())
		}
	}
	return ranges, more
}

// Find are the pools that a text names: "<namespace>/<name>", the name alone, the range, or an address
// of the range.
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

// Known are the names of the pools, for an error that names none of them.
func (u *Pools) Known() string {
	all := make([]string, 0, len(u.All))
	for _, p := range u.All {
		all = append(all, p.Ref())
	}
	if len(all) == 0 {
		return "there are none"
	}
	return strings.TrimSpace("there are " + atMost(10, all))
}
