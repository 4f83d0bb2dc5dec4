package plan

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/memory"
)

// Obstacle is a reason against the retirement of a pool.
type Obstacle struct {
	Kind   ObstacleKind
	Detail string      // a sentence
	Item   *judge.Item // what is in use, held or stale; nil for another obstacle
	At     time.Time   // when it ends by itself; zero for never
}

// ObstacleKind is the word for an Obstacle.
type ObstacleKind string

const (
	ObstacleInUse    ObstacleKind = "InUse"    // an allocation or reservation is in use
	ObstacleHeld     ObstacleKind = "Held"     // one may be in use
	ObstacleLeftover ObstacleKind = "Leftover" // one is Stale, and is released before the pool is deleted
	ObstacleCarried  ObstacleKind = "Carried"  // somebody carries an address of the range that no pool records
	ObstacleDefined  ObstacleKind = "Defined"  // a definition leads to the pool: the next ADD would create it again
	ObstacleUnknown  ObstacleKind = "Unknown"  // something that could stand against it is not known
	ObstacleFinding  ObstacleKind = "Finding"  // a finding is about the pool
	ObstacleGate     ObstacleKind = "Gate"     // a pause, or a restore of etcd
	ObstacleRecent   ObstacleKind = "Recent"   // it has not been observed without obstacles for long enough
)

// ObstacleKinds are all kinds, in the order in which they are listed.
func ObstacleKinds() []ObstacleKind {
	return []ObstacleKind{ObstacleInUse, ObstacleHeld, ObstacleCarried, ObstacleDefined, ObstacleUnknown, ObstacleFinding,
		ObstacleGate, ObstacleLeftover, ObstacleRecent}
}

// RetireAfter is for how long a pool must have no obstacle before it is deleted. It is as long as an ADD may take: one
// by a definition that was deleted meanwhile must have ended. It is confirmAfter if that is shorter. The Node of a
// slice must be missing for 40 s, whatever confirmAfter is.
func RetireAfter(f *facts.Facts, p *facts.Pool, confirmAfter time.Duration) time.Duration {
	wait := min(confirmAfter, judge.AddTimeLimit)
	if len(f.LostNodesOf(p, f.BoundNodes())) > 0 {
		return max(wait, memory.NodeQuarantine)
	}
	return wait
}

// AgainstRetirement are the reasons against the retirement of a pool, in the order of ObstacleKinds. It is deleted only
// if there is none. The assessment is of everything, and common are the gates against more than one item.
func AgainstRetirement(a *findings.Assessment, common []Gate, p *facts.Pool) []Obstacle {
	r := retiring{Facts: a.Facts(), a: a, pool: p}
	found := slices.Concat(r.items(), r.carriers(), r.definitions(), r.unknown(), r.findings(), gatesOn(common, p))
	slices.SortStableFunc(found, func(x, y Obstacle) int {
		return cmp.Compare(slices.Index(ObstacleKinds(), x.Kind), slices.Index(ObstacleKinds(), y.Kind))
	})
	return found
}

// retiring judges the retirement of one pool.
type retiring struct {
	*facts.Facts
	a    *findings.Assessment
	pool *facts.Pool
}

// items are the allocations of the pool, and the reservations without an allocation that may be of it.
func (r *retiring) items() (found []Obstacle) {
	for _, it := range slices.Concat(r.a.Allocations, r.a.Reservations) {
		if !r.has(it) {
			continue
		}
		o := Obstacle{Kind: ObstacleHeld, Item: it, Detail: it.Message()}
		switch it.Verdict {
		case judge.InUse:
			o.Kind = ObstacleInUse
		case judge.Stale:
			o.Kind = ObstacleLeftover
		}
		found = append(found, o)
	}
	return found
}

func (r *retiring) has(it *judge.Item) bool {
	if it.Allocation != nil {
		return it.Pool == r.pool.Pool
	}
	return len(it.Related()) == 0 && it.Reservation.Namespace == r.pool.Namespace &&
		slices.ContainsFunc(r.ReadingsOf(it.Reservation), func(n facts.NameReading) bool {
			return r.pool.Range.Contains(n.Address) && r.isOfNetwork(n.Network)
		})
}

