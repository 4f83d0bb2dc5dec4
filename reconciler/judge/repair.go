package judge

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// DELTimeout is how long after the fence a report must be renewed before an entry is rewritten by it. CRI-O removes the
// network of a sandbox that is still READY, and a DEL in progress must have time to end.
const DELTimeout = 10 * time.Second

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

// NewReservation is the reservation that a repair creates.
func (w *Repair) NewReservation() *ippool.Reservation {
	return ippool.NewReservation(w.Pool.Namespace, w.Network, w.Address, w.PodRef, w.IfName)
}

// unrecordedAt are the findings on pools without an entry for an address that a live pod or a READY sandbox carries.
// The pool is known by the CNI result cache or a readable definition, never by podIPs. A missing pool needs both.
func (x *Index) unrecordedAt(addr netip.Addr) (found []Finding) {
	lacking := slices.DeleteFunc(slices.Clone(x.poolsAt(addr)), func(p *pool) bool { return !p.hasNoEntryFor(addr) })
	isFound := map[*pool]bool{}   // by a sandbox, so its pod is not another finding
	recorded := map[string]bool{} // pods whose sandboxes have an entry in any pool
	for _, b := range x.sandboxesByAddress[addr] {
		if x.isRecordedAnywhere(&b, addr) {
			recorded[b.pod()] = true
			continue
		}
		fenced := x.renewedBehindFence(0, b.report.node)
		if !x.needsEntry(&b, fenced) || !fenced && !x.isDoneWithADD(&b) {
			continue
		}
		for _, p := range x.poolsWithout(&b, addr, lacking) {
			f := p.unrecorded(addr, b.pod(), b.ID, b.report.Name)
			if podRef, ok := x.podRefFor(&b); ok && !isFound[p] { // two carriers are a Conflict, too
				f.Repair = p.entryFor(addr, &b, podRef)
				f.Repair.IsFenced, f.Repair.NewPool = fenced, p.isMissing
			}
			isFound[p] = true
			found = append(found, f)
		}
	}
	if len(lacking) == 0 {
		return found
	}
	for _, c := range x.podsAt(addr) {
		isNew := x.now.Sub(c.pod.CreatedAt) < addTimeLimit // the pools may have been read before its ADD
		if c.nad == nil || c.pod.Phase != podstate.Live || isNew || recorded[c.pod.String()] {
			continue
		}
		for _, p := range x.ownOf(lacking, addr, c.pod.Node, func(p *pool) bool { return p.isMapped(c.nad) }) {
			if !isFound[p] {
				f := p.unrecorded(addr, c.pod.String(), "", c.pod.Node)
				f.Message += "; its sandbox is unknown, so the allocation cannot be repaired"
				found = append(found, f)
			}
		}
	}
	return found
}

// isRecordedAnywhere reports whether any pool records the address for the sandbox's interface. Another node's slice
// does not count beside the node's own: an ADD on the node reads that one.
func (x *Index) isRecordedAnywhere(b *sandboxAddress, addr netip.Addr) bool {
	node := b.report.Name
	hasOwn := slices.ContainsFunc(x.poolsAt(addr), func(p *pool) bool {
		return slices.Contains(p.slice, node) && p.records(b.NetworkName)
	})
	return slices.ContainsFunc(x.entriesFor(addr), func(e entry) bool {
		isOthers := len(e.pool.slice) > 0 && !slices.Contains(e.pool.slice, node)
		return e.ContainerID == b.ID && (e.IfName == "" || e.IfName == b.IfName) && !(hasOwn && isOthers)
	})
}

// poolsWithout are those of the lacking pools that match a sandbox's network and range, or the missing pool of both.
func (x *Index) poolsWithout(b *sandboxAddress, addr netip.Addr, lacking []*pool) []*pool {
	if p := x.missingPool(b, addr); p != nil {
		return []*pool{p}
	}
	return x.ownFor(lacking, addr, b)
}

// ownFor are those of the pools in which an ADD of the sandbox would record the address.
func (x *Index) ownFor(pools []*pool, addr netip.Addr, b *sandboxAddress) []*pool {
	return x.ownOf(pools, addr, b.report.Name, func(p *pool) bool {
		return p.records(b.NetworkName) && x.isOfRange(p, b.Range)
	})
}

// records reports whether a network's addresses are written into a pool: the network is the pool's, or if that is not
// known, may be.
func (p *pool) records(network string) bool {
	if p.network != nil {
		return network == *p.network
	}
	return p.isOfNetwork(network)
}

// ownOf are those of the pools that match. If any pool of the address that matches is the node's slice, they
// are its slices only: no DEL of the sandbox would release the address in another node's.
func (x *Index) ownOf(pools []*pool, addr netip.Addr, node string, matches func(*pool) bool) []*pool {
	isOwn := func(p *pool) bool { return slices.Contains(p.slice, node) && matches(p) }
	hasOwn := slices.ContainsFunc(x.poolsAt(addr), isOwn)
	return slices.DeleteFunc(slices.Clone(pools), func(p *pool) bool { return !matches(p) || hasOwn && !isOwn(p) })
}

func (p *pool) unrecorded(addr netip.Addr, pod, containerID, node string) Finding {
	f := Finding{Kind: Unrecorded, IP: addr.String(), Pool: p.ref, Pods: []string{pod}, Node: node,
		Message: fmt.Sprintf("%s carries %s, but pool %s has no allocation for it: the next ADD may assign it again",
			pod, addr, p.ref)}
	if p.isMissing {
		f.Message = fmt.Sprintf("%s carries %s, but pool %s does not exist: the next ADD creates an empty pool and may "+
			"assign the address again", pod, addr, p.ref)
	}
	if containerID != "" {
		f.ContainerIDs = []string{containerID}
	}
	return f
}

