package findings

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Repair is what --repair would write for a finding: an entry if it has a Key, else a reservation.
type Repair struct {
	Pool                *ippool.Pool        // of the entry
	Key                 string              // of the entry
	Previous            *ippool.Allocation  // the entry that is replaced; nil if the key is unused
	NewPool             bool                // the pool does not exist and is created with the entry
	Overlapping         bool                // the entry needs a reservation, too
	PreviousReservation *ippool.Reservation // another pod's reservation, which is replaced; nil for none
	Address             netip.Addr
	Network             string
	ContainerID         string
	PodRef              string
	IfName              string
	Node                string // whose report it rests on
	IsFenced            bool   // it rests on a report renewed behind the fence, so it is written without delay
}

// NewEntry is the entry that a repair writes.
func (w *Repair) NewEntry() ippool.NewEntry {
	return ippool.NewEntry{
		Key: w.Key, ContainerID: w.ContainerID, PodRef: w.PodRef, IfName: w.IfName, Replaces: w.Previous,
	}
}

// NewReservation is the reservation that a repair creates.
func (w *Repair) NewReservation() *ippool.Reservation {
	return ippool.NewReservation(w.Pool.Namespace, w.Network, w.Address, w.PodRef, w.IfName)
}

// unrecordedAt are the findings on pools from which an ADD may assign an address that a live pod or a READY sandbox
// carries, because they have no entry for it: see carriage. podIPs name no pool.
func (x *finder) unrecordedAt(addr netip.Addr) (found []Finding) {
	isFound := map[lack]bool{}    // by a sandbox of a fresh report, so its pod is not another finding
	wasFound := map[lackOf]bool{} // by a sandbox of an expired one, for the same reason
	recorded := map[string]bool{} // pods with a sandbox whose entry is in a pool that needs it
	for i := range x.SandboxesAt(addr) {
		b := &x.SandboxesAt(addr)[i]
		c := x.carriageOf(b, addr)
		lacking := x.lacking(c)
		if len(lacking) == 0 {
			recorded[b.Pod()] = recorded[b.Pod()] || len(x.poolsWithEntry(c)) > 0
			continue
		}
		fenced := x.renewedBehindFence(0, b.Report.OnNode)
		if !x.needsEntry(b, fenced) || !fenced && !x.isDoneWithADD(b) {
			continue
		}
		for _, l := range lacking {
			f := l.unrecorded(addr, b.Pod(), b.ID, b.Report.Name)
			podRef, isKnown := x.podRefFor(b)
			switch why := x.unrepairable(l.pool, l.at, b, addr); {
			case why != "":
				f.Message += unrepaired + why
			case !isKnown:
				f.Message += unrepaired + "the UID of its pod is unknown"
			case !b.Report.IsFresh(x.Now()): // asReported says why
			case !isFound[l]: // two carriers are a Conflict, too
				f.Repair = entryFor(l.pool, addr, b, podRef)
				f.Repair.IsFenced, f.Repair.NewPool = fenced, l.pool.IsMissing
			}
			isFound[l] = isFound[l] || b.Report.IsFresh(x.Now())
			wasFound[lackOf{l, b.Pod()}] = true
			x.asReported(&f, b.Report)
			found = append(found, f)
		}
	}
	for _, p := range x.PodsAt(addr) {
		isNew := x.Now().Sub(p.Pod.CreatedAt) < judge.AddTimeLimit // the pools may have been read before its ADD
		if p.NAD == nil || p.Pod.Phase != podstate.Live || isNew || recorded[p.Pod.String()] {
			continue
		}
		var missing []lack // pools that do not exist: a definition may have hundreds of networks
		for _, l := range x.lacking(x.carriageOfPod(p, addr)) {
			switch {
			case isFound[l] || wasFound[lackOf{l, p.Pod.String()}]:
			case l.pool == nil || l.pool.IsMissing:
				missing = append(missing, l)
			default:
				found = append(found, l.unrecordedForPod(addr, p.Pod, 0))
			}
		}
		if len(missing) > 0 {
			first := slices.MinFunc(missing, lack.compare)
			found = append(found, first.unrecordedForPod(addr, p.Pod, len(missing)-1))
		}
	}
	return found
}

