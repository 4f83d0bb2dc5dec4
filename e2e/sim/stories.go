package sim

import (
	"bytes"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
)

// scene is a part of a story: what happens as soon as a condition holds. The story ends where it does not hold in time.
type scene struct {
	within time.Duration
	when   func() bool
	do     func()
}

// story plays scenes one after the other: conjunctions that single steps rarely cause. Until the last, the
// next step waits.
func (s *Simulation) story(scenes ...scene) {
	s.inStory = true
	var play func([]scene)
	play = func(rest []scene) {
		if len(rest) == 0 {
			s.inStory = false
			return
		}
		end := time.Now().Add(rest[0].within)
		var poll func()
		poll = func() {
			switch {
			case rest[0].when():
				rest[0].do()
				play(rest[1:])
			case time.Now().Before(end):
				s.after(250*time.Millisecond, poll)
			default:
				s.inStory = false
			}
		}
		poll()
	}
	play(scenes)
}

// runningOf is the sandbox of a pod that runs and has its entry; nil for none.
func (s *Simulation) runningOf(p *podName) *sandbox {
	for _, n := range s.nodes {
		for _, b := range n.sandboxes {
			if b.pod == p && b.inUse() && b.listed && s.entryOf(b.first()).ID == b.id {
				return b
			}
		}
	}
	return nil
}

// othersReport reports whether the agent of a node runs, and that of another node.
func (s *Simulation) othersReport(n *node) bool {
	reports := func(m *node) bool { return m.reaches() && m.agent != nil && m.agent.cancel != nil }
	return reports(n) && slices.ContainsFunc(s.nodes, func(m *node) bool { return m != n && reports(m) })
}

// released is the last scene: it ends when the product has released an address, or after some time.
func (s *Simulation) released(b **sandbox, within time.Duration, then func()) scene {
	var end time.Time
	return scene{within + time.Second, func() bool {
		if end.IsZero() {
			end = time.Now().Add(within)
			s.nudge(70)
		}
		return !time.Now().Before(end) || s.entryOf((*b).first()) == (allocation{})
	}, then}
}

// isBack reports whether etcd is back after a restore.
func (s *Simulation) isBack() bool { return !s.away }

// inspectionTakes is the time in which an agent inspects its node and reports, without an event of the runtime.
const inspectionTakes = 12 * time.Second

// forgetHandover: a sandbox ends without a DEL, its entry is released, and its address is assigned again. Then a backup
// from in between is restored: it has the old entry, and the report of the node, which is unreachable, has no other.
// Where atWrite, the backup is of between a pass' lists and its write, else of before that pass. How it goes on:
//   - inPass: etcd goes while a pass takes the Lease for another entry, so that only its live read shows the restore.
//   - expired: the node is reachable without agent and kubelet. The product restarts when the restored report has
//     expired, so that nothing shows it a restore. An agent that lies would be believed: the old sandbox has ended.
//
// Where agents do not read addresses the kubelet stops, so that the sandbox outlives the partition.
func (s *Simulation) forgetHandover(p *podName, how int) {
	b := s.runningOf(p)
	if b == nil {
		return
	}
	if s.plan.Agents == 0 {
		s.forgetAdoption(p, b)
		return
	}
	n, saved := b.node, time.Time{}
	save := func() {
		s.saveBackup()
		saved = time.Now()
	}
	n.loseDELs++
	s.deletePod(p, true)
	// A liar may remember the id (docs/explain/threat-model.md).
	inPass, expired := how%2 == 0 && how > 0, how%4 == 3 && s.plan.Liar == 0
	atWrite, hasAgent, within := how%2 == 0 || expired, n.hasAgent, 40*time.Second
	if expired || s.plan.Unread {
		within = 3 * time.Minute
	}
	s.story(
		scene{30 * time.Second, func() bool { return !b.inUse() }, func() {
			s.after(s.between(0, 5*time.Second), func() {
				if atWrite {
					s.beforeWrite = save
				} else {
					save()
				}
				s.nudge(100)
				s.after(inspectionTakes, func() { s.nudge(100) })
			})
		}},
		scene{40 * time.Second, func() bool { return !saved.IsZero() && s.entryOf(b.first()) == (allocation{}) }, func() {
			s.makePod(p, n)
		}},
		scene{30 * time.Second, func() bool {
			return slices.ContainsFunc(n.sandboxes, func(b *sandbox) bool { return b.pod == p && b.inUse() && b.ready }) &&
				(atWrite || time.Since(saved) >= everyAgentWrites)
		}, func() {
			n.kubelet = !expired && !s.plan.Unread
			switch {
			case inPass:
				s.leakAs(b, podNamespace+"/of-the-past")
				s.beforeWrite, s.atLease = func() { s.restoreEtcd(true, false, n) }, true
				s.nudge(100)
			case expired:
				n.agent.stop()
				n.hasAgent = false
				s.restore(false, nil)
				s.replaceAll(reportsLookFresh + evidenceLasts)
			default:
				s.restore(false, n)
			}
		}},
		s.released(&b, within, func() {
			s.beforeWrite, s.atLease = nil, false
			n.hasAgent, n.kubelet = hasAgent, true
		}),
	)
}