// misrecordedAt are the findings on entries that name a sandbox which does not run, while another one carries the
// address and no pool records that. A DEL of the recorded sandbox would release the address, and an ADD of its pod
// would reuse it. If both run, they are a Conflict.
func (x *Index) misrecordedAt(addr netip.Addr) (found []Finding) {
	for _, p := range x.poolsAt(addr) {
		entries := p.entriesFor(addr)
		if p.byOffset != nil || len(entries) != 1 || entries[0].Problem != "" {
			continue // an ambiguous key stands for several addresses
		}
		b := x.carrier(p, addr)
		if b == nil || b.ID == entries[0].ContainerID || x.isRecordedAnywhere(b, addr) ||
			len(x.ownFor([]*pool{p}, addr, b)) == 0 {
			continue
		}
		e := x.judgeAllocation(entries[0]).Evidence()
		fenced := x.renewedBehindFence(DELTimeout, b.report.node) &&
			(e.Sandbox == NodeDead || x.renewedBehindFence(DELTimeout, e.Nodes))
		if e.hasEndedSandbox() && e.IPAMClaim != ClaimExists && (fenced || x.isDoneWithADD(b)) {
			found = append(found, x.misrecordedFor(p, entries[0].Allocation, b, e, fenced))
		}
	}
	return found
}

func (x *Index) misrecordedFor(p *pool, a *ippool.Allocation, b *sandboxAddress, e *Evidence, fenced bool) Finding {
	f := Finding{Kind: Misrecorded, IP: a.Address.String(), Pool: p.ref,
		Pods:         sortedUnique([]string{b.pod(), a.Owner.Namespace + "/" + a.Owner.Name}),
		ContainerIDs: []string{b.ID}, Node: b.report.Name,
		Message: fmt.Sprintf("%s carries %s on %s, but pool %s records it for a sandbox of %s that does not run (%s): "+
			"an ADD or DEL of that pod may reuse or release it", b.pod(), a.Address, b.report.Name, p.ref, a.PodRef, e.Sandbox)}
	if a.ContainerID != "" {
		f.ContainerIDs = append(f.ContainerIDs, a.ContainerID)
	}
	if podRef, ok := x.podRefFor(b); ok && a.Claim == nil { // a rewritten entry would lose its claim
		f.Repair = p.entryFor(a.Address, b, podRef)
		f.Repair.Previous, f.Repair.Key, f.Repair.IsFenced = a, a.Key, fenced
	}
	return f
}

// carrier is the one sandbox that carries an address of the pool on its network, by the CNI result cache. READY
// sandboxes come first. It is nil for none or several.
func (x *Index) carrier(p *pool, addr netip.Addr) *sandboxAddress {
	var one *sandboxAddress
	several := false
	for _, b := range x.sandboxesByAddress[addr] {
		if !p.records(b.NetworkName) || !x.needsEntry(&b, x.renewedBehindFence(DELTimeout, b.report.node)) {
			continue
		}
		switch {
		case one == nil, x.isReady(&b.mention) && !x.isReady(&one.mention):
			one, several = &b, false
		case x.isReady(&one.mention) && !x.isReady(&b.mention):
		case one.ID != b.ID || one.report != b.report:
			several = true
		}
	}
	if one == nil || several || !x.isOfRange(p, one.Range) {
		return nil
	}
	return one
}

// needsEntry reports whether the pools need an entry for a sandbox. Behind the fence a sandbox that is starting or
// stopped and has a network needs one, too: its DEL waits for the fence, and an ADD may be faster than the DEL then.
func (x *Index) needsEntry(b *sandboxAddress, fenced bool) bool {
	return x.isReady(&b.mention) || fenced && x.mayRun(&b.mention)
}

// isDoneWithADD reports whether a sandbox has been READY for long enough that its ADD has ended.
func (x *Index) isDoneWithADD(b *sandboxAddress) bool {
	return x.isReady(&b.mention) && b.report.IsSettled(b.Sandbox, x.now)
}

// podRefFor is the podref for a sandbox's entry. If the API does not have the pod on this node, the podref has the UID,
// so no successor of the name can take the entry over. ok is false if the UID is unknown.
func (x *Index) podRefFor(b *sandboxAddress) (podRef string, ok bool) {
	ref := ippool.PodRef{Namespace: b.Namespace, Name: b.Name}
	if pod := x.pod(b.Namespace, b.Name); x.apiHasPod(&b.mention) && (pod.Node == "" || pod.Node == b.report.Name) {
		return ref.String(), true
	}
	ref.UID = b.UID
	return ref.String(), ref.UID != ""
}

func (p *pool) entryFor(addr netip.Addr, b *sandboxAddress, podRef string) *Repair {
	key, _ := p.Range.Key(addr)
	return &Repair{Pool: p.Pool, Key: strconv.FormatUint(key, 10), Address: addr, Network: b.NetworkName,
		ContainerID: b.ID, PodRef: podRef, IfName: b.IfName, Node: b.report.Name}
}

// renewedBehindFence reports whether the report of each node was last renewed at least that long after the fence.
func (x *Index) renewedBehindFence(after time.Duration, nodes []string) bool {
	if x.o.FencedSince.IsZero() || len(nodes) == 0 {
		return false
	}
	since := x.o.FencedSince.Add(after)
	for _, name := range nodes {
		if r := x.byNode[name]; r == nil || !r.IsFresh(x.now) || r.ConfirmedAt.Before(since) {
			return false
		}
	}
	return true
}
