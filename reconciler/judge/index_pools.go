package judge

import (
	"cmp"
	"net/netip"
	"slices"
	"sort"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// pool is a pool with what its entries are looked up by.
type pool struct {
	*ippool.Pool
	ref      string
	networks []string        // that its name admits; nil admits any
	slice    []string        // see sliceNodes
	taken    map[uint64]bool // keys that have an entry, readable or not
	// Only where keys are ambiguous may an entry stand for an address that does
	// not read back from its key, so every address that is carried is looked up
	// by every key it may have.
	keyed     map[uint64][]int // by offset: numbers of entries; nil where keys are unambiguous
	carriedAs map[uint64]map[netip.Addr]bool
	missing   bool // it is not there, see missingPool
}

// entry is an entry that may stand for an address.
type entry struct {
	pool *pool
	at   int // in the pool
	*ippool.Allocation
}

// networkName is a network that a pool of a namespace may be of.
type networkName struct{ namespace, network string }

// addPools indexes the pools of the observation. Those that are indexed already stay as they are, and
// of ranges that are what is carried in them.
func (x *Index) addPools() {
	have := make(map[string]*pool, len(x.pools))
	for _, p := range x.pools {
		have[p.ref] = p
	}
	x.pools, x.ambiguousPools, x.lengths = make([]*pool, 0, len(x.o.Pools)), nil, [2][]int{}
	x.ranges, x.networksByNamespace = make(map[netip.Prefix][]*pool, len(x.o.Pools)), map[networkName]bool{}
	for _, p := range x.o.Pools {
		q := have[p.Ref()]
		if q == nil {
			q = x.newPool(p, x.networksOf(p))
		} else if carriedAs := q.carriedAs; q.Pool != p {
			q = x.newPool(p, q.networks)
			q.carriedAs = carriedAs
		}
		x.pools = append(x.pools, q)
		for _, n := range q.networks {
			x.networksByNamespace[networkName{p.Namespace, n}] = true
		}
	}
	slices.SortStableFunc(x.pools, func(a, b *pool) int { return cmp.Compare(a.ref, b.ref) })
	for _, p := range x.pools {
		if p.Problem != "" {
			continue
		}
		at := p.Range.Prefix()
		family := &x.lengths[0]
		if at.Addr().Is6() {
			family = &x.lengths[1]
		}
		if !slices.Contains(*family, at.Bits()) {
			*family = append(*family, at.Bits())
		}
		x.ranges[at] = append(x.ranges[at], p)
		if p.keyed != nil {
			x.ambiguousPools = append(x.ambiguousPools, p)
		}
	}
}

func (x *Index) newPool(p *ippool.Pool, networks []string) *pool {
	q := &pool{Pool: p, ref: p.Ref(), networks: networks}
	if p.Problem != "" {
		return q
	}
	q.taken, q.slice = keysOf(p), x.sliceNodes(q)
	if p.Range.AmbiguousKeys() {
		q.keyed, q.carriedAs = map[uint64][]int{}, map[uint64]map[netip.Addr]bool{}
		for i := range p.Allocations {
			if a := &p.Allocations[i]; a.Address.IsValid() {
				q.keyed[a.Offset] = append(q.keyed[a.Offset], i)
			}
		}
	}
	return q
}

// carries notes an address that somebody carries, in a pool with ambiguous keys.
func (p *pool) carries(addr netip.Addr) {
	for _, k := range p.Range.Keys(addr) {
		if p.carriedAs[k] == nil {
			p.carriedAs[k] = map[netip.Addr]bool{}
		}
		p.carriedAs[k][addr] = true
	}
}

// networksOf are the network names that a pool's name admits: also, where a
// definition cuts the pool's range into slices, that of a slice whose node is gone.
func (x *Index) networksOf(p *ippool.Pool) []string {
	names := p.Networks(x.nodeNames)
	if names == nil {
		return nil
	}
	x.definedFor(p, func(n ippool.Network) {
		if _, ok := n.SliceOf(p); ok {
			names = append(names, n.Name)
		}
	})
	return sortedUnique(names)
}

// indexed is a pool as it is in the index, or if that has another by now, as it
// would be.
func (x *Index) indexed(p *ippool.Pool) *pool {
	for _, q := range x.ranges[p.Range.Prefix()] {
		if q.Pool == p {
			return q
		}
	}
	return x.newPool(p, x.networksOf(p))
}

// poolNamed is the pool "<namespace>/<name>", nil if there is none.
func (x *Index) poolNamed(ref string) *pool {
	at, found := sort.Find(len(x.pools), func(i int) int { return cmp.Compare(ref, x.pools[i].ref) })
	if !found {
		return nil
	}
	return x.pools[at]
}

// poolsAt are the readable pools that have an address in their range, by name.
func (x *Index) poolsAt(addr netip.Addr) []*pool {
	var found []*pool
	family := &x.lengths[0]
	if addr.Is6() {
		family = &x.lengths[1]
	}
	for _, bits := range *family {
		at, err := addr.Prefix(bits)
		if err != nil {
			continue
		}
		switch more := x.ranges[at]; {
		case len(found) == 0:
			found = more
		case len(more) > 0:
			found = slices.Concat(found, more)
			slices.SortStableFunc(found, func(a, b *pool) int { return cmp.Compare(a.ref, b.ref) })
		}
	}
	return found
}

func (x *Index) inRange(addr netip.Addr) bool { return len(x.poolsAt(addr)) > 0 }

// firstNumber is the number of the first entry at or after an address.
func (p *pool) firstNumber(addr netip.Addr) int {
	return sort.Search(len(p.Allocations), func(i int) bool { return p.Allocations[i].Address.Compare(addr) >= 0 })
}

// entriesFor are all entries that may stand for an address, also those that
// cannot be judged for another Problem.
func (x *Index) entriesFor(into []entry, addr netip.Addr) []entry {
	for _, p := range x.poolsAt(addr) {
		into = p.entriesFor(into, addr)
	}
	return into
}

func (p *pool) entriesFor(into []entry, addr netip.Addr) []entry {
	all := p.Allocations
	for i := p.firstNumber(addr); i < len(all) && all[i].Address == addr; i++ {
		into = append(into, entry{p, i, &all[i]})
	}
	if p.keyed == nil {
		return into
	}
	for _, k := range p.Range.Keys(addr) {
		for _, i := range p.keyed[k] {
			if all[i].Address != addr {
				into = append(into, entry{p, i, &all[i]})
			}
		}
	}
	return into
}

// possibleAddresses are all addresses that an entry may stand for and that somebody carries,
// the one that reads back from its key first.
func (x *Index) possibleAddresses(p *pool, a *ippool.Allocation) []netip.Addr {
	all := []netip.Addr{a.Address}
	if p.keyed == nil {
		return all
	}
	for addr := range p.carriedAs[a.Offset] {
		all = append(all, addr)
	}
	for addr := range x.live.podsByAddress {
		if p.Range.HasKey(addr, a.Offset) {
			all = append(all, addr)
		}
	}
	others := slices.DeleteFunc(all[1:], func(addr netip.Addr) bool { return addr == a.Address })
	return append(all[:1], uniqueAddresses(others)...)
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

// isOfNetwork reports whether a pool may be of a network, by name. A pool whose name says
// nothing may be of any.
func (p *pool) isOfNetwork(network string) bool {
	return p.networks == nil || slices.Contains(p.networks, network)
}

// mapped reports whether a definition is of the pool.
func (p *pool) mapped(nad *ippool.NAD) bool {
	return slices.ContainsFunc(nad.Networks, func(n ippool.Network) bool { return n.Maps(p.Pool, p.networks) })
}

// hasNoEntryFor reports whether an address of the pool's range has no entry there.
func (p *pool) hasNoEntryFor(addr netip.Addr) bool {
	if k, ok := p.Range.Key(addr); !ok || p.taken[k] {
		return false
	}
	return p.keyed == nil || !slices.ContainsFunc(p.Range.Keys(addr), func(k uint64) bool { return p.taken[k] })
}

// keysOf are the keys of a pool that have an entry, readable or not.
func keysOf(p *ippool.Pool) map[uint64]bool {
	s := make(map[uint64]bool, len(p.Allocations))
	for i := range p.Allocations {
		a := &p.Allocations[i]
		k := a.Offset
		if !a.Address.IsValid() {
			var err error
			if k, err = ippool.ParseKey(a.Key); err != nil {
				continue
			}
		}
		s[k] = true
	}
	return s
}

// nameReading is one way to read a reservation's name.
type nameReading struct {
	network string
	address netip.Addr
}

// readingsOf are the ways to read a reservation's name that a readable pool
// allows for: the pool may be of the network, and has the address in its range.
// They are ordered by network.
func (x *Index) readingsOf(r *ippool.Reservation) (into []nameReading) {
	read := func(network string) {
		addr, ok := ippool.ReservedAddress(r.Name, network)
		if ok && slices.ContainsFunc(x.poolsAt(addr), func(p *pool) bool { return p.Namespace == r.Namespace && p.isOfNetwork(network) }) {
			into = append(into, nameReading{network, addr})
		}
	}
	read("")
	for from := 0; ; {
		dash := strings.IndexByte(r.Name[from:], '-')
		if dash < 0 {
			return into
		}
		from += dash + 1
		if network := r.Name[:from-1]; network != "" && x.networksByNamespace[networkName{r.Namespace, network}] {
			read(network)
		}
	}
}
