package sim

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
)

// machine is a virtual machine, whose pods have one IPAMClaim.
type machine struct {
	claim  key
	made   time.Time  // the claim
	pods   []*podName // of which one runs at a time
	starts int
}

// claimRef is the value of ipamclaimref.
func (m *machine) claimRef() string { return m.claim.Namespace + "/" + m.claim.Name }

// machineAt is one of two machines. Its pods are of the network of a pod of the plan.
func (s *Simulation) machineAt(i int) *machine {
	for n := len(s.machines); n < 2; n++ {
		m := &machine{claim: fakeapi.At(fakeapi.Claims, podNamespace, fmt.Sprintf("vm-%d.%s", n, ifName))}
		for _, suffix := range []string{"a", "b"} {
			m.pods = append(m.pods, &podName{namespace: podNamespace, name: fmt.Sprintf("vm-%d-%s", n, suffix),
				nets: s.podAt(n).nets[:1], machine: m})
		}
		s.machines = append(s.machines, m)
		s.pods = append(s.pods, m.pods...)
	}
	return s.machines[i%2]
}

// runs reports whether one of the machine's pods exists.
func (s *Simulation) runs(m *machine) bool {
	return slices.ContainsFunc(m.pods, func(p *podName) bool { return s.api.Get(p.key()) != nil })
}

// startMachine creates the machine's claim, unless it exists, and another pod than before.
func (s *Simulation) startMachine(m *machine, n *node) {
	if s.away || s.runs(m) {
		return
	}
	if s.api.Get(m.claim) == nil {
		s.api.Put(m.claim, map[string]any{"apiVersion": "k8s.cni.cncf.io/v1alpha1", "kind": "IPAMClaim"}, s.api.Now(), "user")
		m.made = time.Now()
		s.say("IPAMClaim %s is made", m.claim.Name)
	}
	m.starts++
	s.makePod(m.pods[m.starts%2], n)
}

// stopMachine deletes the machine's pods. Its claim stays.
func (s *Simulation) stopMachine(m *machine) {
	for _, p := range m.pods {
		s.deletePod(p, false)
	}
}

// restartMachine stops the machine, and starts it as soon as its pod is gone.
func (s *Simulation) restartMachine(m *machine, n *node) {
	s.stopMachine(m)
	s.when(func() bool { return !s.runs(m) }, s.between(0, 20*time.Second), func() { s.startMachine(m, n) })
}

// stopUnread stops the machine once it has an entry, and forbids reading its claim.
func (s *Simulation) stopUnread(m *machine, n *node) {
	s.startMachine(m, n)
	s.when(func() bool {
		return slices.ContainsFunc(s.ranges, func(r *network) bool {
			entries := slices.Collect(maps.Values(allocationsOf(s.api.Get(r.pool))))
			return r.isOf(m.pods[0].nets[0]) &&
				slices.ContainsFunc(entries, func(a allocation) bool { return a.Claim == m.claimRef() })
		})
	}, 0, func() {
		s.stopMachine(m)
		s.forbidden[fakeapi.Claims] = true
		s.say("no permission on IPAMClaims, and %s stops", m.claimRef())
	})
}

// deleteClaim deletes a machine's claim, whether the machine runs or not.
func (s *Simulation) deleteClaim(m *machine) {
	if !s.away && s.api.Get(m.claim) != nil {
		s.api.Delete(m.claim)
		s.say("IPAMClaim %s is deleted", m.claim.Name)
	}
}

// takesOver gives a machine's sandbox the entry of the claim, as the ADD of whereabouts' pull request 742 does; false
// where there is none. While another sandbox has the address the ADD fails.
func (s *Simulation) takesOver(a *attachment) bool {
	if a.pod.machine == nil || s.api.Get(a.pod.machine.claim) == nil {
		return false
	}
	ref := a.pod.machine.claimRef()
	a.net = s.currentPool(a.of, a.node)
	entries := allocationsOf(s.api.Get(a.net.pool))
	for _, slot := range slices.Sorted(maps.Keys(entries)) {
		if entries[slot].Claim != ref {
			continue
		}
		s.after(s.between(0, 2*time.Second), func() {
			ip := a.net.address(slot)
			now := allocationsOf(s.api.Get(a.net.pool))[slot]
			if now.Claim != ref || s.away || !a.node.reaches() || slices.ContainsFunc(s.holders(a.net, ip, now),
				func(other *attachment) bool { return other != a }) {
				s.added(a, netip.Addr{}, fmt.Errorf("the entry of %s cannot be taken over", ref))
				return
			}
			s.claimed(a, ip)
			s.count("entry taken over")
			s.added(a, ip, nil)
		})
		return true
	}
	return false
}

// claimed writes a sandbox and its machine's claim into the entry and the reservation of an address.
func (s *Simulation) claimed(a *attachment, ip netip.Addr) {
	spec := map[string]any{"podref": a.pod.ref(), "ifname": a.ifName, "ipamclaimref": a.pod.machine.claimRef()}
	if k := a.net.reservation(ip); !a.of.unchecked {
		content := map[string]any{"apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "OverlappingRangeIPReservation"}
		if o := s.api.Get(k); o != nil {
			content = fakeapi.Decode(o.JSON)
		}
		content["spec"] = maps.Clone(spec)
		s.api.Put(k, content, s.api.Now(), "whereabouts-add")
	}
	spec["id"] = a.id
	s.edit(a.net.pool, "whereabouts-add", func(c map[string]any) {
		section(section(c, "spec"), "allocations")[a.net.slot(ip)] = spec
	})
	s.say("%s: %s is of %s", a, ip, spec["ipamclaimref"])
}

// keepsEntry reports whether DEL keeps the entry of an attachment, since it names a claim.
func (s *Simulation) keepsEntry(a *attachment) bool {
	if !a.ip.IsValid() {
		return false
	}
	entry := s.entryOf(a)
	return entry.ID == a.id && entry.Claim != ""
}

// claimOf is the machine whose claim an entry names and exists; nil for none.
func (s *Simulation) claimOf(entry allocation) *machine {
	for _, m := range s.machines {
		if m.claimRef() == entry.Claim && s.api.Get(m.claim) != nil {
			return m
		}
	}
	return nil
}

// checkClaim checks that a released entry names no claim that exists. One that was created or restored after the second
// check is too young.
func (s *Simulation) checkClaim(a netip.Addr, entry allocation) {
	if entry.Claim == "" {
		return
	}
	s.count("released without a claim")
	m := s.claimOf(entry)
	if m != nil && s.asked.Sub(m.made) > holdLasts && s.asked.Sub(s.restoredAt) > holdLasts {
		s.fail("%s was released by the product, and IPAMClaim %s exists", a, entry.Claim)
	}
}
