package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
)

// joined is the step that only plans of drawJoined have.
const joined = "a machine joins after a backup, which is restored"

// drawJoined has machines join after a backup that is restored. Two replicas run, since one that is started then knows
// those machines only from the other.
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
	s.story(append([]scene{
		{time.Minute, func() bool { return !s.isReady(n) && !s.away }, func() {
			s.deleteNode(n)
			for _, k := range []key{fakeapi.At(fakeapi.Reports, "", n.name),
				fakeapi.At(fakeapi.Leases, leaseNamespace, n.name)} {
				s.api.Delete(k)
			}
			for _, q := range s.pods {
				if o := s.podObject(q); o != nil && o.Spec.NodeName == n.name {
					s.deletePod(q, true)
				}
			}
			b.node.loseDELs++
			s.deletePod(p, true)
		}},
		{30 * time.Second, func() bool { return !b.inUse() }, func() {
			s.beforeWrite = func() {
				s.saveBackup()
				saved = time.Now()
			}
			s.nudge(100)
			s.after(inspectionTakes, func() { s.nudge(100) })
		}},
		{40 * time.Second, func() bool { return !saved.IsZero() && s.entryOf(b.first()) == (allocation{}) }, func() {
			s.power(n, true)
			s.makePod(p, n)
		}},
	}, s.restoredWithout(n, &b, func() bool {
		return s.runningOf(p) != nil && s.isReady(n) && time.Since(saved) >= everyAgentWrites
	}, func() {
		if s.chance(50) { // the one that is started then may lead
			s.killReplica(s.rng.IntN(2), false)
		}
	})...)...)
}

// restoredWithout is how a story ends: the backup is restored while a node is unreachable.
func (s *Simulation) restoredWithout(n *node, b **sandbox, when func() bool, do func()) []scene {
	return []scene{
		{2 * time.Minute, when, func() {
			s.link(n, false)
			s.restore(false, nil)
			do()
		}},
		{time.Minute, s.isBack, func() {}},
		s.released(b, 150*time.Second, func() { s.link(n, true) }),
	}
}

// isOfUnknownNode reports whether a sandbox is of a node that joined, or registered again, after the backup, and each
// replica has read the cluster only since etcd went, or cannot detect the restore: nothing in the API names the node
// then. As soon as a pass can have read its Node object again, it must be waited for.
func (s *Simulation) isOfUnknownNode(b *sandbox) bool {
	n := b.node
	isBack := s.api.Get(fakeapi.At(fakeapi.Nodes, "", n.name)) != nil && s.asked.Sub(n.madeAt) > evidenceLasts
	if n.lostAt.IsZero() || isBack {
		return false
	}
	return s.isHidden || !slices.ContainsFunc(s.replicas, func(r *replica) bool {
		return !r.knewAt.IsZero() && !r.knewAt.After(n.lostAt)
	})
}
