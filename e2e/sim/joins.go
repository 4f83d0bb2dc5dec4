package sim

import (
	"math/rand/v2"
	"slices"
	"time"
)

// joined is the step that only plans of drawJoined have.
const joined = "a machine joins after a backup, which is restored"

// drawJoined has machines join after a backup that is restored. A single replica may not know them then.
func (p *Plan) drawJoined(r *rand.Rand) {
	p.Nodes = max(p.Nodes, 3)
	p.Serve, p.Replicas, p.Agents, p.Liar, p.Sliced, p.Visits = true, 2, 1<<p.Nodes-1, 0, 0, false
	p.Steps = p.Steps[:min(len(p.Steps), 3)]
	p.Steps[r.IntN(len(p.Steps))].Kind = kindOf(joined)
}

// joinAfterBackup: a pod's sandbox ends without a DEL, and its address is released. A machine that has joined meanwhile
// gets the pod, which gets the address. Then a backup of before is restored: it has the old entry, and neither the
// Node nor the report of that machine, which is unreachable.
func (s *Simulation) joinAfterBackup(p *podName) {
	b := s.runningOf(p)
	if b == nil || !s.othersReport(b.node) {
		return
	}
	n, saved := s.nodes[(slices.Index(s.nodes, b.node)+1)%len(s.nodes)], time.Time{}
	s.power(n, false)
	s.story(
		scene{time.Minute, func() bool { return !s.isReady(n) && !s.away }, func() {
			s.deleteNode(n)
			for _, k := range []key{{reports, "", n.name}, {leases, leaseNamespace, n.name}} {
				s.api.delete(k)
			}
			for _, q := range s.pods {
				if o := s.podObject(q); o != nil && o.Spec.NodeName == n.name {
					s.deletePod(q, true)
				}
			}
			b.node.loseDELs++
			s.deletePod(p, true)
		}},
		scene{30 * time.Second, func() bool { return !b.inUse() }, func() {
			s.beforeWrite = func() {
				s.saveBackup()
				saved = time.Now()
			}
			s.nudge(100)
			s.after(inspectionTakes, func() { s.nudge(100) })
		}},
		scene{40 * time.Second, func() bool { return !saved.IsZero() && s.entryOf(b.first()) == (allocation{}) }, func() {
			n.joinedAt = time.Now()
			s.power(n, true)
			s.makePod(p, n)
		}},
		scene{2 * time.Minute, func() bool {
			return s.runningOf(p) != nil && s.isReady(n) && time.Since(saved) >= everyAgentWrites
		}, func() {
			s.link(n, false)
			s.restore(false, nil)
		}},
		scene{time.Minute, s.isBack, func() {}},
		s.released(&b, 2*time.Minute, func() { s.link(n, true) }),
	)
}

// isOfUnknownNode reports whether a sandbox is of a node that joined after the backup, and the process that writes was
// started after etcd went: nothing in the API names the node then.
func (s *Simulation) isOfUnknownNode(b *sandbox) bool {
	joined := b.node.joinedAt
	if joined.IsZero() || !s.restoredSince(joined) {
		return false
	}
	went := s.wentAt[max(0, slices.IndexFunc(s.wentAt, joined.Before))]
	return !slices.ContainsFunc(s.replicas, func(r *replica) bool { return r.as == s.writer && r.started.Before(went) })
}
