package usage

import (
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// KeepUnused keeps, by name, the pools without allocations, reservations in their range and findings that no definition
// names. A definition that was not read may name any pool: KeepUnused then keeps none, and notes why.
func (u *Pools) KeepUnused(j *judge.Judgement) {
	unread, networks := slices.Clone(u.o.Unreadable), []ippool.Network{}
	if len(u.o.NADs) == 0 {
		unread = append(unread, "no NetworkAttachmentDefinition was read")
	}
	for name, nad := range u.o.NADs {
		if networks = append(networks, nad.Networks...); nad.Problem != "" {
			unread = append(unread, "NetworkAttachmentDefinition "+name.String()+" cannot be parsed")
		}
	}
	if slices.Sort(unread); len(unread) > 0 {
		u.Notes = append(u.Notes, "it is unknown which pools are unused: "+judge.AtMost(unread, 3))
	}
	u.All = slices.DeleteFunc(u.All, func(p *Pool) bool {
		isNamed := func(n ippool.Network) bool {
			_, isSlice := n.SliceOf(p.Pool) // also of a node that is gone
			return isSlice || n.Maps(p.Pool, p.Pool.Networks(nil))
		}
		mayReserve := func(r *ippool.Reservation) bool { return r.Namespace == p.Namespace && mayBeIn(r.Name, p.Range) }
		isAbout := func(f judge.Finding) bool { return slices.Contains(strings.Split(f.Pool, ","), p.Ref()) }
		return len(unread) > 0 || p.Problem != "" || len(p.Allocations) > 0 || slices.ContainsFunc(networks, isNamed) ||
			slices.ContainsFunc(u.o.Reservations, mayReserve) || slices.ContainsFunc(j.Findings, isAbout)
	})
}

// mayBeIn reports whether the name of a reservation may be that of an address in a range, in any network.
func mayBeIn(name string, r ippool.Range) bool {
	for isMore := true; isMore; _, name, isMore = strings.Cut(name, "-") {
		if a, ok := ippool.ReservedAddress(name, ""); ok && r.Contains(a) {
			return true
		}
	}
	return false
}
