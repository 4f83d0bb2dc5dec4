package sim

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
)

// redefined is the step that only plans with edits have.
const redefined = "a range is edited, and ADDs follow"

// editRand is the source by which edits are drawn. It is apart from that of NewPlan, so that plans without edits are as
// without it.
func editRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x6564_6974_7321)) }

// drawEdits makes definitions of one plan in ten change while pods run.
func (p *Plan) drawEdits() {
	if r := editRand(p.Seed); r.IntN(10) == 0 {
		p.addEdits(r)
	}
}

// NewEditPlan draws the plan of a seed, and edits in any case.
func NewEditPlan(seed uint64) *Plan {
	p := NewPlan(seed)
	if !p.edits() {
		p.addEdits(editRand(seed))
	}
	return p
}

// addEdits inserts edits, most of them just before pods get addresses.
func (p *Plan) addEdits(r *rand.Rand) {
	gap := func(longest int) time.Duration { return time.Duration(r.IntN(longest)) * time.Millisecond }
	for range 1 + r.IntN(4) {
		more := []Step{{Gap: gap(20_000), Kind: kindOf(redefined), A: r.IntN(8), B: r.IntN(40)}}
		if r.IntN(3) == 0 {
			more[0].OnWrite = 1 + r.IntN(3)
		}
		if r.IntN(4) > 0 {
			kind := []string{"a pod is deleted and recreated", "a pod is made",
				"a pod is deleted by force and recreated elsewhere", "a sandbox dies and is recreated"}[r.IntN(4)]
			more = append(more, Step{Gap: gap(3_000), Kind: kindOf(kind), A: r.IntN(8), B: r.IntN(8)})
		}
		p.Steps = slices.Insert(p.Steps, r.IntN(len(p.Steps)+1), more...)
	}
}

// edits reports whether a plan edits definitions so that ADDs follow.
func (p *Plan) edits() bool {
	kind := kindOf(redefined)
	return slices.ContainsFunc(p.Steps, func(x Step) bool { return x.Kind == kind })
}

// definitionEdit is a change of a definition. It returns nil if the definition cannot be changed so.
type definitionEdit struct {
	name string
	make func(network) *network
}

// narrowest and widest are the lengths of prefixes of IPv4 that edits use; 96 more for IPv6.
const (
	widest    = 24
	narrowest = 27
)

func definitionEdits() []definitionEdit {
	return []definitionEdit{
		{"grown", func(n network) *network { return n.ranged(n.cidr.Addr(), n.cidr.Bits()-1) }},
		{"shrunk", func(n network) *network { return n.ranged(n.cidr.Addr(), n.cidr.Bits()+1) }},
		{"shrunk to its end", func(n network) *network { return n.ranged(n.last(), n.cidr.Bits()+1) }},
		{"moved beside", func(n network) *network { return n.ranged(n.last().Next(), n.cidr.Bits()) }},
		{"moved away", func(n network) *network {
			bytes, third := n.cidr.Addr().AsSlice(), 2
			if n.cidr.Addr().Is6() {
				third = 5
			}
			bytes[third] = (bytes[third] + 1) % 3 // which may be another network's range
			to, _ := netip.AddrFromSlice(bytes)
			return n.ranged(to, n.cidr.Bits())
		}},
		{"excluded in part", func(n network) *network {
			if n.exclude != "" {
				n.exclude = ""
				return &n
			}
			n.exclude = netip.PrefixFrom(n.cidr.Addr(), n.cidr.Bits()+3).String()
			return &n
		}},
		{"bounded", func(n network) *network {
			if n.start != "" {
				n.start, n.end = "", ""
				return &n
			}
			n.start, n.end = n.address("3").String(), n.address("12").String()
			return &n
		}},
		{"checked for overlaps or not", func(n network) *network { n.unchecked = !n.unchecked; return &n }},
	}
}

// last is the last address of a network's range.
func (n *network) last() netip.Addr {
	return n.address(fmt.Sprint(1<<(n.cidr.Addr().BitLen()-n.cidr.Bits()) - 1))
}

// ranged is the network with the range of this length around an address, and without bounds. The range of slices stays:
// until the controller has divided another one, whereabouts v0.9.4 assigns addresses outside of the node's slice, and
// records them in its pool.
func (n *network) ranged(around netip.Addr, bits int) *network {
	more := around.BitLen() - 32
	to, err := around.Prefix(bits)
	if err != nil || bits < widest+more || bits > narrowest+more || n.sliceBits > 0 {
		return nil
	}
	made := newNetwork(n.nad, n.name, to, n.unchecked)
	made.exclude = n.exclude
	return made
}

