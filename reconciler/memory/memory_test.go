package memory

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// past is a Memory as judging reads it, where nothing is known of reports and of restores.
type past struct{ Memory }

func (past) SawReports() bool                { return false }
func (past) DoubtsTaint(*podstate.Node) bool { return false }
func (past) LosesNode(string) string         { return "" }
func (past) DoubtsStatus(time.Time) bool     { return false }

func (m Memory) judged(o *Observed, policy facts.Policy) *judge.Judgement {
	o.Past = past{m}
	return Judged(o, policy).Judgement
}

// text is all that a Memory knows.
func (m Memory) text() string {
	lines := []string{fmt.Sprintf("%+v %+v %s", m.nodes, m.unknown, m.oldestStale)}
	for at, known := range m.items {
		lines = append(lines, fmt.Sprintf("%x %s %+v %+v %+v", at, known.first, known.confirmation, known.pod, known.past))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// Three passes over each of many clusters. What is made of a memory does not change it, and is the same each time.
func TestMemory_IsAValue(t *testing.T) {
	isConfirmed := false
	for seed := range Seeds(300) {
		c := NewRandom(seed, 79)
		o, policy := ObserveDistinct(c.Cluster()), c.Policy()
		m := Memory{}.Next(Memory{}.judged(Observe(), policy)) // has its seeds
		for range 3 {
			j := m.judged(o, policy)
			_, o = c.Changes(o)
			items := slices.Concat(j.Allocations, j.Reservations)
			before, next := m.text(), m.Next(j)
			text := next.text()
			for _, made := range []Memory{next, next.Next(j), next.Unconfirmed(), next.Without(items), m.Without(items)} {
				made.Next(m.judged(o, policy))
			}
			switch {
			case m.text() != before:
				t.Fatalf("seed %d: the memory was\n%s\nand is\n%s", seed, before, m.text())
			case next.text() != text:
				t.Fatalf("seed %d: the next memory was\n%s\nand is\n%s", seed, text, next.text())
			case m.Next(j).text() != text:
				t.Fatalf("seed %d: the next memory is\n%s\nand then\n%s", seed, text, m.Next(j).text())
			}
			m = next
			if !m.OldestStale().IsZero() {
				isConfirmed = true
			}
		}
	}
	if !isConfirmed {
		t.Error("no pass had a Stale item")
	}
}

// What a pass does not change is shared with the memory before.
func TestMemory_SharesWhatIsUnchanged(t *testing.T) {
	parts := []Part{UsualPool, UsualPod(Carrying("10.0.0.5")), Node("worker-1"), FreshReport("worker-1"),
		Reservation("10.0.0.9", "default/gone", time.Hour)}
	pass := func(m Memory, after time.Duration) Memory {
		return m.Next(m.judged(Observe(append(parts, At(Now.Add(after)))...), facts.Policy{}))
	}
	first := pass(Memory{}, 0)
	second := pass(first, 10*time.Second)
	if len(second.items) != 2 {
		t.Errorf("%d items", len(second.items))
	}
	for at, known := range second.items {
		if known != first.items[at] {
			t.Errorf("it was %+v and is %+v", first.items[at], known)
		}
	}
}

// Two thousand pods start, leak and end.
func TestMemory_ForgetsMissingItems(t *testing.T) {
	var m Memory
	pass := func(parts ...Part) { m = m.Next(m.judged(Observe(parts...), facts.Policy{})) }
	for i := range 20 {
		var entries []Allocation
		var pods []Part
		for n := range 100 {
			name := fmt.Sprint("web-", 100*i+n)
			entries = append(entries, Alloc(fmt.Sprint(n+1), "default/"+name, "box-"+name, "net1"))
			pods = append(pods, Pod(name), Reservation(fmt.Sprint("10.0.0.", n+1), "default/"+name, time.Hour))
		}
		pool := Pool("10.0.0.0-24", "10.0.0.0/24", entries...)
		pass(append(pods, pool)...)
		pass(pool)
		if n := len(m.items); n != 100 {
			t.Fatalf("%d items", n)
		}
	}
	pass(Pool("10.0.0.0-24", "10.0.0.0/24"))
	if n := len(m.items); n != 0 {
		t.Errorf("%d items are remembered, want none", n)
	}
}
