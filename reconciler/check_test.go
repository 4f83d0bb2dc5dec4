package reconciler

import (
	"slices"
	"strings"
	"testing"

	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// A cluster whose pools have allocations has pods, at least those of whereabouts.
func TestCheck_EmptyListOfPods(t *testing.T) {
	for says, parts := range map[string][]Part{
		"with agents":               {UsualPool, ReportingWorker()},
		"with proof of the runtime": {UsualSandboxGone},
		"without agents":            {UsualPool, Node("worker-1")},
		"of a reservation alone": {Pool("10.0.0.0-24", "10.0.0.0/24"), Reservation("10.0.0.5", "default/web-0", LongAgo),
			ReportingWorker()},
	} {
		t.Run(says, func(t *testing.T) {
			p := newProcess(t, quarter)
			p.PodsComplete = false
			p.next = Observe(parts...)
			if j, err := p.Check(t.Context()); err == nil {
				t.Errorf("it judged: %v", RulingOf(slices.Concat(j.Allocations, j.Reservations)[0]))
			} else if text := err.Error(); !strings.Contains(text, "pod") || strings.Contains(text, "\n") {
				t.Errorf("the error does not say in one line that pods are missing: %s", text)
			}
		})
	}
	p := newProcess(t, quarter)
	p.PodsComplete = false
	p.next = Observe(Pool("10.0.0.0-24", "10.0.0.0/24"), ReportingWorker())
	if _, err := p.Check(t.Context()); err != nil {
		t.Errorf("without allocations no pod is needed: %v", err)
	}
}