// forgetAdoption: a pass finds the entry of a pod that was deleted. The pod is back and takes the entry over before the
// next pass, and a backup from in between is restored while kubelet is down, so that the pod runs on.
func (s *Simulation) forgetAdoption(p *podName, b *sandbox) {
	n, found := b.node, time.Time{}
	n.loseDELs++
	s.deletePod(p, true)
	s.story(
		scene{30 * time.Second, func() bool { return !b.inUse() }, func() {
			s.saveBackup()
			s.writeOther() // by which the pass detects the restore
			s.nudge(100)
			found = time.Now()
		}},
		scene{time.Minute, func() bool { return time.Since(found) > 4*time.Second }, func() { s.makePod(p, n) }},
		scene{30 * time.Second, func() bool { return s.runningOf(p) != nil }, func() {
			n.kubelet = false
			s.restore(false, nil)
		}},
		scene{2 * time.Minute, func() bool { return s.isBack() && time.Since(found) > s.plan.Confirm+4*time.Second },
			func() {}},
		s.released(&b, 40*time.Second, func() { n.kubelet = true }),
	)
}

// earlierBoot: a node is booted after a backup, reports to the restored cluster, and becomes unreachable before its
// kubelet has written the boot again. Its pod then counts as failed, or is deleted by force.
func (s *Simulation) earlierBoot(p *podName) {
	b := s.runningOf(p)
	if b == nil || !s.othersReport(b.node) || !s.plan.Repair {
		return
	}
	n, saved := b.node, time.Now()
	s.saveBackup()
	s.power(n, false)
	s.story(
		scene{time.Minute, func() bool { return time.Since(saved) > 5*time.Second }, func() { s.power(n, true) }},
		scene{90 * time.Second, func() bool {
			b = s.runningOf(p)
			return b != nil && b.node == n && time.Since(saved) >= everyAgentWrites
		}, func() {
			n.kubelet = false
			s.restore(false, nil)
		}},
		scene{time.Minute, func() bool { return s.entryOf(b.first()).ID != b.id }, func() {}},
		scene{3 * time.Minute, func() bool { return s.entryOf(b.first()).ID == b.id }, func() {
			s.link(n, false)
			if s.finish(p, "Failed", false); s.chance(30) {
				s.deletePod(p, true)
			}
		}},
		s.released(&b, 150*time.Second, func() {}),
	)
}

// earlierTaint: a node that was out of service is repaired after a backup, and its pod is back there. It is unreachable
// during the restore, which brings the taint back.
func (s *Simulation) earlierTaint(p *podName) {
	b := s.runningOf(p)
	if b == nil || !s.othersReport(b.node) {
		return
	}
	n, saved := b.node, time.Time{}
	s.power(n, false)
	s.story(append([]scene{
		{time.Minute, func() bool { return !s.isReady(n) }, func() {
			s.taint(n)
			s.deletePod(p, true)
			s.saveBackup()
			saved = time.Now()
			s.power(n, true)
			s.makePod(p, n)
		}},
	}, s.restoredWithout(n, &b, func() bool {
		b = s.runningOf(p)
		return b != nil && b.node == n && time.Since(saved) >= everyAgentWrites
	}, func() {})...)...)
}

// isReady reports whether the Node object is Ready.
func (s *Simulation) isReady(n *node) bool {
	o := s.api.Get(fakeapi.At(fakeapi.Nodes, "", n.name))
	return o != nil && bytes.Contains(o.JSON, []byte(`"status":"True"`))
}

// backWithoutAgent: a pod is back on its node, which was booted and whose agent does not start. A backup of just before
// its ADD is restored, and if no agent has written since, nothing shows that: the entry has the sandbox of the earlier
// boot. The backup may lack the pod, whose sandbox then has its grace period.
func (s *Simulation) backWithoutAgent(p *podName, podInBackup bool) {
	b := s.runningOf(p)
	if b == nil || !s.othersReport(b.node) {
		return
	}
	n, on := b.node, time.Now().Add(s.between(30*time.Second, 70*time.Second))
	s.power(n, false)
	n.hasAgent = false
	s.story(
		scene{2 * time.Minute, func() bool { return time.Now().After(on) }, func() {
			s.deletePod(p, true)
			if !podInBackup {
				s.saveBackup()
			}
			s.makePod(p, n)
			if podInBackup {
				s.saveBackup()
			}
			s.power(n, true)
		}},
		scene{30 * time.Second, func() bool {
			b = s.runningOf(p)
			return b != nil && b.node == n
		}, func() {
			b.hangs = !podInBackup
			s.restore(true, nil)
		}},
		scene{time.Minute, s.isBack, func() {}},
		s.released(&b, 4*time.Minute, func() { n.hasAgent = true }),
	)
}

// deleteLate: a sandbox ends without a DEL. The delete of its reservation hangs, or may be sent again after some
// seconds. When it arrives, another sandbox of the pod has the address, whose ADD found the reservation.
func (s *Simulation) deleteLate(p *podName) {
	b := s.runningOf(p)
	if b == nil || b.first().of.unchecked {
		return
	}
	n, a, began := b.node, b.first(), time.Time{}
	n.loseDELs++
	s.deletePod(p, true)
	s.story(
		scene{30 * time.Second, func() bool { return !b.inUse() }, func() {
			s.late = a.net.reservation(a.ip)
			s.nudge(100)
		}},
		scene{2 * time.Minute, func() bool { return s.late == key{} }, func() {
			began = time.Now()
			s.makePod(p, n)
		}},
		scene{2 * time.Minute, func() bool { return time.Since(began) > longestHang }, func() {}},
	)
}
