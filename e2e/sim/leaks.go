package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
)

// leak adds an entry without a sandbox to a pool after an earlier lost DEL; of a pod that exists, or of none.
func (s *Simulation) leak(a, how int) {
	n := s.poolAt(a)
	o := s.api.Get(n.pool)
	if o == nil || s.away {
		return
	}
	entries := allocationsOf(o)
	for i := n.top(); i > 0; i-- {
		slot := fmt.Sprint(i)
		if _, there := entries[slot]; there || s.someoneHas(n, slot) {
			continue
		}
		if s.api.Get(n.reservation(n.address(slot))) != nil { // of a DEL in progress
			continue
		}
		s.ids++
		podRef := podNamespace + "/of-the-past"
		if how%2 == 0 {
			podRef = s.podAt(how).ref()
			if slices.ContainsFunc(slices.Collect(maps.Values(entries)), func(e allocation) bool { return e.PodRef == podRef }) {
				podRef += "-before"
			}
		}
		s.edit(n.pool, "leak", func(c map[string]any) {
			section(section(c, "spec"), "allocations")[slot] = map[string]any{"id": fmt.Sprintf("%06x%058x", 0xdead00+s.ids,
				s.ids), "podref": podRef, "ifname": ifName}
		})
		s.say("%s of %s leaks (%s)", n.address(slot), n.pool.Name, podRef)
		if n.unchecked {
			return
		}
		s.api.Put(n.reservation(n.address(slot)), map[string]any{
			"apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "OverlappingRangeIPReservation",
			"spec": map[string]any{"podref": podRef, "ifname": ifName},
		}, s.api.Now(), "leak")
		return
	}
}

// leakOf leaves the entry of a sandbox that has ended, as a lost DEL does, or of one that runs, as the lost DEL of a
// hot-unplug does: on an interface that the pod no longer has, so that no ADD takes it over.
func (s *Simulation) leakOf(m *node, i int, runs bool) {
	for _, b := range m.sandboxes {
		if i--; i > 0 || b.open != runs || runs && (!b.ready || b.adding || b.ending) {
			continue
		}
		if s.leakAs(b, b.pod.ref()) {
			return
		}
	}
}

// leakAs adds an entry of a sandbox and a pod, and reports whether it did.
func (s *Simulation) leakAs(b *sandbox, podRef string) bool {
	last := b.attachments[len(b.attachments)-1]
	o := s.api.Get(last.net.pool)
	if !last.ip.IsValid() || o == nil || s.away {
		return false
	}
	top := last.net.top()
	for slot := top - 20; slot < top; slot++ {
		if _, there := allocationsOf(o)[fmt.Sprint(slot)]; there {
			continue
		}
		s.edit(last.net.pool, "leak", func(c map[string]any) {
			section(section(c, "spec"), "allocations")[fmt.Sprint(slot)] = map[string]any{"id": b.id, "podref": podRef,
				"ifname": detached}
		})
		s.say("%s leaks another address (it runs: %v)", b, b.open)
		return true
	}
	return false
}

// visit adds a machine without an agent, and removes it before anything is known of it. After a restore its Node would
// be the backup's and stay, so no restore follows.
func (s *Simulation) visit(stays time.Duration) {
	if s.away {
		return
	}
	s.visits++
	n := &node{name: fmt.Sprint("spot-", s.visits)}
	id := n.identity()
	s.writeNode(n, "True", map[string]any{"bootID": id.BootID, "systemUUID": id.Machine.SystemUUID,
		"machineID": id.Machine.MachineID})
	s.say("%s joins", n.name)
	s.early[n.name] = !s.restoredAt.IsZero() && !s.lastDetected().After(s.detectedBefore)
	if !s.restoredAt.IsZero() {
		s.joined[n.name] = time.Now()
	}
	var leave func()
	leave = func() {
		if s.away {
			s.after(time.Second, leave)
			return
		}
		s.api.Delete(fakeapi.At(fakeapi.Nodes, "", n.name))
		s.say("%s leaves", n.name)
	}
	s.after(stays, leave)
}

// deleting adds a reservation without an owner that a finalizer keeps until all is healed.
func (s *Simulation) deleting(a int) {
	n := s.poolAt(a)
	k := n.reservation(n.address(n.kept()))
	if s.away || s.api.Get(k) != nil {
		return
	}
	at := s.api.Now().UTC().Format(time.RFC3339)
	s.api.Put(k, map[string]any{"apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "OverlappingRangeIPReservation",
		"metadata": map[string]any{"deletionTimestamp": at, "finalizers": []any{"example.com/keep"}},
		"spec":     map[string]any{"podref": podNamespace + "/of-the-past", "ifname": ifName}}, s.api.Now(), "leak")
}

func (s *Simulation) someoneHas(n *network, slot string) bool {
	for a := range s.attachments() {
		if (n.isOf(a.of) || a.net.name == n.name && !n.unchecked) && a.open && (a.sandbox.adding ||
			a.ip.IsValid() && n.slot(a.ip) == slot) {
			return true
		}
	}
	return false
}

// oddEntry adds an entry that cannot be judged, until all is healed.
func (s *Simulation) oddEntry(a, how int) {
	n := s.poolAt(a)
	s.edit(n.pool, "user", func(c map[string]any) {
		entries := section(section(c, "spec"), "allocations")
		if how%2 == 0 {
			entries[n.odd()] = map[string]any{"id": "odd", "podref": podNamespace + "/odd", "ifname": ifName, "since": "2001"}
		} else {
			entries[n.odd()] = map[string]any{"id": "odd", "podref": "no pod", "ifname": ifName}
		}
	})
}

// loseEntry removes the entry of a running sandbox, as an operator may by mistake.
func (s *Simulation) loseEntry(i int) {
	for a := range s.attachments() {
		if i--; i >= 0 || !a.inUse() || s.away {
			continue
		}
		s.edit(a.net.pool, "operator", func(c map[string]any) {
			delete(section(section(c, "spec"), "allocations"), a.net.slot(a.ip))
		})
		s.say("the entry of %s (%s) is removed by hand", a, a.ip)
		return
	}
}