// HasItem reports whether an item is one of those that retiring the pool must release first, or that stand against it.
func HasItem(f *facts.Facts, p *facts.Pool, it *judge.Item) bool {
	r := retiring{Facts: f, pool: p}
	return r.has(it)
}

func (r *retiring) isOfNetwork(network string) bool {
	return r.pool.MayBeOfAny || r.pool.IsOfNetwork(network)
}

func (r *retiring) mayBeOn(nad *ippool.NAD) bool {
	return nad == nil || slices.ContainsFunc(nad.Networks, func(n ippool.Network) bool { return r.isOfNetwork(n.Name) })
}

// carriers are those that carry an address of the range, on a network that may be the pool's, and that neither this
// pool nor another one records. The pool is all by which they are found.
func (r *retiring) carriers() (found []Obstacle) {
	if r.pool.Problem != "" {
		return nil
	}
	carried := func(addr netip.Addr, name string) {
		found = append(found, Obstacle{Kind: ObstacleCarried,
			Detail: fmt.Sprintf("%s carries %s, and no pool records that", name, addr)})
	}
	var inRange []netip.Addr
	for addr := range r.CarriedAddresses() {
		if r.pool.Range.Contains(addr) {
			inRange = append(inRange, addr)
		}
	}
	for _, addr := range facts.UniqueAddresses(inRange) {
		entries := r.EntriesFor(addr)
		for _, c := range r.PodsAt(addr) {
			isRecorded := func(e facts.Entry) bool { return e.PodRef == c.Pod.String() }
			if r.mayBeOn(c.NAD) && !slices.ContainsFunc(entries, isRecorded) {
				carried(addr, "pod "+c.Pod.String())
			}
		}
		for _, b := range r.SandboxesAt(addr) {
			isRecorded := func(e facts.Entry) bool { return e.ContainerID == b.ID }
			if r.isOfNetwork(b.NetworkName) && r.MayHoldAddress(&b.Mention) && !r.IsObsolete(b.Report) &&
				!slices.ContainsFunc(entries, isRecorded) {
				carried(addr, fmt.Sprintf("sandbox %s of %s on node %s", b.ID, b.Pod(), b.Report.Name))
			}
		}
	}
	return found
}

// nads are all definitions that were read, by name.
func (r *retiring) nads() []*ippool.NAD {
	return slices.SortedFunc(maps.Values(r.Base().NADs.Or(nil)), func(x, y *ippool.NAD) int {
		return cmp.Compare(x.String(), y.String())
	})
}

// definitions are those that lead to the pool. The slice of a node that is gone for good is led to by none: no ADD is
// made there. A slice of another size than the definition's counts, since ADDs use it until whereabouts cuts anew.
func (r *retiring) definitions() (found []Obstacle) {
	bound := r.BoundNodes()
	for _, nad := range r.nads() {
		name := nad.NamespacedName
		for _, n := range nad.Networks {
			var detail string
			switch node, isSlice := n.SliceOf(r.pool.Pool); {
			case isSlice && !r.IsGoneForGood(node, bound):
				detail = fmt.Sprintf("it may be the slice of node %s, by NetworkAttachmentDefinition %s, and that node is not "+
					"known to be gone for good", node, name)
			case !n.Slices && n.Maps(r.pool.Pool, r.pool.Pool.Networks(nil)):
				detail = fmt.Sprintf("NetworkAttachmentDefinition %s leads to it: the next ADD would create it again", name)
			default:
				continue
			}
			found = append(found, Obstacle{Kind: ObstacleDefined, Detail: detail})
		}
	}
	for _, node := range r.pool.SliceNodes(r.NodeNames()) {
		if len(r.pool.Slice) > 0 && !r.IsGoneForGood(node, bound) && !slices.Contains(r.pool.Slice, node) {
			found = append(found, Obstacle{Kind: ObstacleDefined,
				Detail: fmt.Sprintf("by its name it may be the slice of node %s, which exists", node)})
		}
	}
	return found
}

