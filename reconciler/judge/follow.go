package judge

import (
	"net/netip"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// Follow amends what was judged by changes, and judges what they may have changed.
func (j *Judgement) Follow(changes *Live) *Judgement {
	followed := j.x.follow(changes)
	j.x = followed.x
	return followed
}

func (x *Index) follow(changes *Live) *Judgement {
	addresses := x.changedBy(changes)
	x = x.With(changes)
	ambiguous := func(p *pool) bool { return p.keyed != nil }
	j := x.JudgeAddresses(slices.DeleteFunc(addresses, func(addr netip.Addr) bool { return slices.ContainsFunc(x.poolsAt(addr), ambiguous) }))
	j.Partial = true
	for _, p := range x.pools {
		j.Total += len(p.Allocations)
	}
	return j
}

// changedBy are the addresses of which changes that are not amended yet may change
// the verdict: those that a pod or a report carries or has carried, and those of
// entries and reservations that were changed.
func (x *Index) changedBy(changes *Live) []netip.Addr {
	var found []netip.Addr
	add := func(addr netip.Addr) {
		if addr.IsValid() {
			found = append(found, addr)
		}
	}
	for name, now := range changes.Pods {
		for _, p := range []*podstate.Pod{x.pod(name.Namespace, name.Name), now} {
			for addr := range x.carriedBy(slices.Values([]*podstate.Pod{p}), 1) {
				add(addr)
			}
		}
	}
	x.changedByReports(changes, add)
	for name, now := range changes.Pools {
		var before, after []ippool.Allocation
		for _, p := range x.pools {
			if p.Namespace == name.Namespace && p.Name == name.Name {
				before = p.Allocations
			}
		}
		if now != nil {
			after = now.Allocations
		}
		changedEntries(before, after, add)
	}
	for name, now := range changes.Reservations {
		read := func(r *ippool.Reservation) {
			for _, reading := range x.readingsOf(r) {
				add(reading.address)
			}
		}
		for _, r := range []*ippool.Reservation{x.reservationNamed(name.Namespace, name.Name), now} {
			if r != nil {
				read(r)
			}
		}
	}
	return uniqueAddresses(found)
}

func (x *Index) changedByReports(changes *Live, add func(netip.Addr)) {
	latest := x.now
	if changes.Now.After(latest) { // two API servers may have two clocks
		latest = changes.Now
	}
	for name, now := range changes.Reports {
		old := x.byNode[name]
		if old != nil && now != nil && old.SandboxReport == now.SandboxReport && x.isFresh(old) == now.Fresh(latest) {
			continue
		}
		if old != nil {
			addressesOf(old.Report, add)
		}
		if now != nil {
			addressesOf(now, add)
		}
	}
	var after []*podstate.Report
	for _, r := range changes.Reports {
		if r != nil {
			after = append(after, r)
		}
	}
	for _, r := range x.reports {
		if _, changed := changes.Reports[r.Name]; !changed {
			after = append(after, r.Report)
		}
	}
	heardSince := findHeardSince(after, latest)
	for _, r := range x.reports {
		if !heardSince.Equal(x.heardSince) && x.anotherBoot(x.o.Nodes[r.Name], r) { // see rebooted
			addressesOf(r.Report, add)
		}
	}
}

func addressesOf(r *podstate.Report, f func(netip.Addr)) {
	for i := range r.Sandboxes {
		for _, a := range r.Sandboxes[i].Addresses {
			if addr, ok := podstate.ParseAddress(a); ok {
				f(addr)
			}
		}
	}
	for i := range r.Attachments {
		for _, a := range r.Attachments[i].Addresses {
			if addr, ok := podstate.ParseAddress(a); ok {
				f(addr)
			}
		}
	}
}

// changedEntries calls f for the addresses of entries that only one of two versions
// of a pool has as they are. Both are ordered by address.
func changedEntries(before, after []ippool.Allocation, f func(netip.Addr)) {
	for len(before) > 0 || len(after) > 0 {
		switch {
		case len(before) > 0 && len(after) > 0 && before[0] == after[0]:
			before, after = before[1:], after[1:]
		case len(after) == 0 || len(before) > 0 && before[0].Address.Less(after[0].Address):
			f(before[0].Address)
			before = before[1:]
		default:
			f(after[0].Address)
			after = after[1:]
		}
	}
}
