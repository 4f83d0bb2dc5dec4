package sim

import (
	"fmt"
	"strconv"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// stepKind is one kind of event in a cluster.
type stepKind struct {
	name   string
	weight int
	do     func(s *Simulation, a, b int)
}

func (s *Simulation) podAt(i int) *podName { return s.pods[i%len(s.pods)] }
func (s *Simulation) nodeAt(i int) *node   { return s.nodes[i%len(s.nodes)] }

// onNode is a step on a node that is up.
func onNode(do func(*Simulation, *node)) func(*Simulation, int, int) {
	return func(s *Simulation, a, _ int) {
		if n := s.nodeAt(a); n.up {
			do(s, n)
		}
	}
}

func kinds() []stepKind {
	return []stepKind{
		{"a pod is made", 20, func(s *Simulation, a, b int) { s.makePod(s.podAt(a), s.nodeAt(b)) }},
		{"a pod is deleted", 8, func(s *Simulation, a, _ int) { s.deletePod(s.podAt(a), false) }},
		{"a pod is deleted and recreated", 14, func(s *Simulation, a, b int) {
			s.deletePod(s.podAt(a), false)
			s.makeAgain(s.podAt(a), s.nodeAt(b), 40)
		}},
		{"a pod is deleted by force", 8, func(s *Simulation, a, _ int) { s.deletePod(s.podAt(a), true) }},
		{"a pod is deleted by force and recreated elsewhere", 10, func(s *Simulation, a, b int) {
			s.deletePod(s.podAt(a), true)
			s.makePod(s.podAt(a), s.nodeAt(b))
		}},
		{"DELs are lost", 14, onNode(func(s *Simulation, n *node) {
			n.loseDELs += 2
			s.say("the next 2 DELs on %s are lost",
				n.name)
		})},
		{"the runtime's processes are killed", 8, onNode(killRuntime)},
		{"a pod ends by itself", 6, func(s *Simulation, a, b int) {
			s.finish(s.podAt(a), []string{"Failed", "Succeeded"}[b%2],
				true)
		}},
		{"somebody else calls a pod finished", 3, func(s *Simulation, a, b int) {
			s.finish(s.podAt(a),
				[]string{"Failed", "Succeeded"}[b%2], false)
		}},
		{"a sandbox is stopped and stays listed", 6, func(s *Simulation, a, b int) { s.retain(s.nodeAt(a), b) }},
		{"power", 6, func(s *Simulation, a, b int) { s.powerCycle(s.nodeAt(a), b) }},
		{"a machine is replaced under its name", 3, func(s *Simulation, a, _ int) { s.replace(s.nodeAt(a)) }},
		{"the link of a node", 8, onNode(func(s *Simulation, n *node) { s.link(n, !n.linked) })},
		{"kubelet stops or starts", 5, onNode(func(s *Simulation, n *node) {
			n.kubelet = !n.kubelet
			s.say("kubelet on %s runs: %v", n.name, n.kubelet)
			s.wake(n)
		})},
		{"an agent stops", 5, onNode(func(s *Simulation, n *node) {
			n.agent.stop()
			s.say("the agent on %s is killed",
				n.name)
		})},
		{"an agent starts", 5, onNode(func(s *Simulation, n *node) {
			s.startAgent(n)
			s.say("the agent on %s starts",
				n.name)
		})},
		{"a Node is deleted", 2, func(s *Simulation, a, _ int) { s.deleteNode(s.nodeAt(a)) }},
		{"a node is out of service", 3, func(s *Simulation, a, _ int) { s.taint(s.nodeAt(a)) }},
		{"a backup of etcd", 5, func(s *Simulation, a, b int) {
			if s.saveBackup(); b%2 == 0 { // so young that its reports are still fresh
				s.unlessQuiet(s.between(everyAgentWrites, 50*time.Second), func() { s.restore(a%4 == 0, s.everyThird(a)) })
			}
		}},
		{"etcd is restored", 8, func(s *Simulation, a, _ int) { s.restore(a%2 == 0, s.everyThird(a)) }},
		{"a restore forgets who has an address now", 12, func(s *Simulation, a, b int) {
			s.forgetHandover(s.podAt(a), b)
		}},
		{"a restore brings back an earlier boot", 4, func(s *Simulation, a, _ int) { s.earlierBoot(s.podAt(a)) }},
		{"a restore brings back a taint", 4, func(s *Simulation, a, _ int) { s.earlierTaint(s.podAt(a)) }},
		{"a pod is back on its node without an agent", 4, func(s *Simulation, a, b int) {
			s.backWithoutAgent(s.podAt(a), b%4 > 0)
		}},
		{"a delete arrives when its pod is back", 4, func(s *Simulation, a, _ int) { s.deleteLate(s.podAt(a)) }},
		{"the API server restarts", 4, func(s *Simulation, a, _ int) { s.restartAPI(time.Duration(a) * 2 * time.Second) }},
		{"watches are cut", 3, func(s *Simulation, _, _ int) { s.api.CutWatches("") }},
		{"a watch cache lags behind", 3, func(s *Simulation, _, _ int) { s.api.Stale = s.api.Backup() }},
		{"the product is killed", 10, func(s *Simulation, a, b int) { s.killReplica(a, b%3 == 0) }},
		{"the network-status of a pod is lost", 3, func(s *Simulation, a, _ int) { s.loseStatus(s.podAt(a)) }},
		{"a definition is edited", 2, func(s *Simulation, a, b int) { s.editNetwork(a, b) }},
		{"everything is paused or not", 2, func(s *Simulation, a, _ int) { s.pause(a%2 == 0) }},
		{"an entry leaks", 6, func(s *Simulation, a, b int) { s.leak(a, b) }},
		{"many entries leak", 1, func(s *Simulation, a, _ int) {
			for i := range 28 {
				s.leak(a, 2*i+1)
			}
			s.massRelease = true
		}},
		{"a sandbox dies and is recreated", 12, func(s *Simulation, a, b int) {
			if n := s.nodeAt(a); n.up && len(n.sandboxes) > 0 {
				s.stop(n.sandboxes[b%len(n.sandboxes)])
			}
		}},
		{"a sandbox hangs in its end", 4, func(s *Simulation, a, b int) { s.hang(s.nodeAt(a), b) }},
		{"an entry of an earlier sandbox remains", 4, func(s *Simulation, a, b int) { s.leakOf(s.nodeAt(a), b, false) }},
		{"the DEL of a hot-unplug is lost", 3, func(s *Simulation, a, b int) { s.leakOf(s.nodeAt(a), b, true) }},
		{"a machine joins and leaves", 4, func(s *Simulation, a, _ int) { s.visit(time.Duration(1+a*a) * time.Second) }},
		{"a reservation with a finalizer", 1, func(s *Simulation, a, _ int) { s.deleting(a) }},
		{"a pool is written again and again", 3, func(s *Simulation, a, _ int) { s.disturb(s.poolAt(a), 150) }},
		{"an entry that cannot be read", 1, func(s *Simulation, a, b int) { s.oddEntry(a, b) }},
		{"the right to Leases or SandboxReports is taken or given", 4, func(s *Simulation, _, b int) {
			s.forbid([]string{fakeapi.Leases, fakeapi.Reports}[b%2])
		}},
		{"an entry is lost", 2, func(s *Simulation, a, _ int) { s.loseEntry(a) }},
		{"a pool is deleted", 2, func(s *Simulation, a, _ int) { s.deletePool(a) }},
		{"clocks of API servers differ", 2, func(s *Simulation, a, _ int) {
			s.skews[1] = []time.Duration{0, 5 * time.Second,
				-9 * time.Second}[a%3]
		}},
		{"the network stands still", 4, func(s *Simulation, a, _ int) {
			s.away = true
			s.after(time.Duration(a)*700*time.Millisecond, func() { s.away = false })
		}},
		{"releases are planned, read and applied", 12, func(s *Simulation, a, b int) {
			s.review(time.Duration(a*a)*time.Second, time.Duration(a*(b%3))*200*time.Millisecond, 12)
		}},
		{"a person releases by hand", 5, func(s *Simulation, a, b int) { s.releaseByHand(a, b, false) }},
		{"a person overrides what is Held", 12, func(s *Simulation, a, b int) { s.releaseByHand(a, b, true) }},
		{"a machine starts", 14, func(s *Simulation, a, b int) { s.startMachine(s.machineAt(a), s.nodeAt(b)) }},
		{"a machine stops", 8, func(s *Simulation, a, _ int) { s.stopMachine(s.machineAt(a)) }},
		{"a machine stops and starts", 8, func(s *Simulation, a, b int) { s.restartMachine(s.machineAt(a), s.nodeAt(b)) }},
		{"the right to IPAMClaims is taken or given", 3, func(s *Simulation, _, _ int) { s.forbid(fakeapi.Claims) }},
		{"a machine stops, and IPAMClaims cannot be read", 8, func(s *Simulation, a, b int) {
			s.stopUnread(s.machineAt(a), s.nodeAt(b))
		}},
		{"an IPAMClaim is deleted", 8, func(s *Simulation, a, _ int) { s.deleteClaim(s.machineAt(a)) }},
		{slicedAgain, 0, func(s *Simulation, a, b int) { s.sliceAgain(a, b) }},                 // by drawSliced alone
		{whileWaiting, 0, func(s *Simulation, a, b int) { s.backWhileWaiting(s.podAt(a), b) }}, // by drawWaiting alone
		{unseen, 0, func(s *Simulation, a, b int) { s.startUnseen(s.podAt(a), s.nodeAt(b)) }},  // by drawUnseen alone
		{adopted, 0, func(s *Simulation, a, b int) { s.recreate(s.podAt(a), b) }},              // by drawAdopted alone
		{moved, 0, func(s *Simulation, a, b int) { s.move(s.podAt(a), s.nodeAt(b)) }},          // the same
		{joined, 0, func(s *Simulation, a, _ int) { s.joinAfterBackup(s.podAt(a)) }},           // by drawJoined alone
		{removed, 0, func(s *Simulation, a, b int) { s.withhold(a, b) }},                       // by drawRemovals alone
		{registered, 0, func(s *Simulation, a, b int) { s.registerAgain(s.nodeAt(a), b) }},     // the same
		{redefined, 0, func(s *Simulation, a, b int) { s.redefine(a, b) }},                     // by drawEdits alone
	}
}

// nextStep schedules the next step.
func (s *Simulation) nextStep() {
	if s.stepped+1 > len(s.plan.Steps) || s.quiet {
		return
	}
	x := &s.plan.Steps[s.stepped]
	s.after(x.Gap, func() {
		if s.inStory {
			s.after(time.Second, s.nextStep)
			return
		}
		if x.OnWrite == 0 {
			s.step(x)
			return
		}
		s.armed = x
		s.after(time.Minute, func() { // the product may have nothing to write
			if s.armed == x {
				s.step(x)
			}
		})
	})
}

func (s *Simulation) step(x *Step) {
	s.armed = nil
	k := kinds()[x.Kind]
	s.count("step " + k.name)
	k.do(s, x.A, x.B)
	s.stepped++
	s.nextStep()
}

// atWrite plays a step that waits for a write of the product.
func (s *Simulation) atWrite(w *call, before bool) {
	record := w.Resource == fakeapi.Pools || w.Resource == fakeapi.Reservations
	lease := w.Resource == fakeapi.Leases && w.Namespace == kubeSystem
	if before && s.beforeWrite != nil && w.client.product && w.Writes() && (record || lease && s.atLease) {
		do := s.beforeWrite
		s.beforeWrite, s.atLease = nil, false
		do()
	}
	if s.armed == nil || !w.Writes() {
		return
	}
	switch s.armed.OnWrite {
	case 1, 2:
		if !w.client.product || !record && !lease || (s.armed.OnWrite == 1) != before {
			return
		}
	case 3:
		if w.client.product || !record || !before {
			return
		}
	}
	s.count("step at a write")
	s.step(s.armed)
}

// makeAgain creates a pod as soon as the one before is gone, as a StatefulSet does.
func (s *Simulation) makeAgain(p *podName, n *node, tries int) {
	s.after(500*time.Millisecond, func() {
		if s.quiet {
			return
		}
		if s.api.Get(p.key()) == nil {
			s.makePod(p, n)
		} else if tries > 0 {
			s.makeAgain(p, n, tries-1)
		}
	})
}

// killRuntime ends the ADDs and DELs of a runtime.
func killRuntime(s *Simulation, n *node) {
	s.say("the runtime on %s is killed", n.name)
	for _, b := range n.sandboxes {
		if b.process != nil && (b.adding || b.isGiving() && b.open) {
			b.process.killed.Store(true)
			if b.adding && !b.attaching().isFirst() {
				s.count("ADD of a second interface killed")
			}
			b.adding = false
			s.count("ADD or DEL killed")
			// the restarted runtime cleans up; the DEL may be lost
			s.after(s.between(2*time.Second, 20*time.Second), func() {
				if b.open {
					s.closed(b, s.chance(50))
				}
			})
		}
	}
}

// retain stops a sandbox that stays in the runtime's list.
func (s *Simulation) retain(n *node, i int) {
	if !n.up || len(n.sandboxes) == 0 {
		return
	}
	b := n.sandboxes[i%len(n.sandboxes)]
	if b.listed && b.ready {
		b.retained = true
		s.stop(b)
	}
}

// hang keeps a sandbox from ending, ready or not, until all is healed.
func (s *Simulation) hang(n *node, i int) {
	if !n.up || len(n.sandboxes) == 0 {
		return
	}
	if b := n.sandboxes[i%len(n.sandboxes)]; b.open && b.listed && !b.ending {
		b.hangs = true
		b.ready = b.ready && i%3 > 0
		s.say("%s will not end (ready %v)", b, b.ready)
		s.deletePod(b.pod, false)
	}
}

// disturb writes a pool's annotation repeatedly, faster than a read and a write.
func (s *Simulation) disturb(n *network, times int) {
	if times == 0 || s.quiet {
		return
	}
	if !s.away {
		s.edit(n.pool, "somebody", func(c map[string]any) {
			section(section(c, "metadata"), "annotations")["times"] = fmt.Sprint(times)
		})
	}
	s.after(100*time.Millisecond, func() { s.disturb(n, times-1) })
}

func (s *Simulation) restartAPI(away time.Duration) {
	if s.away {
		return
	}
	s.away = true
	s.api.CutWatches("")
	s.say("the API server goes for %s", away)
	s.after(away, s.apiStarts)
}

func (s *Simulation) loseStatus(p *podName) {
	s.edit(p.key(), "user", func(c map[string]any) {
		delete(section(section(c, "metadata"), "annotations"), networkStatus)
	})
}

// deletePool deletes a pool, as is advised where a range is full.
func (s *Simulation) deletePool(a int) {
	if !s.away {
		s.api.Delete(s.poolAt(a).pool)
	}
}

// editNetwork removes a definition, maps it elsewhere, or restores it.
func (s *Simulation) editNetwork(a, how int) {
	if s.away {
		return
	}
	n := s.nets[a%len(s.nets)]
	n.edited = n.edited || how%3 != 2
	switch how % 3 {
	case 0:
		s.api.Delete(fakeapi.At(fakeapi.NADs, podNamespace, n.nad))
	case 1:
		s.edit(fakeapi.At(fakeapi.NADs, podNamespace, n.nad), "user", func(c map[string]any) {
			section(c, "spec")["config"] = `{"type":"macvlan","ipam":{"type":"whereabouts","range":"10.9.0.0/24"}}`
		})
	default:
		s.defineNetwork(n)
	}
}

func (s *Simulation) pause(on bool) {
	s.edit(fakeapi.At(fakeapi.Namespaces, "", ownNamespace), "operator", func(c map[string]any) {
		section(section(c, "metadata"), "annotations")[ippool.PausedAnnotation] = strconv.FormatBool(on)
	})
	s.say("paused: %v", on)
}

func (s *Simulation) isPaused() bool {
	c := fakeapi.Decode(s.api.Get(fakeapi.At(fakeapi.Namespaces, "", ownNamespace)).JSON)
	return section(section(c, "metadata"), "annotations")[ippool.PausedAnnotation] == "true"
}