// unknown is what is not known, and could stand against the retirement.
func (r *retiring) unknown() (found []Obstacle) {
	add := func(format string, args ...any) {
		found = append(found, Obstacle{Kind: ObstacleUnknown, Detail: fmt.Sprintf(format, args...)})
	}
	o := r.Base()
	for _, s := range o.UnknownSources() {
		add("%s: %s", s.Name, s.Unknown)
	}
	for _, text := range o.Unreadable {
		add("%s", text)
	}
	if o.NADs.IsKnown() && len(r.nads()) == 0 {
		add("there is no NetworkAttachmentDefinition at all, so networks may be configured on the nodes")
	}
	for _, nad := range r.nads() {
		if nad.Problem != "" {
			add("NetworkAttachmentDefinition %s cannot be read (%s), and may lead to the pool", nad.NamespacedName, nad.Problem)
		}
	}
	if why := r.pool.Unsupported; why != "" && r.pool.Problem == "" {
		add("its %s", why)
	}
	emptied := r.pool.Without(r.pool.Allocations, r.pool.ResourceVersion)
	if _, err := ippool.NewRemoval(emptied); err != nil {
		add("%s", err)
	}
	for i := range r.UnreadPods() {
		if u := &r.UnreadPods()[i]; u.IsAny || r.mayLeadInto(u.NAD) {
			add("pod %s may carry an address of it: %s", u.Pod, u.Why)
		}
	}
	for i := range r.UnreadSandboxes() {
		if u := &r.UnreadSandboxes()[i]; !r.IsObsolete(u.Report) && u.MayHave(r.mayLeadInto, r.mayBeOf) {
			add("sandbox %s of %s on node %s may carry an address of it: its node's report lacks addresses of it",
				u.ID, u.Pod(), u.Report.Name)
		}
	}
	return found
}

// mayLeadInto reports whether a definition may assign an address of the pool's range. nil is one that cannot be read.
func (r *retiring) mayLeadInto(nad *ippool.NAD) bool {
	return nad == nil || slices.ContainsFunc(nad.Networks, func(n ippool.Network) bool {
		return r.isOfNetwork(n.Name) && slices.ContainsFunc(n.Ranges, r.pool.Range.Prefix().Overlaps)
	})
}

// mayBeOf reports whether a range of a sandbox may have addresses of the pool's.
func (r *retiring) mayBeOf(n facts.NetworkRange) bool {
	return r.isOfNetwork(n.Network) && (!n.Prefix.IsValid() || n.Prefix.Overlaps(r.pool.Range.Prefix()))
}

// findings are those about the pool. That the slice has no node is the reason for its retirement.
func (r *retiring) findings() (found []Obstacle) {
	for _, f := range r.a.FindingsOn(r.pool.Ref()) {
		if f.Kind != findings.SliceWithoutNode {
			found = append(found, Obstacle{Kind: ObstacleFinding, Detail: fmt.Sprintf("%s: %s", f.Kind, f.Message)})
		}
	}
	return found
}

// gatesOn are the gates against everything and against the pool.
func gatesOn(common []Gate, p *facts.Pool) (found []Obstacle) {
	for _, g := range common {
		if g.Pool == "" || g.Pool == p.Ref() {
			found = append(found, Obstacle{Kind: ObstacleGate, Detail: g.Detail, At: g.At})
		}
	}
	return found
}

// ObstacleText lists obstacles in a sentence, those of a kind with items by their number.
func ObstacleText(all []Obstacle) string {
	var texts []string
	counts := map[ObstacleKind]int{}
	for _, o := range all {
		if o.Item == nil {
			texts = append(texts, o.Detail)
			continue
		}
		counts[o.Kind]++
	}
	var first []string
	for kind, text := range map[ObstacleKind]string{ObstacleInUse: "in use", ObstacleHeld: "held",
		ObstacleLeftover: "stale"} {
		if n := counts[kind]; n > 0 {
			first = append(first, fmt.Sprintf("%d %s", n, text))
		}
	}
	slices.Sort(first)
	if len(first) > 0 {
		texts = slices.Insert(texts, 0, "it has addresses: "+strings.Join(first, ", "))
	}
	return facts.AtMost(texts, facts.NamesShown)
}
