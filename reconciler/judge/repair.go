package judge

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// DELTimeout is how long the fence must have stood when the report was renewed by which an
// entry is rewritten. CRI-O takes the network of a sandbox down while it is
// still READY, and a DEL that was under way then must have had the time to end.
const DELTimeout = 10 * time.Second

// Repair is what --repair would write for a finding: an entry where it has a key, else a reservation.
type Repair struct {
	Pool                *ippool.Pool        // of the entry
	Key                 string              // of the entry
	Previous            *ippool.Allocation  // the entry that is replaced; nil for an empty slot
	NewPool             bool                // the pool is not there, and is made with the entry
	Overlapping         bool                // the entry needs a reservation, too
	PreviousReservation *ippool.Reservation // another pod's, in the place of which it is written; nil for none
	Address             netip.Addr
	Network             string
	ContainerID         string
	PodRef              string
	IfName              string
	Node                string // by whose report it is known
	IsFenced            bool   // what it rests on was seen behind the fence: nothing is waited for
}

// NewReservation is what a repair creates.
func (w *Repair) NewReservation() *unstructured.Unstructured {
	return ippool.NewReservation(w.Pool.Namespace, w.Network, w.Address, w.PodRef, w.IfName)
}

// unrecordedAt are the pools that have no entry for an address which a live pod or a READY sandbox carries on their
// network: the next ADD may hand it out again. The pool is known by the CNI result cache or by a readable
// NetworkAttachmentDefinition, never by podIPs; one that does not exist at all by both.
func (x *Index) unrecordedAt(addr netip.Addr) (found []Finding) {
	lacking := slices.DeleteFunc(slices.Clone(x.poolsAt(addr)), func(p *pool) bool { return !p.hasNoEntryFor(addr) })
	isFound := map[*pool]bool{}   // a pod and its sandbox both name one address
	recorded := map[string]bool{} // pods whose sandboxes have an entry, in whatever pool
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
			if podRef, ok := x.podRefFor(&b); ok && !isFound[p] { // of two that carry it one has the entry, and the other is a Conflict
				f.Repair = p.entryFor(addr, &b, podRef)
				f.Repair.IsFenced, f.Repair.NewPool = fenced, p.missing
			}
			isFound[p] = true
			found = append(found, f)
		}
	}
	if len(lacking) == 0 {
		return found
	}
	for _, c := range x.podsAt(addr) {
		if c.nad == nil || c.pod.Phase != podstate.Live || x.now.Sub(c.pod.CreatedAt) < addTimeLimit || recorded[c.pod.String()] {
			continue // what was read first may be older than the pod
		}
		for _, p := range lacking {
			if p.isMapped(c.nad) && !isFound[p] {
				f := p.unrecorded(addr, c.pod.String(), "", c.pod.Node)
				f.Message += "; its sandbox is not known, so that no entry can be written back"
				found = append(found, f)
			}
		}
	}
	return found
}

// isRecordedAnywhere reports whether any pool records the address for the sandbox's interface: also one
// in another namespace, of a slice, or of a network whose name is not in the node's files.
func (x *Index) isRecordedAnywhere(b *sandboxAddress, addr netip.Addr) bool {
	return slices.ContainsFunc(x.entriesFor(addr), func(e entry) bool {
		return e.ContainerID == b.ID && (e.IfName == "" || e.IfName == b.IfName)
	})
}

// poolsWithout are those of the pools that lack an address which are of a sandbox's network and range; where the pool of
// these does not exist at all, that one.
func (x *Index) poolsWithout(b *sandboxAddress, addr netip.Addr, lacking []*pool) []*pool {
	if p := x.missingPool(b, addr); p != nil {
		return []*pool{p}
	}
	return slices.DeleteFunc(slices.Clone(lacking), func(p *pool) bool { return !p.isOfNetwork(b.NetworkName) || !x.isOfRange(p, b.Range) })
}

func (p *pool) unrecorded(addr netip.Addr, pod, containerID, node string) Finding {
	f := Finding{Kind: Unrecorded, IP: addr.String(), Pool: p.ref, Pods: []string{pod}, Node: node,
		Message: fmt.Sprintf("%s carries %s, and pool %s has no entry for it: the next ADD may hand it out again", pod, addr, p.ref)}
	if p.missing {
		f.Message = fmt.Sprintf("%s carries %s, and pool %s is not there: the next ADD makes it, empty, and may hand the address out again", pod, addr, p.ref)
	}
	if containerID != "" {
		f.ContainerIDs = []string{containerID}
	}
	return f
}

