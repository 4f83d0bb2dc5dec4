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
			text := p.unrecorded(addr)
			if who := carrier(j, p, addr); who != "" {
				text = who + " carries the address without an entry, and the next ADD may hand it out again"
			}
			texts = append(texts, fmt.Sprintf("Pool %s (%s): %s.", p.Ref(), p.RangeText, text))
		}
	}
	return texts
}

// carrier is a pod of which a pool should have an entry for the address, "" for none.
func carrier(j *judge.Judgement, p *Pool, addr netip.Addr) string {
	for i := range j.Findings {
		if f := &j.Findings[i]; f.Kind == judge.Unrecorded && f.Pool == p.Ref() && f.IP == addr.String() && len(f.Pods) > 0 {
			return f.Pods[0]
		}
	}
	return ""
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
		if !d.free.Contains(addr) {
			continue
		}
		if d.next != addr {
			return fmt.Sprintf("the address is free, and %s is assigned before it (by %s)", d.next, d)
		}
		return fmt.Sprintf("the address is free, and the next that is assigned by %s", d)
	}
	if usable {
		return "the address has a reservation, and is not assigned while that is there"
	}
	return "the address is never assigned: " + strings.Join(reasons, "; ")
}
