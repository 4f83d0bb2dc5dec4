package judge

import (
	"cmp"
	"net/netip"
	"slices"
	"sort"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// pool is a pool with what its entries are found by.
type pool struct {
	*ippool.Pool
	ref      string
	networks []string        // that its name admits; nil admits any
	slice    []string        // see sliceNodes
	network  *string         // see networkOf
	usedKeys map[uint64]bool // keys that have an entry, readable or not
	// owners are the container IDs and podrefs of all entries, nil if the range is supported. In an unsupported one an
	// entry may stand for any address.
	owners    map[string]bool
	isMissing bool // the pool does not exist, see missingPool
	// mayBeOfAny: nodes or definitions are unknown, so the pool may be the slice of any node and network. Its name does
	// not rule out a carrier on another network then.
	mayBeOfAny bool
}

// entry is an entry of a pool.
type entry struct {
	pool *pool
	*ippool.Allocation
}

// networkName is a network that a pool of a namespace may belong to.
type networkName struct{ namespace, network string }

func (x *Index) setPools(pools []*pool) {
	slices.SortStableFunc(pools, func(a, b *pool) int { return cmp.Compare(a.ref, b.ref) })
	x.pools, x.ranges, x.lengths = pools, make(map[netip.Prefix][]*pool, len(pools)), nil
	x.networksByNamespace = map[networkName]bool{}
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
	q.mayBeOfAny = !slices.Equal(networks, []string{""}) && !(x.hasNodes && x.o.NADs.IsKnown())
	if p.Problem != "" {
		return q
	}
	q.slice, q.usedKeys = x.sliceNodes(q), make(map[uint64]bool, len(p.Allocations))
	q.network = x.networkOf(q)
	if p.Unsupported != "" {
		q.owners = map[string]bool{}
	}
	for i := range p.Allocations {
		a := &p.Allocations[i]
		if q.owners != nil {
			q.owners[a.ContainerID], q.owners[a.PodRef] = true, true
		}
		if a.Address.IsValid() {
			q.usedKeys[a.Offset] = true
		} else if k, err := ippool.ParseKey(a.Key); err == nil {
			q.usedKeys[k] = true
		}
	}
	return q
}

// networksOf are the network names that a pool's name admits. If a definition cuts the range into slices, they include
// that of a slice whose node is gone.
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

// sliceNodes are the nodes whose slice a pool is, by a readable definition with slices of that size. They include one
// whose Node object is missing. The pool's name alone proves nothing. If the pool may be all of a range, sliceNodes is
// empty.
func (x *Index) sliceNodes(p *pool) (found []string) {
	isWhole := false
	x.definedFor(p.Pool, func(n ippool.Network) {
		if node, ok := n.SliceOf(p.Pool); ok && n.SliceBits == p.Range.Prefix().Bits() {
			found = append(found, node)
		}
		isWhole = isWhole || !n.Slices && n.Maps(p.Pool, p.networks)
	})
	if isWhole {
		return nil
	}
	return sortedUnique(found)
}

// mayBeSliceOf are the nodes whose slice a pool may be: by readable definitions, and by the pool's name, since another
// definition may be missing, broken or edited. There are none if definitions say only that the pool is all of a range.
// A node may have a report without a Node object.
func (x *Index) mayBeSliceOf(p *pool) []string {
	isDefined := false
	x.definedFor(p.Pool, func(n ippool.Network) { isDefined = isDefined || n.Maps(p.Pool, p.networks) })
	if len(p.slice) == 0 && isDefined && x.hasNodes {
		return nil
	}
	return sortedUnique(slices.Concat(p.slice, p.SliceNodes(x.namedNodes)))
}

// networkOf is the network of a pool: the only one that its name admits, or that of the only definition that uses it. A
// slice of a node that exists counts before one of a node that may be none. So does the whole range of a definition, if
// the pool's name has no node that exists. networkOf is nil if neither says it.
func (x *Index) networkOf(p *pool) *string {
	names := p.networks
	if len(names) > 1 {
		namesNode := len(p.SliceNodes(x.nodeNames)) > 0
		var known, unknown []string
		x.definedFor(p.Pool, func(n ippool.Network) {
			switch node, ok := n.SliceOf(p.Pool); {
			case !n.Slices && !namesNode && n.Maps(p.Pool, nil) && p.Name == ippool.PoolName(n.Name, p.Range.Prefix()):
				known = append(known, n.Name)
			case !ok, !slices.Contains(p.slice, node), n.SliceBits != p.Range.Prefix().Bits():
			case x.nodeNames[node]:
				known = append(known, n.Name)
			default:
				unknown = append(unknown, n.Name)
			}
		})
		if names = sortedUnique(known); len(names) == 0 {
			names = sortedUnique(unknown)
		}
	}
	if len(names) != 1 {
		return nil
	}
	return &names[0]
}

func (x *Index) poolNamed(ref string) *pool {
	at, found := sort.Find(len(x.pools), func(i int) int { return cmp.Compare(ref, x.pools[i].ref) })
	if !found {
		return nil
	}
	return x.pools[at]
}

// poolsAt are the readable pools whose range contains an address, ordered by name.
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

// entriesFor are all entries for an address, including those with a Problem, in pools of supported ranges. See
// unsupportedWith for the others.
func (x *Index) entriesFor(addr netip.Addr) (found []entry) {
	for _, p := range x.poolsAt(addr) {
		if p.Unsupported == "" {
			found = append(found, p.entriesAt(addr)...)
		}
	}
	return found
}

// entriesAt are the entries of a pool whose key gives an address.
func (p *pool) entriesAt(addr netip.Addr) (found []entry) {
	all := p.Allocations
	first := sort.Search(len(all), func(i int) bool { return all[i].Address.Compare(addr) >= 0 })
	for i := first; i < len(all) && all[i].Address == addr; i++ {
		found = append(found, entry{p, &all[i]})
	}
	return found
}

// unsupportedWith are the pools of unsupported ranges that contain an address and have an entry with an owner, which is
// a container ID or a podref. The entry may stand for the address.
func (x *Index) unsupportedWith(owner string, addr netip.Addr) (found []*pool) {
	for _, p := range x.poolsAt(addr) {
		if p.owners[owner] {
			found = append(found, p)
		}
	}
	return found
}

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

// isOfNetwork reports whether a pool may belong to a network, by the pool's name.
func (p *pool) isOfNetwork(network string) bool {
	return p.networks == nil || slices.Contains(p.networks, network)
}

// mayShareNetwork reports whether two pools may belong to one network, by their names.
func (p *pool) mayShareNetwork(other *pool) bool {
	return p.networks == nil || slices.ContainsFunc(p.networks, other.isOfNetwork)
}

// isOfRange reports whether a range of a CNI cache is the pool's, or one that the pool may be a slice of.
func (x *Index) isOfRange(p *pool, text string) bool {
	r, err := ippool.ParseConfiguredRange(text)
	own := p.Range.Prefix()
	return err == nil && (r == own || len(p.SliceNodes(x.nodeNames)) > 0 && r.Contains(own.Addr()))
}

func (p *pool) isMapped(nad *ippool.NAD) bool {
	return slices.ContainsFunc(nad.Networks, func(n ippool.Network) bool { return n.Maps(p.Pool, p.networks) })
}

// hasNoEntryFor reports whether a pool lacks an entry for an address of its range. What an existing pool of an
// unsupported range lacks is unknown.
func (p *pool) hasNoEntryFor(addr netip.Addr) bool {
	k, ok := p.Range.Key(addr)
	return ok && !p.usedKeys[k] && (p.Unsupported == "" || p.isMissing)
}

// nameReading is one way to read a reservation's name.
type nameReading struct {
	network string
	address netip.Addr
}

// readingsOf are the ways to read a reservation's name, ordered by network. A readable pool of the network must have
// the address in its range.
func (x *Index) readingsOf(r *ippool.Reservation) (found []nameReading) {
	read := func(network string) {
		addr, ok := ippool.ReservedAddress(r.Name, network)
		isPossible := func(p *pool) bool { return p.Namespace == r.Namespace && p.isOfNetwork(network) }
		if ok && slices.ContainsFunc(x.poolsAt(addr), isPossible) {
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

// unsupportedPoolOf is a pool of an unsupported range that may have the allocation of a reservation, nil for none. One
// that is alone may be of any such pool that contains its address. Another one may be if the pool has its podref.
func (x *Index) unsupportedPoolOf(r *ippool.Reservation, readings []nameReading, isAlone bool) *pool {
	for _, read := range readings {
		for _, p := range x.poolsAt(read.address) {
			if p.Unsupported != "" && p.Namespace == r.Namespace && p.isOfNetwork(read.network) &&
				(isAlone || p.owners[r.PodRef]) {
				return p
			}
		}
	}
	return nil
}

// records reports whether a network's addresses are written into a pool: the network is the pool's, or if that is not
// known, may be.
func (p *pool) records(network string) bool {
	if p.network != nil {
		return network == *p.network
	}
	return p.isOfNetwork(network)
}

// size is how many addresses whereabouts can assign from a pool; 0 for too many to count.
func (p *pool) size() int {
	prefix := p.Range.Prefix()
	host := prefix.Addr().BitLen() - prefix.Bits()
	switch {
	case host >= 31:
		return 0
	case host < 2:
		return 1 << host
	}
	return 1<<host - 2
}