// unrepaired begins the reason in the message of a finding that is not repaired.
const unrepaired = "; the allocation cannot be repaired, because "

// lack is a pool without an entry that it needs. pool is nil if the pool does not exist and its name is unknown. Then
// at is its range.
type lack struct {
	pool *facts.Pool
	at   facts.DefinedRange
}

// lackOf is a lack of a pod's allocation.
type lackOf struct {
	lack
	pod string
}

// lacking are the pools from which an ADD may assign a carrier's address again.
func (x *finder) lacking(c *carriage) (found []lack) {
	read := x.readPools(c)
	for _, p := range read {
		if p.HasNoEntryFor(c.addr) && !x.isRecorded(c, p.Range.Prefix()) && !x.isReserved(c, p) {
			found = append(found, lack{pool: p})
		}
	}
	for _, at := range c.today {
		if !x.hasPool(at, c.addr, read) && !x.isRecorded(c, at.Prefix) && !x.isReservedIn(c, at, x.Namespace()) {
			l := lack{pool: x.MissingPool(at)}
			if l.pool == nil {
				l.at = at
			}
			found = append(found, l)
		}
	}
	return found
}

// hasPool reports whether a pool, readable or not, may be the one that ADDs in a range read for an address.
func (x *finder) hasPool(at facts.DefinedRange, addr netip.Addr, read []*facts.Pool) bool {
	if slices.ContainsFunc(read, func(p *facts.Pool) bool { return p.Range.Prefix() == at.Prefix }) {
		return true
	}
	mayBe := func(p *facts.Pool) bool {
		return p.Admitted == nil || x.IsReadBy(p, at) || p.IsOfNetwork(at.Network) && p.Range.Prefix() == at.Prefix
	}
	return !x.IsMissingAt(at) && !x.IsSliced(at) || slices.ContainsFunc(x.PoolsAt(addr), mayBe)
}

// unrepairable says why a sandbox's entry must not be written into a pool, "" if it may be.
func (x *finder) unrepairable(p *facts.Pool, at facts.DefinedRange, b *facts.SandboxAddress, addr netip.Addr) string {
	switch {
	case p == nil && x.IsSliced(at):
		return "the range is cut into slices, and it is unknown which one is the node's"
	case p == nil:
		return "the namespace of the pool is unknown"
	case p.Unsupported != "":
		return p.Unsupported
	case !p.KeepsEntry(addr):
		return "whereabouts reads no allocation beyond the first 2^63 addresses of a range"
	case !p.Records(b.NetworkName):
		return fmt.Sprintf("the sandbox got the address in network %q, before its definition was edited", b.NetworkName)
	case len(p.Slice) > 0 && !slices.Contains(p.Slice, b.Report.Name):
		return "the pool is the slice of another node"
	case hasAnotherIn(p, b, addr):
		return "the interface has another address in the pool's range, and a DEL would release either of them"
	}
	return ""
}

// hasAnotherIn reports whether a sandbox's interface has another address in a pool's range. A DEL releases one entry of
// a container ID and an interface in each pool.
func hasAnotherIn(p *facts.Pool, b *facts.SandboxAddress, addr netip.Addr) bool {
	return slices.ContainsFunc(b.Addresses, func(a v1alpha1.Address) bool {
		other, ok := podstate.ParseAddress(a)
		return ok && a.IfName == b.IfName && other != addr && p.Range.Contains(other)
	})
}

func (l lack) unrecorded(addr netip.Addr, pod, containerID, node string) Finding {
	f := Finding{Kind: Unrecorded, IP: addr.String(), Pods: []string{pod}, Node: node}
	switch {
	case l.pool == nil:
		f.Message = fmt.Sprintf("%s carries %s, but its range %s has no pool: the next ADD creates an empty pool and may "+
			"assign the address again", pod, addr, l.at.Prefix)
	case l.pool.IsMissing:
		f.Pool, f.Message = l.pool.Ref(), fmt.Sprintf("%s carries %s, but pool %s does not exist: the next ADD creates an "+
			"empty pool and may assign the address again", pod, addr, l.pool.Ref())
	default:
		f.Pool, f.Message = l.pool.Ref(), fmt.Sprintf("%s carries %s, but pool %s has no allocation for it: the next ADD "+
			"may assign it again", pod, addr, l.pool.Ref())
	}
	if containerID != "" {
		f.ContainerIDs = []string{containerID}
	}
	return f
}

