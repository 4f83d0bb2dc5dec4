package usage

import "net/netip"

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

// Known lists the pools, for an error that names none of them.
func (u *Pools) Known() string {
	if len(u.All) == 0 {
		return "there are none"
	}
	all := make([]string, 0, len(u.All))
	for _, p := range u.All {
		all = append(all, p.Ref())
	}
	return "there are " + atMost(10, all)
}

// Networks are the pool's definitions as "<namespace>/<name>", each once.
func (p *Pool) Networks() []string {
	networks := make([]string, 0, len(p.Definitions))
	for _, d := range p.Definitions {
		if n := d.String(); len(networks) == 0 || networks[len(networks)-1] != n {
			networks = append(networks, n)
		}
	}
	return networks
}
