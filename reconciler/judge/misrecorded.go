package judge

import (
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// DELTimeout is how long the fence must have stood when the report was renewed by which an
// entry is rewritten. CRI-O takes the network of a sandbox down while it is
// still READY, and a DEL that was under way then must have had the time to end.
const DELTimeout = 10 * time.Second

// misrecorded are the entries of items whose sandbox does not run, where another one carries the address.
func (x *Index) misrecorded(items []*Item) (found []Finding) {
	var ended []netip.Addr
	for _, it := range items {
		if it.Allocation != nil && it.evidence.ended() {
			ended = append(ended, it.Allocation.Address)
		}
	}
	for _, addr := range uniqueAddresses(ended) {
		found = append(found, x.misrecordedAt(addr)...)
	}
	return found
}

// misrecordedAt are the pools of which the entry for an address names a sandbox that
// does not run, while another one carries it: the record is of the past, as after a
// restore of etcd, or was taken over. Its own DEL would free the address, and its pod
// gets it again at the next ADD. Where both run it is a Conflict.
func (x *Index) misrecordedAt(addr netip.Addr) []Finding {
	var found []Finding
	for _, p := range x.poolsAt(addr) {
		if p.keyed != nil {
			continue // nothing tells which address the entry stands for
		}
		entries := p.entriesFor(nil, addr)
		if len(entries) != 1 || entries[0].Problem != "" {
			continue
		}
		a := entries[0].Allocation
		b := x.carrier(p, addr)
		if b == nil || b.containerID() == a.ContainerID {
			continue
		}
		e := x.evidenceOnAllocation(p, a)
		if !e.ended() {
			continue
		}
		fenced := x.renewedBehindFence(DELTimeout, b.report.node) && (e.Sandbox == NodeDead || x.renewedBehindFence(DELTimeout, e.Nodes))
		if !fenced && !x.doneWithADD(b) {
			continue
		}
		found = append(found, x.misrecordedFor(p, a, b, &e, fenced))
	}
	return found
}

// ended reports whether the sandbox of an entry is known not to run.
func (e *Evidence) ended() bool {
	switch e.Sandbox {
	case Absent, Gone, Stopped, NodeDead:
		return e.Problem == ""
	}
	return false
}

func (x *Index) misrecordedFor(p *pool, a *ippool.Allocation, b *sandboxAddress, e *Evidence, fenced bool) Finding {
	who := b.name()
	f := Finding{Kind: Misrecorded, IP: a.Address.String(), Pool: p.ref, Pods: sortedUnique([]string{who, a.Owner.Namespace + "/" + a.Owner.Name}),
		ContainerIDs: []string{b.containerID()}, Node: b.report.Name,
		Message: fmt.Sprintf("%s carries %s on %s, and pool %s records it for a sandbox of %s that does not run (%s): an ADD or DEL of that pod may give it away",
			who, a.Address, b.report.Name, p.ref, a.PodRef, e.Sandbox)}
	if a.ContainerID != "" {
		f.ContainerIDs = append(f.ContainerIDs, a.ContainerID)
	}
	if podRef, ok := x.podRefFor(b); ok {
		f.Repair = p.entryFor(a.Address, b, podRef)
		f.Repair.Instead, f.Repair.Key, f.Repair.Fenced = a, a.Key, fenced
	}
	return f
}

// carrier is the one sandbox that carries an address of the pool on its network, nil
// where there is none, or where several do: that is a Conflict. One that is READY goes
// before all others. The pool is known by the CNI result cache.
func (x *Index) carrier(p *pool, addr netip.Addr) *sandboxAddress {
	var one *sandboxAddress
	several := false
	for _, b := range x.sandboxesByAddress[addr] {
		if !p.isOfNetwork(b.NetworkName) || !x.needsEntry(&b, x.renewedBehindFence(DELTimeout, b.report.node)) {
			continue
		}
		switch {
		case one == nil, x.isReady(&b.reportEntry) && !x.isReady(&one.reportEntry):
			one, several = &b, false
		case x.isReady(&one.reportEntry) && !x.isReady(&b.reportEntry):
		case one.containerID() != b.containerID() || one.report != b.report:
			several = true
		}
	}
	if one == nil || several || !x.isRangeOf(p, one.Range) {
		return nil
	}
	return one
}

// needsEntry reports whether the pools need an entry for what a sandbox carries. Behind the
// fence that is so for one, too, that is stopped or being set up and has a network: its
// DEL waits, and when the fence is lowered an ADD may be faster.
func (x *Index) needsEntry(b *sandboxAddress, fenced bool) bool {
	return x.isReady(&b.reportEntry) || fenced && x.mayRun(&b.reportEntry)
}

// doneWithADD reports whether a sandbox has been READY for so long that its ADD is done.
func (x *Index) doneWithADD(b *sandboxAddress) bool {
	return x.isReady(&b.reportEntry) && b.report.Settled(b.sandbox, x.now)
}

func (b *sandboxAddress) name() string {
	namespace, name := b.pod()
	return namespace + "/" + name
}

// podRefFor is the podref of a sandbox's entry: one that no successor takes over where
// the API does not have its pod on this node. ok is false where neither can be told.
func (x *Index) podRefFor(b *sandboxAddress) (podRef string, ok bool) {
	namespace, name := b.pod()
	ref := ippool.PodRef{Namespace: namespace, Name: name}
	if pod := x.pod(ref.Namespace, ref.Name); x.apiHasPod(&b.reportEntry) && (pod.Node == "" || pod.Node == b.report.Name) {
		return ref.String(), true
	}
	ref.UID = b.uid()
	return ref.String(), ref.UID != ""
}

func (p *pool) entryFor(addr netip.Addr, b *sandboxAddress, podRef string) *Repair {
	key, _ := p.Range.Key(addr)
	return &Repair{Pool: p.Pool, Key: strconv.FormatUint(key, 10), Address: addr, Network: b.NetworkName,
		ContainerID: b.containerID(), PodRef: podRef, IfName: b.IfName, Node: b.report.Name}
}

// renewedBehindFence reports whether the fence had stood for so long when each of these
// nodes' reports was last renewed: behind it no ADD or DEL is half done.
func (x *Index) renewedBehindFence(stood time.Duration, nodes []string) bool {
	if x.o.Fenced.IsZero() || len(nodes) == 0 {
		return false
	}
	since := x.o.Fenced.Add(stood)
	for _, name := range nodes {
		if r := x.byNode[name]; r == nil || !x.isFresh(r) || r.Renewed.Before(since) {
			return false
		}
	}
	return true
}
