package judge

import (
	"net/netip"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// unreadSandbox is a sandbox without a CNI cache file that lists all of its addresses. It may carry any address of its
// networks. Its CNI caches name them, or else its pod, which users may edit. If neither does, it may carry any address.
type unreadSandbox struct {
	mention
	any    bool
	why    string // it may carry any address
	nads   []*ippool.NAD
	ranges []networkRange
}

// networkRange is a range of a network. The zero prefix cannot be read, and may have any address.
type networkRange struct {
	network string
	prefix  netip.Prefix
}

// maxRanges is how many ranges of a report's unread sandboxes are used. In a report with more, they may carry any
// address. This bounds the cost of judging a hostile report.
const maxRanges = 256

// findUnread finds the sandboxes whose addresses are unknown. Two for each network or range are enough, because at most
// one of two is the item's own.
func (x *Index) findUnread() (found []unreadSandbox) {
	type claim struct {
		expired bool
		of      any // a *NAD, a networkRange, or the report, so that each node has its finding
	}
	known := map[claim][]string{}
	for _, r := range x.reports {
		if !r.hasUnread {
			continue
		}
		expired, ranges := x.isObsolete(r), 0
		isNew := func(of any, id string) bool {
			c := claim{expired, of}
			if ids := known[c]; len(ids) == 2 || slices.Contains(ids, id) {
				return false
			}
			known[c] = append(known[c], id)
			return true
		}
		for i := range r.Sandboxes {
			u := unreadSandbox{mention: mention{r, ofSandbox, &r.Sandboxes[i]}}
			if !u.AddressesUnread || !x.mayHoldAddress(&u.mention) {
				continue
			}
			var networks []string
			switch pod := x.podOf(&u.mention); {
			case len(u.MayCarry) > 0: // no text of a user adds a network, or takes one away
				for _, n := range u.MayCarry {
					prefix, _ := netip.ParsePrefix(n.Range)
					if of := (networkRange{n.NetworkName, prefix}); ranges < maxRanges && isNew(of, u.ID) {
						u.ranges, ranges = append(u.ranges, of), ranges+1
					}
				}
				if u.any = ranges == maxRanges && isNew(r, u.ID); u.any {
					u.why = "the sandboxes of its node have too many networks"
				}
			case pod != nil && pod.Status == podstate.StatusReadable:
				inDoubt := x.doubts.DoubtsStatus(u.CreatedAt.Time)
				for _, iface := range pod.Interfaces {
					isKnown := len(iface.Addresses) > 0 && (!inDoubt || x.isRecordedFor(u.ID, iface.Addresses))
					if _, _, named := iface.NAD(); named && !isKnown {
						networks = append(networks, iface.Network)
					}
				}
			case pod != nil:
				for _, name := range pod.RequestedNetworks {
					networks = append(networks, name.String())
				}
			default:
				u.any, u.why = isNew(r, u.ID), "the API has no pod "+u.pod()
			}
			for _, name := range networks {
				switch nad := x.nads[name]; {
				case nad == nil && isNew(r, u.ID):
					u.any, u.why = true, "the definition "+name+", which its pod names, is missing or cannot be read"
				case nad != nil && isNew(nad, u.ID):
					u.nads = append(u.nads, nad)
				}
			}
			if u.any || len(u.nads)+len(u.ranges) > 0 {
				found = append(found, u)
			}
		}
	}
	return found
}

// isRecordedFor reports whether one of an interface's addresses is allocated to the sandbox.
func (x *Index) isRecordedFor(id string, addresses []netip.Addr) bool {
	return slices.ContainsFunc(addresses, func(a netip.Addr) bool {
		return slices.ContainsFunc(x.entriesFor(a), func(e entry) bool { return e.ContainerID == id })
	})
}

// names reports whether the CNI caches name the range of a pool, or that of its node slice.
func (u *unreadSandbox) names(p *pool) bool {
	return slices.ContainsFunc(u.ranges, func(n networkRange) bool {
		return n.prefix == p.Range.Prefix() || len(p.slice) > 0 && n.prefix.Contains(p.Range.Prefix().Addr())
	})
}