// misrecordedAt are the pools of which the entry for an address names a sandbox that does not run, while another one
// carries it: the record is of the past, as after a restore of etcd, or was taken over. Its own DEL would release the
// address, and its pod gets it again at the next ADD. Where both run it is a Conflict.
func (x *Index) misrecordedAt(addr netip.Addr) (found []Finding) {
	for _, p := range x.poolsAt(addr) {
		entries := p.entriesFor(addr)
		if p.keyed != nil || len(entries) != 1 || entries[0].Problem != "" {
			continue // nothing tells which address an entry under an ambiguous key stands for
		}
		b := x.carrier(p, addr)
		if b == nil || b.ID == entries[0].ContainerID {
			continue
		}
		e := x.judgeAllocation(entries[0]).evidence
		fenced := x.renewedBehindFence(DELTimeout, b.report.node) && (e.Sandbox == NodeDead || x.renewedBehindFence(DELTimeout, e.Nodes))
		if e.endedSandbox() && (fenced || x.isDoneWithADD(b)) {
			found = append(found, x.misrecordedFor(p, entries[0].Allocation, b, e, fenced))
		}
	}
	return found
}

func (x *Index) misrecordedFor(p *pool, a *ippool.Allocation, b *sandboxAddress, e *Evidence, fenced bool) Finding {
	f := Finding{Kind: Misrecorded, IP: a.Address.String(), Pool: p.ref, Pods: sortedUnique([]string{b.pod(), a.Owner.Namespace + "/" + a.Owner.Name}),
		ContainerIDs: []string{b.ID}, Node: b.report.Name,
		Message: fmt.Sprintf("%s carries %s on %s, and pool %s records it for a sandbox of %s that does not run (%s): an ADD or DEL of that pod may give it away",
			b.pod(), a.Address, b.report.Name, p.ref, a.PodRef, e.Sandbox)}
	if a.ContainerID != "" {
		f.ContainerIDs = append(f.ContainerIDs, a.ContainerID)
	}
	if podRef, ok := x.podRefFor(b); ok {
		f.Repair = p.entryFor(a.Address, b, podRef)
		f.Repair.Previous, f.Repair.Key, f.Repair.IsFenced = a, a.Key, fenced
	}
	return f
}

// carrier is the one sandbox that carries an address of the pool on its network, nil where there is none, or where
// several do: that is a Conflict. One that is READY goes before all others. The pool is known by the CNI result cache.
func (x *Index) carrier(p *pool, addr netip.Addr) *sandboxAddress {
	var one *sandboxAddress
	several := false
	for _, b := range x.sandboxesByAddress[addr] {
		if !p.isOfNetwork(b.NetworkName) || !x.needsEntry(&b, x.renewedBehindFence(DELTimeout, b.report.node)) {
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

// needsEntry reports whether the pools need an entry for what a sandbox carries. Behind the
// fence that is so for one, too, that is stopped or being set up and has a network: its
// DEL waits, and when the fence is lowered an ADD may be faster.
func (x *Index) needsEntry(b *sandboxAddress, fenced bool) bool {
	return x.isReady(&b.mention) || fenced && x.mayRun(&b.mention)
}

// isDoneWithADD reports whether a sandbox has been READY for so long that its ADD is done.
func (x *Index) isDoneWithADD(b *sandboxAddress) bool {
	return x.isReady(&b.mention) && b.report.IsSettled(b.Sandbox, x.now)
}

// podRefFor is the podref of a sandbox's entry: one that no successor takes over where
// the API does not have its pod on this node. ok is false where neither can be told.
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

// renewedBehindFence reports whether the fence had stood for so long when each of these
// nodes' reports was last renewed: behind it no ADD or DEL is half done.
func (x *Index) renewedBehindFence(stood time.Duration, nodes []string) bool {
	if x.o.FencedSince.IsZero() || len(nodes) == 0 {
		return false
	}
	since := x.o.FencedSince.Add(stood)
	for _, name := range nodes {
		if r := x.byNode[name]; r == nil || !r.IsFresh(x.now) || r.ConfirmedAt.Before(since) {
			return false
		}
	}
	return true
}