// unrecordedForPod is the finding on a pod whose sandbox is unknown. The same holds for so many other pools that do not
// exist.
func (l lack) unrecordedForPod(addr netip.Addr, p *podstate.Pod, others int) Finding {
	f := l.unrecorded(addr, p.String(), "", p.Node)
	if others > 0 {
		f.Message += fmt.Sprintf("; the same holds for %d more networks of its definition", others)
	}
	f.Message += "; its sandbox is unknown, so the allocation cannot be repaired"
	return f
}

// compare orders lacks: those whose pool has a name come first.
func (l lack) compare(other lack) int {
	name := func(l lack) string {
		if l.pool == nil {
			return ""
		}
		return l.pool.Ref()
	}
	return cmp.Or(compareBool(l.pool == nil, other.pool == nil), cmp.Compare(name(l), name(other)),
		cmp.Compare(l.at.Network, other.at.Network), cmp.Compare(l.at.Prefix.String(), other.at.Prefix.String()))
}

// misrecordedAt are the findings on entries that name a sandbox which does not run, while another one carries the
// address and no pool records that. A DEL of the recorded sandbox would release the address, and an ADD of its pod
// would reuse it. If both run, they are a Conflict.
func (x *finder) misrecordedAt(addr netip.Addr) (found []Finding) {
	for _, p := range x.PoolsAt(addr) {
		entries := p.EntriesAt(addr)
		if len(entries) != 1 || entries[0].Problem != "" {
			continue
		}
		b := x.carrier(p, addr)
		if b == nil || b.ID == entries[0].ContainerID {
			continue
		}
		if c := x.carriageOf(b, addr); x.isRecorded(c, p.Range.Prefix()) || !slices.Contains(x.readPools(c), p) {
			continue
		}
		e := x.itemOf(entries[0]).Evidence()
		fenced := x.renewedBehindFence(judge.DELTimeout, b.Report.OnNode) &&
			(e.Sandbox == judge.NodeDead || x.renewedBehindFence(judge.DELTimeout, e.Nodes))
		ended, silent := x.endedWhenReported(e, x.Mentions(entries[0].ContainerID))
		if ended && e.IPAMClaim != judge.ClaimExists && (fenced || x.isDoneWithADD(b)) {
			f := x.misrecordedFor(p, entries[0].Allocation, b, e, fenced)
			x.asReported(&f, append(silent, b.Report)...)
			found = append(found, f)
		}
	}
	return found
}

// itemOf is the judged item of an entry.
func (x *finder) itemOf(e facts.Entry) *judge.Item {
	if x.items == nil {
		x.items = make(map[*ippool.Allocation]*judge.Item, len(x.j.Allocations))
		for _, it := range x.j.Allocations {
			x.items[it.Allocation] = it
		}
	}
	return x.items[e.Allocation]
}

func (x *finder) misrecordedFor(
	p *facts.Pool, a *ippool.Allocation, b *facts.SandboxAddress, e *judge.Evidence, fenced bool,
) Finding {
	f := Finding{Kind: Misrecorded, IP: a.Address.String(), Pool: p.Ref(),
		Pods:         facts.SortedUnique([]string{b.Pod(), a.Owner.Namespace + "/" + a.Owner.Name}),
		ContainerIDs: []string{b.ID}, Node: b.Report.Name,
		Message: fmt.Sprintf("%s carries %s on %s, but pool %s records it for a sandbox of %s that does not run (%s): "+
			"an ADD or DEL of that pod may reuse or release it", b.Pod(), a.Address, b.Report.Name, p.Ref(), a.PodRef,
			e.Sandbox)}
	if a.ContainerID != "" {
		f.ContainerIDs = append(f.ContainerIDs, a.ContainerID)
	}
	if why := x.unrepairable(p, facts.DefinedRange{}, b, a.Address); why != "" {
		f.Message += unrepaired + why
	} else if podRef, ok := x.podRefFor(b); ok && a.Claim == nil { // a rewritten entry would lose its claim
		f.Repair = entryFor(p, a.Address, b, podRef)
		f.Repair.Previous, f.Repair.Key, f.Repair.IsFenced = a, a.Key, fenced
	}
	return f
}

