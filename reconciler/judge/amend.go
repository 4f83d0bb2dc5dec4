package judge

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"sort"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// Amend puts what a live read found in the place of what was there. The cost grows
// with the change, with the entries of the pools in it, and, where the time or a
// report changes, with the number of reports. Only what changes the ranges or
// networks of the pools, which nodes have a report, or the nodes where no Node
// object is known, makes it build all of the index again.
func (x *Index) Amend(live *Live) {
	own := *x.o // what was observed first stays as it was
	x.o, x.amended = &own, true
	x.o.Restored = cmp.Or(live.Restored, x.o.Restored)
	if live.Now.After(x.now) { // two API servers may have two clocks
		x.setNow(live.Now)
	}
	rebuild := false
	x.unread = nil
	for name, r := range live.Reports {
		rebuild = x.setReport(name, r) || rebuild
	}
	if len(live.Reports) > 0 {
		x.o.Reports = make([]*podstate.Report, len(x.reports))
		for i, r := range x.reports {
			x.o.Reports[i] = r.Report
		}
	}
	x.heardSince = findHeardSince(x.o.Reports, x.now)
	for name, p := range live.Pods {
		rebuild = x.setPod(name, p) || rebuild
	}
	for name, p := range live.Pools {
		rebuild = x.setPool(name, p) || rebuild
	}
	if len(live.Pools) > 0 {
		x.o.Pools = make([]*ippool.Pool, len(x.pools))
		for i, p := range x.pools {
			x.o.Pools[i] = p.Pool
		}
	}
	if len(live.Reservations) > 0 {
		x.IndexReservations()
	}
	for name, r := range live.Reservations {
		x.setReservation(name, r)
	}
	if rebuild {
		*x = *NewIndex(x.Observation(), x.past, x.policy)
	}
}

// BasedOn is what the index was built from, amended, but for the pods and reservations:
// those are the ones of before the amendments. It costs nothing.
func (x *Index) BasedOn() *Observation { return x.o }

// Observation is what the index stands for now.
func (x *Index) Observation() *Observation {
	if !x.amended {
		return x.o
	}
	o := *x.o
	o.Pods = make(map[types.NamespacedName]*podstate.Pod, len(x.pods))
	for _, p := range x.pods {
		if p != nil {
			o.Pods[p.NamespacedName] = p
		}
	}
	o.Reservations = slices.DeleteFunc(slices.Clone(x.reservations), func(r *ippool.Reservation) bool { return r == nil })
	return &o
}

func (x *Index) setNow(now time.Time) {
	x.now, x.o.Now = now, now
	for _, r := range x.reports {
		r.fresh = r.Fresh(now)
	}
	x.agents = [2]*nodeSet{}
	clear(x.nodeSets)
	maps.DeleteFunc(x.youngPods, func(p *podstate.Pod, _ bool) bool { return !x.ageMatters(p) })
}

// setPod reports whether all must be built again.
func (x *Index) setPod(name types.NamespacedName, p *podstate.Pod) (rebuild bool) {
	if number, ok := x.podNumber(name.Namespace, name.Name); ok {
		rebuild = x.removePod(number)
	}
	if p != nil {
		rebuild = x.addPod(p) || rebuild
	}
	return rebuild
}

func (x *Index) removePod(number uint32) (rebuild bool) {
	p := x.pods[number]
	x.byName.remove(x.name(p.Namespace, p.Name), number)
	x.whereaboutsAddresses(p, func(addr netip.Addr, _ *ippool.NAD) { x.podsByAddress.remove(x.address(addr), number) })
	delete(x.youngPods, p)
	x.pods[number] = nil
	x.freePodNumbers = append(x.freePodNumbers, number)
	return x.removeFromNode(p.Node)
}

