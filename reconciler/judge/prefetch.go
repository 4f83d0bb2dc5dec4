package judge

import (
	"net/netip"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// What was read lies scattered over the memory, and following one object after
// the other waits for memory a dozen times each. The processor waits for many
// places at once where one does not depend on the other: so each chunk is touched
// first, level by level. Judging 250,000 allocations takes half the time so.

// chunk is how many objects are touched at a time: they must fit in its cache.
const chunk = 128

// prefetched sums up what was touched, so that the reads are made.
type prefetched uint64

func (t *prefetched) text(s string) {
	if len(s) > 0 {
		*t += prefetched(s[len(s)-1])
	}
}

func (t *prefetched) pods(pods []*podstate.Pod) {
	for _, p := range pods {
		*t += prefetched(len(p.Name)) + prefetched(len(p.Interfaces)) + prefetched(p.Phase)
	}
	for _, p := range pods {
		t.text(p.Name)
		for i := range p.Interfaces {
			*t += prefetched(len(p.Interfaces[i].Addresses))
		}
	}
	for _, p := range pods {
		for i := range p.Interfaces {
			iface := &p.Interfaces[i]
			t.text(iface.Network)
			if len(iface.Addresses) > 0 {
				*t += prefetched(iface.Addresses[0].BitLen())
			}
		}
	}
}

func (t *prefetched) report(r *podstate.Report) {
	for i := range r.Sandboxes {
		b := &r.Sandboxes[i]
		t.text(b.ID)
		if len(b.Addresses) > 0 {
			*t += prefetched(len(b.Addresses[0].IP))
		}
	}
	for i := range r.Sandboxes {
		for k := range r.Sandboxes[i].Addresses {
			t.text(r.Sandboxes[i].Addresses[k].IP)
		}
	}
}

// hashes are what is looked up of a chunk of allocations.
type hashes struct{ id, pod [chunk]uint64 }

// prefetchAllocations reads what allocations lead to, and hashes their names on the way.
func (x *Index) prefetchAllocations(all []ippool.Allocation, h *hashes) {
	t := &x.prefetched
	for i := range all {
		t.text(all[i].ContainerID)
		t.text(all[i].Owner.Name)
	}
	for i := range all {
		h.id[i], h.pod[i] = x.text(all[i].ContainerID), x.name(all[i].Owner.Namespace, all[i].Owner.Name)
		*t += x.byContainerID.prefetch(h.id[i]) + x.byName.prefetch(h.pod[i])
	}
	var entries [chunk]reportEntry
	var pods [chunk]*podstate.Pod
	for i := range all {
		if c := x.byContainerID.find(h.id[i]); true {
			if number, ok := c.next(); ok {
				entries[i] = x.entry(number)
			}
		}
		if c := x.byName.find(h.pod[i]); true {
			if number, ok := c.next(); ok {
				pods[i] = x.pods[number]
			}
		}
	}
	for i := range all {
		if b := entries[i].sandbox; b != nil {
			*t += prefetched(len(b.ID)) + prefetched(len(b.State))
		}
		if p := pods[i]; p != nil {
			*t += prefetched(len(p.Name)) + prefetched(len(p.Interfaces)) + prefetched(p.Phase)
		}
	}
	for i := range all {
		if b := entries[i].sandbox; b != nil {
			t.text(b.ID)
			t.text(b.UID)
			t.text(b.Name)
		}
		if p := pods[i]; p != nil {
			t.text(p.Name)
			t.text(p.UID)
			for k := range p.Interfaces {
				*t += prefetched(len(p.Interfaces[k].Addresses))
			}
			if len(p.IPs) > 0 {
				*t += prefetched(p.IPs[0].BitLen())
			}
		}
	}
	for i := range all {
		if p := pods[i]; p != nil {
			for k := range p.Interfaces {
				if a := p.Interfaces[k].Addresses; len(a) > 0 {
					*t += prefetched(a[0].BitLen())
				}
			}
		}
	}
}

// prefetch reads where a hash is looked up.
func (l *lookup) prefetch(hash uint64) prefetched {
	if len(l.slots) == 0 {
		return 0
	}
	return prefetched(l.slots[l.home(uint32(hash>>32))].tag)
}

// additions are numbers that go into a lookup together.
type additions struct {
	hashes    []uint64
	numbers   []uint32
	addresses []netip.Addr // where they are what is hashed
}

func (p *additions) add(hash uint64, number uint32) {
	p.hashes, p.numbers = append(p.hashes, hash), append(p.numbers, number)
}

// addAll adds them, and calls shared for what shares a tag.
func (l *lookup) addAll(p *additions, t *prefetched, shared func(i int)) {
	for _, h := range p.hashes {
		*t += l.prefetch(h)
	}
	for i, h := range p.hashes {
		if l.add(h, p.numbers[i]) {
			shared(i)
		}
	}
	p.hashes, p.numbers, p.addresses = p.hashes[:0], p.numbers[:0], p.addresses[:0]
}
