package judge

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"sort"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// pool is a pool with what its entries are looked up by.
type pool struct {
	*ippool.Pool
	ref      string
	networks []string        // that its name admits; nil admits any
	slice    []string        // see sliceNodes
	taken    map[uint64]bool // keys that have an entry, readable or not
	// Only where keys are ambiguous may an entry stand for an address that does not read back from its key, so
	// that every address that is carried is looked up by every key it may have.
	keyed     map[uint64][]*ippool.Allocation // by offset; nil where keys are unambiguous
	carriedAs byKey
	missing   bool // it does not exist, see missingPool
}

// entry is an entry that may stand for an address.
type entry struct {
	pool *pool
	*ippool.Allocation
}

// networkName is a network that a pool of a namespace may be of.
type networkName struct{ namespace, network string }

// setPools indexes pools.
func (x *Index) setPools(pools []*pool) {
	slices.SortStableFunc(pools, func(a, b *pool) int { return cmp.Compare(a.ref, b.ref) })
	x.pools, x.ranges, x.lengths, x.networksByNamespace = pools, make(map[netip.Prefix][]*pool, len(pools)), nil, map[networkName]bool{}
	for _, p := range pools {
		for _, n := range p.networks {
			x.networksByNamespace[networkName{p.Namespace, n}] = true
		}
		if at := p.Range.Prefix(); p.Problem == "" {
			x.ranges[at], x.lengths = append(x.ranges[at], p), append(x.lengths, at.Bits())
		}
	}
	x.lengths = sortedUnique(x.lengths)
}

func (x *Index) newPool(p *ippool.Pool, networks []string) *pool {
	q := &pool{Pool: p, ref: p.Ref(), networks: networks}
	if p.Problem != "" {
		return q
	}
	q.slice, q.taken = x.sliceNodes(q), make(map[uint64]bool, len(p.Allocations))
	if p.Range.AmbiguousKeys() {
		q.keyed, q.carriedAs = map[uint64][]*ippool.Allocation{}, byKey{}
	}
	for i := range p.Allocations {
		a := &p.Allocations[i]
		if !a.Address.IsValid() {
			if k, err := ippool.ParseKey(a.Key); err == nil {
				q.taken[k] = true
			}
			continue
		}
		q.taken[a.Offset] = true
		if q.keyed != nil {
			q.keyed[a.Offset] = append(q.keyed[a.Offset], a)
		}
	}
	return q
}

// byKey are addresses by the keys that they may have.
type byKey map[uint64]map[netip.Addr]bool

func (m byKey) add(r ippool.Range, addr netip.Addr) {
	for _, k := range r.Keys(addr) {
		if m[k] == nil {
			m[k] = map[netip.Addr]bool{}
		}
		m[k][addr] = true
	}
}

// networksOf are the network names that a pool's name admits: also, where a definition cuts the pool's range into
// slices, that of a slice whose node is gone.
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

// sliceNodes are the nodes whose slice a pool is by a definition that can be read and cuts its range into slices of
// that size. A name alone proves nothing, and where it may as well be another network's there are none.
func (x *Index) sliceNodes(p *pool) (found []string) {
	isWhole := false // by a definition the pool is all of a range
	x.definedFor(p.Pool, func(n ippool.Network) {
		if node, ok := n.SliceOf(p.Pool); ok && n.SliceBits == p.Range.Prefix().Bits() && x.nodeNames[node] {
			found = append(found, node)
		}
		isWhole = isWhole || !n.Slices && n.Maps(p.Pool, p.networks)
	})
	if isWhole {
		return nil
	}
	return sortedUnique(found)
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
func (x *Index) poolsAt(addr netip.Addr) (found []*pool) {
	for _, bits := range x.lengths {
		at, err := addr.Prefix(bits)
		switch more := x.ranges[at]; {
		case err != nil:
		case found == nil:
			found = more
		case len(more) > 0:
			found = slices.Concat(found, more)
			slices.SortStableFunc(found, func(a, b *pool) int { return cmp.Compare(a.ref, b.ref) })
		}
	}
	return found
}

// entriesFor are all entries that may stand for an address, also those that cannot be judged for another Problem.
func (x *Index) entriesFor(addr netip.Addr) (found []entry) {
	for _, p := range x.poolsAt(addr) {
		found = append(found, p.entriesFor(addr)...)
	}
	return found
}

func (p *pool) entriesFor(addr netip.Addr) (found []entry) {
	all := p.Allocations
	first := sort.Search(len(all), func(i int) bool { return all[i].Address.Compare(addr) >= 0 })
	for i := first; i < len(all) && all[i].Address == addr; i++ {
		found = append(found, entry{p, &all[i]})
	}
	if p.keyed == nil {
		return found
	}
	for _, k := range p.Range.Keys(addr) {
		for _, a := range p.keyed[k] {
			if a.Address != addr {
				found = append(found, entry{p, a})
			}
		}
	}
	return found
}

// possibleAddresses are all addresses that an entry may stand for and that somebody carries, the one that reads back
// from its key first.
func (x *Index) possibleAddresses(p *pool, a *ippool.Allocation) []netip.Addr {
	if p.keyed == nil {
		return []netip.Addr{a.Address}
	}
	others := slices.Collect(maps.Keys(p.carriedAs[a.Offset]))
	others = slices.AppendSeq(others, maps.Keys(x.live.carriedAs[p][a.Offset]))
	others = slices.DeleteFunc(others, func(addr netip.Addr) bool { return addr == a.Address })
	return append([]netip.Addr{a.Address}, uniqueAddresses(others)...)
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

// isOfNetwork reports whether a pool may be of a network, by name. A pool whose name admits any may be of any.
func (p *pool) isOfNetwork(network string) bool {
	return p.networks == nil || slices.Contains(p.networks, network)
}

// isOfRange reports whether a cached range is the pool's, or a range that the pool is a slice of.
func (x *Index) isOfRange(p *pool, text string) bool {
	r, err := ippool.ParseConfiguredRange(text)
	own := p.Range.Prefix()
	return err == nil && (r == own || len(p.SliceNodes(x.nodeNames)) > 0 && r.Contains(own.Addr()))
}

// isMapped reports whether a definition is of the pool.
func (p *pool) isMapped(nad *ippool.NAD) bool {
	return slices.ContainsFunc(nad.Networks, func(n ippool.Network) bool { return n.Maps(p.Pool, p.networks) })
}

// hasNoEntryFor reports whether an address of the pool's range has no entry there.
func (p *pool) hasNoEntryFor(addr netip.Addr) bool {
	if k, ok := p.Range.Key(addr); !ok || p.taken[k] {
		return false
	}
	return p.keyed == nil || !slices.ContainsFunc(p.Range.Keys(addr), func(k uint64) bool { return p.taken[k] })
}

// nameReading is one way to read a reservation's name.
type nameReading struct {
	network string
	address netip.Addr
}

// readingsOf are the ways to read a reservation's name that a readable pool allows for, ordered by network: the pool
// may be of the network, and has the address in its range.
func (x *Index) readingsOf(r *ippool.Reservation) (found []nameReading) {
	read := func(network string) {
		addr, ok := ippool.ReservedAddress(r.Name, network)
		if ok && slices.ContainsFunc(x.poolsAt(addr), func(p *pool) bool { return p.Namespace == r.Namespace && p.isOfNetwork(network) }) {
			found = append(found, nameReading{network, addr})
		}
	}
	read("")
	for i, c := range r.Name {
		if c == '-' && i > 0 && x.networksByNamespace[networkName{r.Namespace, r.Name[:i]}] {
			read(r.Name[:i])
		}
	}
	return found
}
