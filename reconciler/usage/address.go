package usage

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Unrecorded says what an address is that has no entry, a sentence for each pool of whose range it is: whether
// it would be assigned, or why no definition assigns it.
func Unrecorded(j *judge.Judgement, addr netip.Addr) []string {
	addr = addr.Unmap()
	var texts []string
	for _, p := range Of(j).All {
		if p.Problem == "" && p.Range.Contains(addr) && !p.hasEntry(addr) {
			texts = append(texts, fmt.Sprintf("Pool %s (%s): %s.", p.Ref(), p.RangeText, p.unrecorded(addr)))
		}
	}
	return texts
}

func (p *Pool) unrecorded(addr netip.Addr) string {
	if p.Unknown != "" {
		return "it is not known whether the address would be assigned: " + p.Unknown
	}
	usable := false
	var reasons []string
	for _, d := range p.Definitions {
		if why := d.Network.NotUsable(p.Pool, addr); why != "" {
			reasons = append(reasons, fmt.Sprintf("%s %s", d, why))
			continue
		}
		usable = true
		free := p.freeOf(d.Usable, d.unguarded())
		if !free.Contains(addr) {
			continue
		}
		if next := free.Ranges()[0].From(); next != addr {
			return fmt.Sprintf("the address is free, and %s is assigned before it (by %s)", next, d)
		}
		return fmt.Sprintf("the address is free, and the next that is assigned by %s", d)
	}
	if usable {
		return "the address has a reservation, and is not assigned while that is there"
	}
	return "the address is never assigned: " + strings.Join(reasons, "; ")
}
