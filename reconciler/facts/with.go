package facts

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

// Live is what a live read or a write found since the observation. In the maps nil means that the object is gone.
type Live struct {
	Now          time.Time // the API server's time of the read; zero if unknown
	Restored     string    // see Observation
	Versions     []Version // of the pools: see Observation
	Pools        map[types.NamespacedName]*ippool.Pool
	Reservations map[types.NamespacedName]*ippool.Reservation
	Pods         map[types.NamespacedName]*podstate.Pod
	IPAMClaims   map[types.NamespacedName]*ippool.Claim
}

// overlay replaces parts of the first observation. Nil means that the object is gone.
type overlay struct {
	pods          map[types.NamespacedName]*podstate.Pod
	podsByAddress map[netip.Addr][]PodAddress // see changedCarriers
	reservations  map[types.NamespacedName]*ippool.Reservation
	claims        map[types.NamespacedName]*ippool.Claim
}

// With are new facts in which the objects of a live read replace those of f. The cost grows with these objects and
// with the number of pools and reports. They are rebuilt only if ranges or, without Node objects, nodes have
// changed.
func (f *Facts) With(live *Live) *Facts {
	o, y := *f.o, *f
	o.Restored = cmp.Or(live.Restored, o.Restored)
	if live.Now.After(o.Now) { // two API servers may have two clocks
		o.Now = live.Now
	}
	y.o, y.now = &o, o.Now
	y.live.pods, y.live.reservations = mergeMaps(f.live.pods, live.Pods), mergeMaps(f.live.reservations, live.Reservations)
	o.Pools = withPools(o.Pools, live.Pools)
	y.live.claims = mergeMaps(f.live.claims, live.IPAMClaims)
	if f.needsRebuild(live) {
		return y.WithDoubts(f.doubts)
	}
	if len(live.Pools) > 0 {
		y.setPools(f.poolsWith(live.Pools))
	}
	y.live.podsByAddress = y.changedCarriers()
	y.unreadSandboxes, y.unreadPods = y.findUnread(), y.findUnreadPods(y.podsInOrder())
	return &y
}

// WithDoubts are the facts of the same objects, with other doubts about them.
func (f *Facts) WithDoubts(doubts Doubts) *Facts {
	z := New(f.Observation(), doubts, f.policy)
	z.live.claims = f.live.claims
	return z
}

// poolsWith are the pools, of which live ones of the same range replace others.
func (f *Facts) poolsWith(live map[types.NamespacedName]*ippool.Pool) []*Pool {
	pools := slices.Clone(f.pools)
	for i, old := range pools {
		if p := live[old.NamespacedName]; p != nil {
			pools[i] = f.newPool(p, old.Admitted)
		}
	}
	return pools
}

func mergeMaps[T any](before, more map[types.NamespacedName]T) map[types.NamespacedName]T {
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
		_, changed := live[p.NamespacedName]
		return changed
	})
	for _, p := range live {
		if p != nil {
			all = append(all, p)
		}
	}
	return all
}

// needsRebuild reports whether live objects change what the overlay does not replace.
func (f *Facts) needsRebuild(live *Live) bool {
	for name, p := range live.Pools {
		old := f.PoolNamed(name.String())
		isOther := p != nil && old != nil &&
			(p.Range != old.Range || p.RangeText != old.RangeText || p.Problem != old.Problem)
		if isOther || (p == nil) != (old == nil) {
			return true
		}
	}
	if len(f.nodes) > 0 {
		return false
	}
	if f.readNodes.IsKnown() && len(live.Pods) > 0 { // a list without a Node is complete only if no pod is bound
		return true
	}
	for name, p := range live.Pods { // only pods and reports name nodes
		old := f.Pod(name.Namespace, name.Name)
		isNew := p != nil && p.Node != "" && !f.nodeNames[p.Node]
		if isNew || old != nil && old.Node != "" && f.byNode[old.Node] == nil {
			return true
		}
	}
	return false
}

// Base is the observation, with live objects except pods and reservations. It costs nothing.
func (f *Facts) Base() *Observation { return f.o }

// Observation is the observation with all live objects.
func (f *Facts) Observation() *Observation {
	o := *f.o
	o.Nodes = f.readNodes
	if len(f.live.pods) > 0 {
		o.Pods = mergeMaps(o.Pods, f.live.pods)
		maps.DeleteFunc(o.Pods, func(_ types.NamespacedName, p *podstate.Pod) bool { return p == nil })
	}
	if len(f.live.reservations) > 0 && o.Reservations.IsKnown() {
		all := mergeMaps(f.reservations, f.live.reservations)
		maps.DeleteFunc(all, func(_ types.NamespacedName, r *ippool.Reservation) bool { return r == nil })
		o.Reservations = Complete(slices.SortedFunc(maps.Values(all), CompareReservations), o.Reservations.Revision())
	}
	return &o
}
