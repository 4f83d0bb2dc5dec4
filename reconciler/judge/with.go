package judge

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// Live is what a live read found, or a write did, since everything was observed.
// In the maps nil means that there is no such object any more.
type Live struct {
	// Now is the API server's time of the read; zero if it did not tell.
	Now time.Time
	// Restored says what showed that etcd was restored, "" if nothing did.
	Restored string
	// Pools are those that have changed, or are gone.
	Pools        map[types.NamespacedName]*ippool.Pool
	Reservations map[types.NamespacedName]*ippool.Reservation
	Pods         map[types.NamespacedName]*podstate.Pod
}

// overlay is what an index has in the place of what was observed first. Nil means gone.
type overlay struct {
	pods          map[types.NamespacedName]*podstate.Pod
	podsByAddress map[netip.Addr][]podAddress
	carriedAs     map[*pool]byKey // of podsByAddress, for pools whose keys are ambiguous
	reservations  map[types.NamespacedName]*ippool.Reservation
}

// With is the index with what a live read found in the place of what was there; x stays as it is. The cost grows with
// what was found since the observation, with the number of pools and of reports, and with the entries of the pools in
// it. Only what changes ranges, or the nodes where no Node object is known, makes it build all of the index again.
func (x *Index) With(live *Live) *Index {
	o, y := *x.o, *x
	o.Restored = cmp.Or(live.Restored, o.Restored)
	if live.Now.After(o.Now) { // two API servers may have two clocks
		o.Now = live.Now
	}
	y.o, y.now = &o, o.Now
	y.nodeSets, y.freshSince = map[nodeSetKey]*nodeSet{}, findFreshSince(&o)
	y.live.pods, y.live.reservations = merged(x.live.pods, live.Pods), merged(x.live.reservations, live.Reservations)
	o.Pools = withPools(o.Pools, live.Pools)
	if x.mustBuildAgain(live) {
		return NewIndex(y.Observation(), x.past, x.policy)
	}
	if len(live.Pools) > 0 {
		y.setPools(x.poolsWith(live.Pools))
	}
	y.live.podsByAddress = y.carriedBy(maps.Values(y.live.pods), len(y.live.pods))
	y.live.carriedAs = map[*pool]byKey{}
	for _, p := range y.pools {
		if p.keyed == nil {
			continue
		}
		y.live.carriedAs[p] = byKey{}
		for addr := range y.live.podsByAddress {
			y.live.carriedAs[p].add(p.Range, addr)
		}
	}
	y.unread = y.findUnread()
	return &y
}

// poolsWith are the pools with those that were read in the place of those that were there. They are of the same ranges.
func (x *Index) poolsWith(live map[types.NamespacedName]*ippool.Pool) []*pool {
	pools := slices.Clone(x.pools)
	for i, old := range pools {
		if p := live[types.NamespacedName{Namespace: old.Namespace, Name: old.Name}]; p != nil {
			pools[i] = x.newPool(p, old.networks)
			pools[i].carriedAs = old.carriedAs
		}
	}
	return pools
}

func merged[T any](before, more map[types.NamespacedName]T) map[types.NamespacedName]T {
	all := make(map[types.NamespacedName]T, len(before)+len(more))
	maps.Copy(all, before)
	maps.Copy(all, more)
	return all
}

func withPools(pools []*ippool.Pool, live map[types.NamespacedName]*ippool.Pool) []*ippool.Pool {
	if len(live) == 0 {
		return pools
	}
	all := slices.DeleteFunc(slices.Clone(pools), func(p *ippool.Pool) bool {
		_, changed := live[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}]
		return changed
	})
	for _, p := range live {
		if p != nil {
			all = append(all, p)
		}
	}
	return all
}

// mustBuildAgain reports whether what was found changes what is not looked up in the overlay.
func (x *Index) mustBuildAgain(live *Live) bool {
	for name, p := range live.Pools {
		old := x.poolNamed(name.String())
		if p == nil && old != nil || p != nil && (old == nil || p.Range != old.Range || p.RangeText != old.RangeText || p.Problem != old.Problem) {
			return true
		}
	}
	if len(x.o.Nodes) > 0 {
		return false
	}
	for name, p := range live.Pods { // the nodes that pods name are all that are known
		old := x.pod(name.Namespace, name.Name)
		if p != nil && p.Node != "" && !x.nodeNames[p.Node] || old != nil && old.Node != "" && x.byNode[old.Node] == nil {
			return true
		}
	}
	return false
}

// Base is what the index was built from, with what live reads found but for pods and reservations. It costs nothing.
func (x *Index) Base() *Observation { return x.o }

// Observation is what the index stands for.
func (x *Index) Observation() *Observation {
	o := *x.o
	if len(x.live.pods) > 0 {
		o.Pods = merged(o.Pods, x.live.pods)
		maps.DeleteFunc(o.Pods, func(_ types.NamespacedName, p *podstate.Pod) bool { return p == nil })
	}
	if len(x.live.reservations) > 0 {
		all := merged(x.reservations, x.live.reservations)
		maps.DeleteFunc(all, func(_ types.NamespacedName, r *ippool.Reservation) bool { return r == nil })
		o.Reservations = slices.SortedFunc(maps.Values(all), byName)
	}
	return &o
}

// ReservationsOf are the names of all reservations that may be an allocation's: those seen, and those that may have been
// made since.
func (x *Index) ReservationsOf(it *Item) (names []types.NamespacedName) {
	for _, r := range it.Related() {
		names = append(names, types.NamespacedName{Namespace: r.Reservation.Namespace, Name: r.Reservation.Name})
	}
	for _, network := range it.Pool.Networks(x.nodeNames) {
		names = append(names, types.NamespacedName{Namespace: it.Pool.Namespace, Name: ippool.ReservationName(network, it.Address())})
	}
	return names
}

// HasNoEntry reports whether an allocation's pool was read and has nothing under its key.
func (x *Index) HasNoEntry(it *Item) bool {
	p := x.poolNamed(it.Object())
	return p != nil && p.Problem == "" && p.Find(it.Key()) == nil
}

// IsUnreadable reports whether an allocation's pool, or what is under its key, cannot be read: then nothing tells whose
// it is.
func (x *Index) IsUnreadable(it *Item) bool {
	p := x.poolNamed(it.Object())
	if p == nil {
		return false
	}
	a := p.Find(it.Key())
	return p.Problem != "" || a != nil && a.Problem != ""
}
