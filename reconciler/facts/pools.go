package facts

import (
	"cmp"
	"math"
	"net/netip"
	"slices"
	"sort"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// Pool is a pool with what its entries are found by.
type Pool struct {
	*ippool.Pool
	ref      string
	Admitted []string        // that its name admits; nil admits any
	Slice    []string        // see sliceNodes
	Network  *string         // see networkOf
	usedKeys map[uint64]bool // keys that have an entry, readable or not
	// owners are the container IDs and podrefs of all entries, nil if the range is supported. In an unsupported one an
	// entry may stand for any address.
	Owners    map[string]bool
	IsMissing bool // the pool does not exist, see MissingPool
	// MayBeOfAny: nodes or definitions are unknown, so the pool may be the slice of any node and network. Its name does
	// not rule out a carrier on another network then.
	MayBeOfAny bool
}

// Ref is "<namespace>/<name>".
func (p *Pool) Ref() string { return p.ref }

// Entry is an entry of a pool.
type Entry struct {
	Pool *Pool
	*ippool.Allocation
}

// networkName is a network that a pool of a namespace may belong to.
type networkName struct{ namespace, network string }

func (f *Facts) setPools(pools []*Pool) {
	slices.SortStableFunc(pools, func(a, b *Pool) int { return cmp.Compare(a.ref, b.ref) })
	f.pools, f.ranges, f.lengths = pools, make(map[netip.Prefix][]*Pool, len(pools)), nil
	f.networksByNamespace = map[networkName]bool{}
	for _, p := range pools {
		for _, n := range p.Admitted {
			f.networksByNamespace[networkName{p.Namespace, n}] = true
		}
		if at := p.Range.Prefix(); p.Problem == "" {
			f.ranges[at], f.lengths = append(f.ranges[at], p), append(f.lengths, at.Bits())
		}
	}
	f.lengths = SortedUnique(f.lengths)
}

func (f *Facts) newPool(p *ippool.Pool, networks []string) *Pool {
	q := &Pool{Pool: p, ref: p.Ref(), Admitted: networks}
	q.MayBeOfAny = !slices.Equal(networks, []string{""}) && !(f.hasNodes && f.o.NADs.IsKnown())
	if p.Problem != "" {
		return q
	}
	q.Slice, q.usedKeys = f.sliceNodes(q), make(map[uint64]bool, len(p.Allocations))
	q.Network = f.networkOf(q)
	if p.Unsupported != "" {
		q.Owners = map[string]bool{}
	}
	for i := range p.Allocations {
		a := &p.Allocations[i]
		if q.Owners != nil {
			q.Owners[a.ContainerID], q.Owners[a.PodRef] = true, true
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
func (f *Facts) networksOf(p *ippool.Pool) []string {
	names := p.Networks(f.nodeNames)
	if names == nil {
		return nil
	}
	f.DefinedFor(p, func(n ippool.Network) {
		if _, ok := n.SliceOf(p); ok {
			names = append(names, n.Name)
		}
	})
	return SortedUnique(names)
}

// sliceNodes are the nodes whose slice a pool is, by a readable definition with slices of that size. They include one
// whose Node object is missing. The pool's name alone proves nothing. If the pool may be all of a range, sliceNodes is
// empty.
func (f *Facts) sliceNodes(p *Pool) (found []string) {
	isWhole := false
	f.DefinedFor(p.Pool, func(n ippool.Network) {
		if node, ok := n.SliceOf(p.Pool); ok && n.SliceBits == p.Range.Prefix().Bits() {
			found = append(found, node)
		}
		isWhole = isWhole || !n.Slices && n.Maps(p.Pool, p.Admitted)
	})
	if isWhole {
		return nil
	}
	return SortedUnique(found)
}

// MayBeSliceOf are the nodes whose slice a pool may be: by readable definitions, and by the pool's name, since another
// definition may be missing, broken or edited. There are none if definitions say only that the pool is all of a range.
// A node may have a report without a Node object.
func (f *Facts) MayBeSliceOf(p *Pool) []string {
	isWhole, sliced := false, []string(nil)
	f.DefinedFor(p.Pool, func(n ippool.Network) {
		if node, ok := n.SliceOf(p.Pool); ok {
			sliced = append(sliced, node)
		} else {
			isWhole = isWhole || n.Maps(p.Pool, p.Admitted)
		}
	})
	if len(sliced) == 0 && isWhole && f.hasNodes {
		return nil
	}
	return SortedUnique(slices.Concat(p.Slice, p.SliceNodes(f.namedNodes)))
}

// networkOf is the network of a pool: the only one that its name admits, or that of the only definition that uses it. A
// slice of a node that exists counts before one of a node that may be none. So does the whole range of a definition, if
// the pool's name has no node that exists. networkOf is nil if neither says it.
func (f *Facts) networkOf(p *Pool) *string {
	names := p.Admitted
	if len(names) > 1 {
		namesNode := len(p.SliceNodes(f.nodeNames)) > 0
		var known, unknown []string
		f.DefinedFor(p.Pool, func(n ippool.Network) {
			switch node, ok := n.SliceOf(p.Pool); {
			case !n.Slices && !namesNode && n.Maps(p.Pool, nil) && p.Name == ippool.PoolName(n.Name, p.Range.Prefix()):
				known = append(known, n.Name)
			case !ok, !slices.Contains(p.Slice, node), n.SliceBits != p.Range.Prefix().Bits():
			case f.nodeNames[node]:
				known = append(known, n.Name)
			default:
				unknown = append(unknown, n.Name)
			}
		})
		if names = SortedUnique(known); len(names) == 0 {
			names = SortedUnique(unknown)
		}
	}
	if len(names) != 1 {
		return nil
	}
	return &names[0]
}

// PoolNamed is a pool by "<namespace>/<name>", nil if it does not exist.
func (f *Facts) PoolNamed(ref string) *Pool {
	at, found := sort.Find(len(f.pools), func(i int) int { return cmp.Compare(ref, f.pools[i].ref) })
	if !found {
		return nil
	}
	return f.pools[at]
}

// PoolsAt are the readable pools whose range contains an address, ordered by name.
func (f *Facts) PoolsAt(addr netip.Addr) (found []*Pool) {
	for _, bits := range f.lengths {
		at, err := addr.Prefix(bits)
		switch more := f.ranges[at]; {
		case err != nil:
		case found == nil:
			found = more
		case len(more) > 0:
			found = slices.Concat(found, more)
			slices.SortStableFunc(found, func(a, b *Pool) int { return cmp.Compare(a.ref, b.ref) })
		}
	}
	return found
}

// EntriesFor are all entries for an address, including those with a Problem, in pools of supported ranges. See
// UnsupportedWith for the others.
func (f *Facts) EntriesFor(addr netip.Addr) (found []Entry) {
	for _, p := range f.PoolsAt(addr) {
		if p.Unsupported == "" {
			found = append(found, p.EntriesAt(addr)...)
		}
	}
	return found
}

// EntriesAt are the entries of a pool whose key gives an address.
func (p *Pool) EntriesAt(addr netip.Addr) (found []Entry) {
	all := p.Allocations
	first := sort.Search(len(all), func(i int) bool { return all[i].Address.Compare(addr) >= 0 })
	for i := first; i < len(all) && all[i].Address == addr; i++ {
		found = append(found, Entry{p, &all[i]})
	}
	return found
}

// UnsupportedWith are the pools of unsupported ranges that contain an address and have an entry with an owner, which is
// a container ID or a podref. The entry may stand for the address.
func (f *Facts) UnsupportedWith(owner string, addr netip.Addr) (found []*Pool) {
	for _, p := range f.PoolsAt(addr) {
		if p.Owners[owner] {
			found = append(found, p)
		}
	}
	return found
}

// NetworksIn are the networks that a pool may belong to: those that its name admits, or all of its namespace.
func (f *Facts) NetworksIn(p *Pool) []string {
	if p.Admitted != nil {
		return p.Admitted
	}
	names := []string{""}
	for n := range f.networksByNamespace {
		if n.namespace == p.Namespace {
			names = append(names, n.network)
		}
	}
	return SortedUnique(names)
}

// IsOfNetwork reports whether a pool may belong to a network, by the pool's name.
func (p *Pool) IsOfNetwork(network string) bool {
	return p.Admitted == nil || slices.Contains(p.Admitted, network)
}

// MayShareNetwork reports whether two pools may belong to one network, by their names.
func (p *Pool) MayShareNetwork(other *Pool) bool {
	return p.Admitted == nil || slices.ContainsFunc(p.Admitted, other.IsOfNetwork)
}

// IsOfRange reports whether a range of a CNI cache is the pool's, or one that the pool may be a slice of.
func (f *Facts) IsOfRange(p *Pool, text string) bool {
	r, err := ippool.ParseConfiguredRange(text)
	own := p.Range.Prefix()
	return err == nil && (r == own || len(p.SliceNodes(f.nodeNames)) > 0 && r.Contains(own.Addr()))
}

// IsMapped reports whether a definition maps one of its networks to the pool.
func (p *Pool) IsMapped(nad *ippool.NAD) bool {
	return slices.ContainsFunc(nad.Networks, func(n ippool.Network) bool { return n.Maps(p.Pool, p.Admitted) })
}

// HasNoEntryFor reports whether a pool lacks an entry for an address of its range that whereabouts reads. What an
// existing pool of an unsupported range lacks is unknown.
func (p *Pool) HasNoEntryFor(addr netip.Addr) bool {
	k, ok := p.Range.Key(addr)
	return ok && !(p.usedKeys[k] && p.KeepsEntry(addr)) && (p.Unsupported == "" || p.IsMissing)
}

// KeepsEntry reports whether whereabouts reads an entry for an address of the pool's range. It writes keys of 64 bits,
// but ignores those above an int64, and drops them with its next write (v0.9.4, pkg/storage/kubernetes/ipam.go,
// toIPReservationList).
func (p *Pool) KeepsEntry(addr netip.Addr) bool {
	k, ok := p.Range.Key(addr)
	return ok && k <= math.MaxInt64
}

// NameReading is one way to read a reservation's name.
type NameReading struct {
	Network string
	Address netip.Addr
}

// ReadingsOf are the ways to read a reservation's name, ordered by network. A readable pool of the network must have
// the address in its range.
func (f *Facts) ReadingsOf(r *ippool.Reservation) (found []NameReading) {
	read := func(network string) {
		addr, ok := ippool.ReservedAddress(r.Name, network)
		isPossible := func(p *Pool) bool { return p.Namespace == r.Namespace && p.IsOfNetwork(network) }
		if ok && slices.ContainsFunc(f.PoolsAt(addr), isPossible) {
			found = append(found, NameReading{network, addr})
		}
	}
	read("")
	for i, c := range r.Name {
		if c == '-' && i > 0 && f.networksByNamespace[networkName{r.Namespace, r.Name[:i]}] {
			read(r.Name[:i])
		}
	}
	return found
}

// UnsupportedPoolOf is a pool of an unsupported range that may have the allocation of a reservation, nil for none. One
// that is alone may be of any such pool that contains its address. Another one may be if the pool has its podref.
func (f *Facts) UnsupportedPoolOf(r *ippool.Reservation, readings []NameReading, isAlone bool) *Pool {
	for _, read := range readings {
		for _, p := range f.PoolsAt(read.Address) {
			if p.Unsupported != "" && p.Namespace == r.Namespace && p.IsOfNetwork(read.Network) &&
				(isAlone || p.Owners[r.PodRef]) {
				return p
			}
		}
	}
	return nil
}

// Records reports whether a network's addresses are written into a pool: the network is the pool's, or if that is not
// known, may be.
func (p *Pool) Records(network string) bool {
	if p.Network != nil {
		return network == *p.Network
	}
	return p.IsOfNetwork(network)
}

// Size is how many addresses whereabouts can assign from a pool; 0 for too many to count.
func (p *Pool) Size() int {
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
