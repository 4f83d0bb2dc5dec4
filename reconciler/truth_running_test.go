package reconciler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

const takenOver = "the entry was taken over by another sandbox, and no report or pod has this one"

// cannotBeKnown is why an address that is in use may be judged Stale all the
// same, "" where it may not. These are all the exceptions.
func (w *truth) cannotBeKnown(b *trueSandbox, it *judge.Item) string {
	e, m := evidenceOf(it), b.node
	heard := m.report != nil && w.now.Sub(m.heard) <= time.Minute
	switch {
	case e.Sandbox == judge.NoSource && e.Phase != podstate.Live:
		return "without agents the API is all there is, and a phantom cannot be told from a leak"
	case heard && b.added.After(m.heard) && !it.Proven:
		return "its agent inspected the node last before its ADD; --confirm-after is longer than that lasts"
	case !m.selected && m.report == nil && !w.boundTo(b) && !w.seen[b]:
		return "--agent-nodes says that no such pod runs on that node, and nothing contradicts it"
	case e.ContainerID != "" && e.ContainerID != b.id && !w.isReported(b):
		return takenOver
	case w.copied(b) && !w.isReported(b) && !w.boundTo(b) && !w.seen[b]:
		return "a copy of its machine says that it has ended, and its own never reported it, nor does the API"
	}
	return ""
}

// copied reports whether another machine has the sandbox too.
func (w *truth) copied(b *trueSandbox) bool {
	return slices.ContainsFunc(w.nodes, func(m *machine) bool {
		return slices.ContainsFunc(m.held, func(h *held) bool { return h.sandbox == b && h.copied })
	})
}

// boundTo reports whether the API has a pod of the sandbox's pod's name on its node.
func (w *truth) boundTo(b *trueSandbox) bool {
	p := w.pods[b.pod]
	return p != nil && p.node == b.node
}

// isReported reports whether a report has the sandbox, or its pod carries its address.
func (w *truth) isReported(b *trueSandbox) bool {
	if m := b.node; m.report != nil {
		for _, s := range m.report.Sandboxes {
			if s.ID == b.id {
				return true
			}
		}
		for _, a := range m.report.Attachments {
			if a.ID == b.id {
				return true
			}
		}
	}
	p := w.pods[b.pod]
	return p != nil && p.uid == b.uid && slices.Contains(p.ips, b.ip)
}

// wronglyFreed are sandboxes that run and whose address is judged to be free.
func (w *truth) wronglyFreed(j *judge.Judgement) []string {
	var found []string
	add := func(b *trueSandbox, it *judge.Item) {
		if it.Verdict != judge.Stale || w.cannotBeKnown(b, it) != "" {
			return
		}
		asked := ""
		if e := it.Evidence(); e != nil && e.ContainerID == b.id && !slices.Contains(e.Nodes, b.node.name) {
			asked = fmt.Sprintf("; its node is not asked, only %v", e.Nodes)
		}
		found = append(found, fmt.Sprintf("%s of %s runs on %s with %s, and %s (%s) is %s: %s%s", b.id, b.pod, b.node.name, b.ip, it.Object(), it.ContainerID(), sayOutcome(it), it.Message(), asked))
	}
	for _, b := range w.sandboxes {
		if !b.open {
			continue
		}
		for _, it := range j.Allocations {
			if it.Address().String() == b.ip && it.Pool.Name == b.pool.name {
				add(b, it)
			}
		}
		for _, it := range j.Reservations {
			if it.Reservation.Name == b.pool.reservationOf(b.ip) {
				add(b, it)
			}
		}
	}
	return found
}

// What runs is never judged free: the nodes that are asked include the one that
// truly runs the sandbox, or what is absent proves nothing.
func TestNothingThatRunsIsEverStale(t *testing.T) {
	stale, running := 0, 0
	manyTimes(t, 40, func(rt *rapid.T) {
		p := plots(16).Draw(rt, "plot")
		w := newTruth(p, rapid.SampledFrom([]names{apart, colliding}).Draw(rt, "names"))
		w.run(p)
		j := Judged(Observe(w.parts()...), judge.Policy{})
		for _, it := range j.Allocations {
			if it.Verdict == judge.Stale {
				stale++
			}
		}
		for _, b := range w.sandboxes {
			if b.open {
				running++
			}
		}
		if found := w.wronglyFreed(j); len(found) > 0 {
			rt.Fatalf("%s\nwhat happened:\n%s", strings.Join(found, "\n"), strings.Join(w.log, "\n"))
		}
	})
	if stale == 0 || running == 0 {
		t.Errorf("%d stale, %d running: this shows nothing", stale, running)
	}
}

// evidenceOf is what an item's verdict rests on: of a reservation with an
// allocation, that on the allocation whose verdict it shares.
func evidenceOf(it *judge.Item) *judge.Evidence {
	if e := it.Evidence(); e != nil {
		return e
	}
	return it.SharesVerdictOf().Evidence()
}

func sayOutcome(it *judge.Item) string {
	return Want(it.Verdict, it.Reason, it.Proven, evidenceOf(it).Sandbox).String()
}

// manyTimes checks a property of small clusters: one costs less than a millisecond,
// and what matters in it is rare.
func manyTimes(t *testing.T, times int, property func(*rapid.T)) {
	for range times {
		if rapid.Check(t, property); t.Failed() {
			return
		}
	}
}