// redefine edits a definition, or deletes it for a time.
func (s *Simulation) redefine(a, how int) {
	n := s.nets[a%len(s.nets)]
	now, isDefined := s.asDefined(n)
	if s.away || !isDefined {
		return
	}
	n.edited = true
	edits := definitionEdits()
	if how %= len(edits) + 2; how == len(edits) {
		s.count("edit: deleted and created")
		s.say("the definition %s is deleted", n.nad)
		s.api.Delete(fakeapi.At(fakeapi.NADs, podNamespace, n.nad))
		s.unlessQuiet(s.between(time.Second, time.Minute), func() {
			if _, isDefined := s.asDefined(n); !isDefined && !s.away {
				s.say("the definition %s is created again", n.nad)
				s.defineNetwork(now)
			}
		})
		return
	}
	name, next := "put back", n
	if how < len(edits) {
		name, next = edits[how].name, edits[how].make(*now)
	}
	if next == nil {
		return
	}
	s.count("edit: " + name)
	s.say("the definition %s is %s: %s", n.nad, name, next.config())
	s.defineNetwork(next)
	s.asDefined(n) // so that its pool is known before a process makes it
}

// config is the text of a network's definition.
func (n *network) config() string {
	more := ""
	if n.sliceBits > 0 {
		more = fmt.Sprintf(`,"node_slice_size":%q`, n.sliceSize())
	}
	if n.exclude != "" {
		more += fmt.Sprintf(`,"exclude":[%q]`, n.exclude)
	}
	if n.start != "" {
		more += fmt.Sprintf(`,"range_start":%q,"range_end":%q`, n.start, n.end)
	}
	return fmt.Sprintf(`{"cniVersion":"0.3.1","type":"macvlan","name":%q,"ipam":{"type":"whereabouts","range":%q,`+
		`"network_name":%q,"enable_overlapping_ranges":%t%s}}`, n.nad, n.cidr, n.name, !n.unchecked, more)
}

// asDefined is a network by its definition in the API, and whether that exists. In plans without edits it is always as
// planned: what the product reads then says nothing about ADDs.
func (s *Simulation) asDefined(n *network) (*network, bool) {
	if !s.follows {
		return n, true
	}
	x, isDefined := s.ipamOf(n.nad)
	cidr, err := netip.ParsePrefix(x.Range)
	if !isDefined || err != nil {
		return n, false
	}
	made := newNetwork(n.nad, x.NetworkName, cidr, x.Overlapping != nil && !*x.Overlapping)
	made.exclude, made.start, made.end, made.edited = strings.Join(x.Exclude, ""), x.Start, x.End, true
	if _, err := fmt.Sscanf(x.SliceSize, "/%d", &made.sliceBits); err == nil {
		made.pool = key{}
	}
	for _, known := range append([]*network{n}, s.versions...) {
		if known.config() == made.config() {
			return known, true
		}
	}
	s.versions = append(s.versions, made)
	if made.sliceBits == 0 && s.netOf(made.pool) == nil {
		s.ranges = append(s.ranges, made)
	}
	return made, true
}

// definitions are the networks of a pod as Multus reads them when an ADD begins, and whether all are defined.
func (s *Simulation) definitions(p *podName) (all []*network, isComplete bool) {
	isComplete = true
	for _, n := range p.nets {
		now, isDefined := s.asDefined(n)
		all, isComplete = append(all, now), isComplete && isDefined
	}
	return all, isComplete
}

// definedFor are the definitions of today by which an ADD may look at the address of an attachment: those of its
// network with the address in their range.
func (s *Simulation) definedFor(a *attachment) (found []*network) {
	for _, n := range s.nets {
		if now, isDefined := s.asDefined(n); isDefined && now.name == a.of.name && now.cidr.Contains(a.ip) {
			found = append(found, now)
		}
	}
	return found
}

// checksOverlaps reports whether a definition of today leads to the pool of an address and checks for overlaps.
// Otherwise its reservation is not demanded.
func (s *Simulation) checksOverlaps(a *attachment) bool {
	return !a.of.unchecked && (!s.follows || slices.ContainsFunc(s.definedFor(a), func(n *network) bool {
		return !n.unchecked && a.net.isOf(n)
	}))
}

// checkTwice checks an address that an ADD assigned while a sandbox has it from another pool of the network. That is
// the operator's doing if one of them was assigned without a check for overlaps.
func (s *Simulation) checkTwice(a *attachment) {
	for other := range s.attachments() {
		if other == a || !other.inUse() || other.ip != a.ip || other.of.name != a.of.name || other.net.pool == a.net.pool {
			continue
		}
		if a.of.unchecked || other.of.unchecked {
			s.count("assigned twice, unchecked")
			a.twin, other.twin = other, a
			continue
		}
		s.say("%s is used by %s as well, from another pool", a.ip, other)
		s.count("assigned twice, without a reservation")
		if d := s.owed[other.net.reservation(other.ip)]; d != nil && d.attachment == other {
			s.fail("%s got %s, which %s uses: the product deleted its reservation", a, a.ip, other)
		}
	}
}
