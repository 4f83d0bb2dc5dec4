package facts

import (
	"net/netip"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// UnreadSandbox is a sandbox or attachment whose report does not have all of its addresses: no CNI cache file lists
// them, or they are too many for a report. It may carry any address of its networks. Its CNI caches name them, or else
// its pod, which users may edit. If neither does, it may carry any address.
type UnreadSandbox struct {
	Mention
	IsAny  bool
	Why    string // it may carry any address
	NADs   []*ippool.NAD
	Ranges []NetworkRange
}

// MayHave reports whether the sandbox may have an address of a definition, or of a range, that matches.
func (u *UnreadSandbox) MayHave(isNAD func(*ippool.NAD) bool, isRange func(NetworkRange) bool) bool {
	return u.IsAny || slices.ContainsFunc(u.NADs, isNAD) || slices.ContainsFunc(u.Ranges, isRange)
}

// NetworkRange is a range of a network. The zero prefix cannot be read, and may have any address.
type NetworkRange struct {
	Network string
	Prefix  netip.Prefix
}

// maxRanges is how many ranges of a report's unread sandboxes are used. In a report with more, they may carry any
// address. This bounds the cost of judging a hostile report.
const maxRanges = 256

// findUnread finds the sandboxes whose addresses are unknown. Two for each network or range are enough, because at most
// one of two is the item's own.
func (f *Facts) findUnread() (found []UnreadSandbox) {
	type claim struct {
		expired bool
		of      any // a *NAD, a NetworkRange, or the report, so that each node has its finding
	}
	known := map[claim][]string{}
	for _, r := range f.reports {
		expired, ranges := f.IsObsolete(r), 0
		isNew := func(of any, id string) bool {
			c := claim{expired, of}
			if ids := known[c]; len(ids) == 2 || slices.Contains(ids, id) {
				return false
			}
			known[c] = append(known[c], id)
			return true
		}
		for g := range r.Unread() {
			u := UnreadSandbox{Mention: *g}
			if !f.MayHoldAddress(g) {
				continue
			}
			var networks []string
			switch pod := f.PodOf(&u.Mention); {
			case len(u.MayCarry) > 0: // no text of a user adds a network, or takes one away
				for _, n := range u.MayCarry {
					prefix, _ := netip.ParsePrefix(n.Range)
					if of := (NetworkRange{n.NetworkName, prefix}); ranges < maxRanges && isNew(of, u.ID) {
						u.Ranges, ranges = append(u.Ranges, of), ranges+1
					}
				}
				if u.IsAny = ranges == maxRanges && isNew(r, u.ID); u.IsAny {
					u.Why = "the sandboxes of its node have too many networks"
				}
			case pod != nil && pod.Status == podstate.StatusReadable:
				inDoubt := f.doubts.DoubtsStatus(u.CreatedAt.Time)
				for _, iface := range pod.Interfaces {
					isKnown := len(iface.Addresses) > 0 && (!inDoubt || f.isRecordedFor(u.ID, iface.Addresses))
					if _, _, named := iface.NAD(); named && !isKnown {
						networks = append(networks, iface.Network)
					}
				}
			case pod != nil:
				for _, name := range pod.RequestedNetworks {
					networks = append(networks, name.String())
				}
			default:
				u.IsAny, u.Why = isNew(r, u.ID), "the API has no pod "+u.Pod()
			}
			for _, name := range networks {
				switch nad := f.nads[name]; {
				case nad == nil && isNew(r, u.ID):
					u.IsAny, u.Why = true, "the definition "+name+", which its pod names, is missing or cannot be read"
				case nad != nil && isNew(nad, u.ID):
					u.NADs = append(u.NADs, nad)
				}
			}
			if u.IsAny || len(u.NADs)+len(u.Ranges) > 0 {
				found = append(found, u)
			}
		}
	}
	return found
}

// isRecordedFor reports whether one of an interface's addresses is allocated to the sandbox.
func (f *Facts) isRecordedFor(id string, addresses []netip.Addr) bool {
	return slices.ContainsFunc(addresses, func(a netip.Addr) bool {
		return slices.ContainsFunc(f.EntriesFor(a), func(e Entry) bool { return e.ContainerID == id })
	})
}

// Names reports whether the CNI caches name the range of a pool, or that of its node slice.
func (u *UnreadSandbox) Names(p *Pool) bool {
	return slices.ContainsFunc(u.Ranges, func(n NetworkRange) bool {
		return n.Prefix == p.Range.Prefix() || len(p.Slice) > 0 && n.Prefix.Contains(p.Range.Prefix().Addr())
	})
}