// carrier is the one sandbox that carries an address of the pool on its network, by the CNI result cache or by the
// definitions of today. READY sandboxes come first, and those of expired reports last. It is nil for none or several.
func (x *finder) carrier(p *facts.Pool, addr netip.Addr) *facts.SandboxAddress {
	rank := func(b *facts.SandboxAddress) int {
		switch {
		case x.IsReady(&b.Mention):
			return 2
		case b.Report.IsFresh(x.Now()):
			return 1
		}
		return 0
	}
	var one *facts.SandboxAddress
	several := false
	for _, b := range x.SandboxesAt(addr) {
		if !x.mayBeIn(p, &b, addr) || !x.needsEntry(&b, x.renewedBehindFence(judge.DELTimeout, b.Report.OnNode)) {
			continue
		}
		switch {
		case one == nil, rank(&b) > rank(one):
			one, several = &b, false
		case rank(&b) < rank(one):
		case one.ID != b.ID || one.Report != b.Report:
			several = true
		}
	}
	if one == nil || several || !x.IsOfRange(p, one.Range) && !x.reads(x.carriageOf(one, addr), p) {
		return nil
	}
	return one
}

// mayBeIn reports whether a sandbox carries an address on the network of a pool.
func (x *finder) mayBeIn(p *facts.Pool, b *facts.SandboxAddress, addr netip.Addr) bool {
	return p.Records(b.NetworkName) || x.reads(x.carriageOf(b, addr), p)
}

// needsEntry reports whether the pools need an entry for a sandbox. Behind the fence a sandbox that is starting or
// stopped and has a network needs one, too: its DEL waits for the fence, and an ADD may be faster than the DEL then.
// An address that another plugin may have assigned needs none.
func (x *finder) needsEntry(b *facts.SandboxAddress, fenced bool) bool {
	return !b.Unattributed && (x.wasReady(&b.Mention) || fenced && x.MayRun(&b.Mention))
}

// isDoneWithADD reports whether a sandbox has been READY for long enough that its ADD has ended.
func (x *finder) isDoneWithADD(b *facts.SandboxAddress) bool {
	return x.wasReady(&b.Mention) && b.Report.IsSettled(b.Sandbox, x.Now())
}

// podRefFor is the podref for a sandbox's entry. If the API does not have the pod on this node, the podref has the UID,
// so no successor of the name can take the entry over. ok is false if the UID is unknown.
func (x *finder) podRefFor(b *facts.SandboxAddress) (podRef string, ok bool) {
	ref := ippool.PodRef{Namespace: b.Namespace, Name: b.Name}
	if pod := x.Pod(b.Namespace, b.Name); x.apiHasPod(&b.Mention) && (pod.Node == "" || pod.Node == b.Report.Name) {
		return ref.String(), true
	}
	ref.UID = b.UID
	return ref.String(), ref.UID != ""
}

func entryFor(p *facts.Pool, addr netip.Addr, b *facts.SandboxAddress, podRef string) *Repair {
	key, _ := p.Range.Key(addr)
	return &Repair{Pool: p.Pool, Key: strconv.FormatUint(key, 10), Address: addr, Network: b.NetworkName,
		ContainerID: b.ID, PodRef: podRef, IfName: b.IfName, Node: b.Report.Name}
}

// renewedBehindFence reports whether the report of each node was last renewed at least that long after the fence.
func (x *finder) renewedBehindFence(after time.Duration, nodes []string) bool {
	if x.Base().FencedSince.IsZero() || len(nodes) == 0 {
		return false
	}
	since := x.Base().FencedSince.Add(after)
	for _, name := range nodes {
		if r := x.Report(name); r == nil || !r.IsFresh(x.Now()) || r.ConfirmedAt.Before(since) {
			return false
		}
	}
	return true
}
