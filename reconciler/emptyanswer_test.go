package reconciler

import (
	"slices"
	"strings"
	"testing"
)

// A cluster whose pools have entries has pods, if only those of whereabouts.
func TestAnEmptyAnswerForPodsProvesNothing(t *testing.T) {
	for says, parts := range map[string][]part{
		"with agents":               {usualPool, onWorker()},
		"with proof of the runtime": {goneBox},
		"without agents":            {usualPool, aNode("worker-1")},
		"of a reservation alone":    {aPool("10.0.0.0-24", "10.0.0.0/24"), aReservation("10.0.0.5", "default/web-0", old), onWorker()},
	} {
		t.Run(says, func(t *testing.T) {
			p := newProcess(t, quarter)
			p.Options.PodsComplete = false
			p.next = observe(parts...)
			if j, err := p.Check(t.Context()); err == nil {
				t.Errorf("it could look: %v", outcomeOf(slices.Concat(j.Allocations, j.Reservations)[0]))
			} else if text := err.Error(); !strings.Contains(text, "pod") || strings.Contains(text, "\n") {
				t.Errorf("it does not say in a line that pods were missing: %s", text)
			}
		})
	}
	p := newProcess(t, quarter)
	p.Options.PodsComplete = false
	p.next = observe(aPool("10.0.0.0-24", "10.0.0.0/24"), onWorker())
	if _, err := p.Check(t.Context()); err != nil {
		t.Errorf("nothing is recorded, so that no pod need be there: %v", err)
	}
}
