package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// Gate is a cause for which Stale items are not released, with how many wait for it.
type Gate struct {
	reconciler.Gate
	// Count is how many of the items that are shown it stands against, alone or not; Behind
	// how many of them it is not the only gate for.
	Count, Behind int
	// First and Last are when the first and the last of them are released if nothing
	// contradicts it; zero where that is not known.
	First, Last time.Time
}

// Sentence says what stands against how many. No item is said to be released when this gate
// opens that another gate stands against as well.
func (g Gate) Sentence() string {
	but := ""
	if g.Behind > 0 {
		but = fmt.Sprintf(", but for %d that something else stands against, too", g.Behind)
	}
	switch {
	case g.Why != reconciler.AwaitingConfirmation || g.Last.IsZero():
		return g.Detail
	case g.Behind == g.Count:
		return fmt.Sprintf("is not confirmed before %s", g.Last.UTC().Format(time.RFC3339))
	case g.First.Equal(g.Last):
		return fmt.Sprintf("will be released at %s unless something contradicts it%s", g.First.UTC().Format(time.RFC3339), but)
	}
	return fmt.Sprintf("will be released from %s to %s unless something contradicts it%s", g.First.UTC().Format(time.RFC3339), g.Last.UTC().Format(time.RFC3339), but)
}

// gatesOf are the gates that stand, in the order of the refusals, each once: those that
// open at their own time for each item are one.
func gatesOf(standing []reconciler.Gate, refused []reconciler.Refused, f Filter) []Gate {
	var gates []Gate
	byKey := map[reconciler.Gate]int{}
	add := func(g reconciler.Gate, n, behind int) {
		key, at := g, g.At
		if key.At = (time.Time{}); g.Why == reconciler.AwaitingConfirmation && !at.IsZero() {
			key.Detail = ""
		}
		i, there := byKey[key]
		if !there {
			i = len(gates)
			byKey[key] = i
			gates = append(gates, Gate{Gate: key})
		}
		e := &gates[i]
		e.Count += n
		e.Behind += behind
		if !at.IsZero() && (e.First.IsZero() || at.Before(e.First)) {
			e.First = at
		}
		if at.After(e.Last) {
			e.Last = at
		}
	}
	for _, g := range standing {
		if g.Pool == "" || f.Pool(g.Pool) {
			add(g, 0, 0)
		}
	}
	for _, x := range refused {
		if !f.Item(x.Item) || x.Gate.Why == reconciler.DryRunRefusal {
			continue
		}
		behind := min(len(x.Also), 1)
		add(x.Gate, 1, behind)
		for _, g := range x.Also {
			add(g, 1, behind)
		}
	}
	order := reconciler.Refusals()
	slices.SortStableFunc(gates, func(a, b Gate) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Why), slices.Index(order, b.Why)), cmp.Compare(a.Gate.Pool, b.Gate.Pool))
	})
	return gates
}
