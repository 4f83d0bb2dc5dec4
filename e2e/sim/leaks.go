package sim

import (
	"fmt"
	"maps"
	"slices"
)

// leak puts an entry into a pool that nobody has, as a lost DEL of long ago left it; of a
// pod that is there, or of none.
func (s *Simulation) leak(a, how int) {
	n := s.nets[a%len(s.nets)]
	o := s.api.get(n.pool())
	if o == nil || s.away {
		return
	}
	entries := allocationsOf(o)
	for i := 60; i > 0; i-- {
		slot := fmt.Sprint(i)
		if _, there := entries[slot]; there || s.someoneHas(n, slot) {
			continue
		}
		if s.api.get(n.reservation(n.address(slot))) != nil { // of a DEL under way
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
		s.edit(n.pool(), "leak", func(c map[string]any) {
			section(section(c, "spec"), "allocations")[slot] = map[string]any{"id": fmt.Sprintf("%06x%058x", 0xdead00+s.ids, s.ids), "podref": podRef, "ifname": ifName}
		})
		s.api.put(n.reservation(n.address(slot)), map[string]any{
			"apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "OverlappingRangeIPReservation", "spec": map[string]any{"podref": podRef, "ifname": ifName},
		}, s.api.now(), "leak")
		s.say("%s of %s leaks (%s)", n.address(slot), n.pool().name, podRef)
		return
	}
}

// leakOf leaves the entry of a sandbox that has ended, as a lost DEL does: on an interface
// that its pod has no more, so that no ADD takes it over.
func (s *Simulation) leakOf(m *node, i int) {
	for _, b := range m.sandboxes {
		o := s.api.get(b.net.pool())
		if i--; i > 0 || b.open || !b.ip.IsValid() || o == nil || s.away {
			continue
		}
		for slot := 40; slot < 60; slot++ {
			if _, there := allocationsOf(o)[fmt.Sprint(slot)]; there {
				continue
			}
			s.edit(b.net.pool(), "leak", func(c map[string]any) {
				section(section(c, "spec"), "allocations")[fmt.Sprint(slot)] = map[string]any{"id": b.id, "podref": b.pod.ref(), "ifname": "net2"}
			})
			s.say("%s leaks another address", b)
			return
		}
	}
}

func (s *Simulation) someoneHas(n *network, slot string) bool {
	for _, m := range s.nodes {
		for _, b := range m.sandboxes {
			if b.net == n && b.open && (b.adding || b.ip.IsValid() && n.slot(b.ip) == slot) {
				return true
			}
		}
	}
	return false
}

// oddEntry puts an entry into a pool that cannot be judged. It goes when all is healed.
func (s *Simulation) oddEntry(a, how int) {
	n := s.nets[a%len(s.nets)]
	s.edit(n.pool(), "user", func(c map[string]any) {
		entries := section(section(c, "spec"), "allocations")
		if how%2 == 0 {
			entries["61"] = map[string]any{"id": "odd", "podref": podNamespace + "/odd", "ifname": ifName, "since": "2001"}
		} else {
			entries["61"] = map[string]any{"id": "odd", "podref": "no pod", "ifname": ifName}
		}
	})
}

// loseEntry removes the entry of a sandbox that runs, as an operator may by mistake.
func (s *Simulation) loseEntry(i int) {
	for _, m := range s.nodes {
		for _, b := range m.sandboxes {
			if i--; i >= 0 || !b.inUse() || s.away {
				continue
			}
			s.edit(b.net.pool(), "operator", func(c map[string]any) {
				delete(section(section(c, "spec"), "allocations"), b.net.slot(b.ip))
			})
			s.say("the entry of %s (%s) is removed by hand", b, b.ip)
			return
		}
	}
}
