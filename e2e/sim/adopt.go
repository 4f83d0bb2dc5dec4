package sim

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
)

// The steps that only plans of drawAdopted have.
const (
	adopted = "a pod is recreated while its reservation is deleted"
	moved   = "a pod moves to another network"
)

// drawAdopted has pods that are recreated adopt a reservation of theirs while it is deleted: late, or after they moved
// to another network with the same addresses. Without repairs nothing else puts the reservation back.
func (p *Plan) drawAdopted(r *rand.Rand) {
	p.Repair, p.Serve, p.Unchecked, p.Mixed, p.Liar, p.Sliced, p.Agents = false, false, false, false, 0, 0, 1<<p.Nodes-1
	kind := adopted
	if r.IntN(2) == 0 {
		kind, p.Nets, p.Apart, p.Shared = moved, 2, 0, 2*r.IntN(2)
	}
	p.Steps = p.Steps[:min(len(p.Steps), 4)]
	for range 2 {
		p.Steps[r.IntN(len(p.Steps))].Kind = kindOf(kind)
	}
}

// recreate: a pod's sandbox ends without its last DEL, or with one that removed the entry alone. The pod is recreated
// when the product deletes the reservation, and this delete arrives some seconds later. Its answer and that of the next
// delete may be lost at once, or the product may no longer take whereabouts' Leases. Or the ADD takes the Lease first.
func (s *Simulation) recreate(p *podName, how int) {
	b := s.runningOf(p)
	if b == nil || b.first().of.unchecked {
		return
	}
	a, lost := b.first(), 0
	if how%4 == 2 && s.plan.Faults == 0 { // after more lost requests the reservation may stay away
		lost = 2
	}
	isLone, isBefore, isForbidden := how%4 == 1 || how == 3, how == 3, how == 7
	b.node.loseDELs++
	s.deletePod(p, true)
	s.story(
		scene{30 * time.Second, func() bool { return !b.inUse() }, func() {
			if isLone && !s.away {
				s.edit(a.net.pool, "killed DEL", func(c map[string]any) {
					delete(section(section(c, "spec"), "allocations"), a.net.slot(a.ip))
				})
				s.say("the DEL of %s leaves its reservation", a)
			}
			s.take = func(w *call) bool {
				switch {
				case isBefore && w.Writes() && w.Resource == fakeapi.Leases && w.Namespace == kubeSystem:
				case !isBefore && w.Key == a.net.reservation(a.ip) && w.Method == http.MethodDelete:
				default:
					return false
				}
				if lost--; lost <= 0 {
					s.take = nil
				}
				switch {
				case isForbidden: // the pod is recreated when the product has given up
					s.forbidden[fakeapi.Leases] = true
					s.after(11*time.Second, func() { s.makePod(p, b.node) })
					s.after(30*time.Second, func() { s.forbidden[fakeapi.Leases] = false })
					s.hold(w, s.between(14*time.Second, 20*time.Second), false)
				case isBefore:
					s.makePod(p, b.node)
					s.hold(w, s.between(time.Second, 4*time.Second), false)
				default:
					s.makePod(p, b.node)
					s.hold(w, s.between(2*time.Second, 16*time.Second), lost >= 0)
				}
				return true
			}
			s.nudge(100)
		}},
		scene{5 * time.Minute, func() bool { return s.take == nil }, func() {}},
		scene{time.Minute, func() bool { return s.runningOf(p) != nil }, func() {}},
	)
	s.after(6*time.Minute, func() { s.take = nil })
}

// hold performs a request later. Its answer may be lost before.
func (s *Simulation) hold(w *call, late time.Duration, isLost bool) {
	s.say("%s arrives %s later (its answer is lost at once: %v)", w, late, isLost)
	if !isLost {
		s.postpone(w, late)
		return
	}
	w.reply(fakeapi.Answer{Err: errCut})
	sent := time.Now()
	s.after(late, func() {
		if !s.away && !s.restoredSince(sent) { // the API servers are stopped for a restore
			s.serve(w)
		}
	})
}

// isOwed reports whether an address that is used and has its entry lacks the reservation.
func (s *Simulation) isOwed(k key, d *debt) bool {
	return d.inUse() && s.entryOf(d.attachment).ID == d.id && s.api.Get(k) == nil
}

// move: while releases are paused, a pod's sandbox ends without its DEL, and its template names the next network. It is
// recreated when the first verdict is confirmed, and releases go on.
func (s *Simulation) move(p *podName, to *node) {
	b := s.runningOf(p)
	if b == nil || p.machine != nil || len(s.nets) < 2 {
		return
	}
	b.node.loseDELs++
	s.deletePod(p, true)
	s.pause(true)
	ended := time.Now()
	s.story(
		scene{30 * time.Second, func() bool { return !b.inUse() }, func() { ended = time.Now() }},
		scene{5 * time.Minute, func() bool { return time.Since(ended) > s.plan.Confirm+2*s.plan.Every }, func() {
			s.pause(false)
			nets := make([]*network, 0, len(p.nets))
			for _, n := range p.nets {
				nets = append(nets, s.nets[(slices.Index(s.nets, n)+1)%len(s.nets)])
			}
			p.nets = nets
			s.makePod(p, to)
		}},
		scene{30 * time.Second, func() bool {
			return slices.ContainsFunc(to.sandboxes, func(b *sandbox) bool { return b.pod == p && b.inUse() })
		}, func() { s.nudge(100) }},
	)
}