// setPool reports whether all must be built again.
func (x *Index) setPool(name types.NamespacedName, p *ippool.Pool) (rebuild bool) {
	ref := name.String()
	at := sort.Search(len(x.pools), func(i int) bool { return x.pools[i].ref >= ref })
	if at == len(x.pools) || x.pools[at].ref != ref {
		if p != nil {
			x.pools = slices.Insert(slices.Clone(x.pools), at, &pool{Pool: p, ref: ref})
		}
		return p != nil
	}
	old := x.pools[at]
	if p == nil {
		x.pools = slices.Delete(slices.Clone(x.pools), at, at+1)
		return true
	}
	if p.Range != old.Range || p.RangeText != old.RangeText || (p.Problem == "") != (old.Problem == "") {
		x.pools[at] = &pool{Pool: p, ref: ref}
		return true
	}
	q := newPool(p, old.networks)
	q.carriedAs, q.slice = old.carriedAs, old.slice
	x.pools[at] = q
	same := func(r *pool) bool { return r == old }
	if alike := x.ranges[p.Range.Prefix()]; p.Problem == "" {
		alike[slices.IndexFunc(alike, same)] = q
	}
	if i := slices.IndexFunc(x.ambiguousPools, same); i >= 0 {
		x.ambiguousPools[i] = q
	}
	for i := range old.Allocations {
		a := &old.Allocations[i]
		if a.Address.IsValid() && !q.taken.has(a.Offset) {
			x.maybeUnrecorded = append(x.maybeUnrecorded, old.possibleAddresses(a)...)
		}
	}
	return false
}

// IndexReservations makes reservations be found by name.
func (x *Index) IndexReservations() {
	if x.byReservation.first != nil {
		return
	}
	x.reservations = slices.Clone(x.reservations)
	x.byReservation = newLookup(len(x.reservations))
	for i, r := range x.reservations {
		x.byReservation.add(x.name(r.Namespace, r.Name), uint32(i))
	}
}

func (x *Index) setReservation(name types.NamespacedName, r *ippool.Reservation) {
	hash := x.name(name.Namespace, name.Name)
	for _, number := range x.byReservation.all(hash) {
		if old := x.reservations[number]; old.Namespace == name.Namespace && old.Name == name.Name {
			x.byReservation.remove(hash, number)
			x.reservations[number] = nil
		}
	}
	if r != nil {
		x.byReservation.add(hash, uint32(len(x.reservations)))
		x.reservations = append(x.reservations, r)
	}
}

// JudgeAddresses gives verdicts to what is recorded of some addresses, on all the
// evidence there is. The cost grows with the addresses; the first time with the
// number of reservations. There are no findings in it, and Nodes are as they
// were when the index was built.
func (x *Index) JudgeAddresses(addresses []netip.Addr) *Judgement { return x.verdictsOn(addresses).out }

func (x *Index) verdictsOn(addresses []netip.Addr) *verdicts {
	x.IndexReservations()
	addresses = uniqueAddresses(slices.Clone(addresses))
	var entries []entry
	reservations := map[*ippool.Reservation]bool{}
	for _, addr := range addresses {
		entries = x.entriesFor(entries, addr)
		for _, p := range x.poolsAt(addr) {
			for _, network := range x.networksIn(p) {
				x.reservationsNamed(p.Namespace, ippool.ReservationName(network, addr), func(r *ippool.Reservation) { reservations[r] = true })
			}
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Or(cmp.Compare(a.pool.ref, b.pool.ref), cmp.Compare(a.at, b.at)) })
	entries = slices.CompactFunc(entries, func(a, b entry) bool { return a.Allocation == b.Allocation })
	w := x.newVerdicts(len(entries), len(reservations))
	items := make(map[*ippool.Allocation]*Item, len(entries))
	for _, e := range entries {
		a := e.Allocation
		items[a] = w.allocation(e.pool, a)
	}
	for _, r := range slices.SortedFunc(maps.Keys(reservations), byName) {
		w.reservation(r, x.readingsOf(w.readings[:0], r), func(e entry) *Item { return items[e.Allocation] })
	}
	return w
}

// networksIn are the networks that a pool may be of.
func (x *Index) networksIn(p *pool) []string {
	if p.networks != nil {
		return p.networks
	}
	names := []string{""}
	for n := range x.networksByNamespace {
		if n.namespace == p.Namespace {
			names = append(names, n.network)
		}
	}
	return sortedUnique(names)
}

func (x *Index) reservationsNamed(namespace, name string, f func(*ippool.Reservation)) {
	for number := range x.byReservation.each(x.name(namespace, name)) {
		if r := x.reservations[number]; r.Name == name && r.Namespace == namespace {
			f(r)
		}
	}
}
