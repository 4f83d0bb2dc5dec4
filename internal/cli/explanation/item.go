package explanation

import (
	"fmt"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/advice"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Item is one allocation or reservation, with what stands against its release.
type Item struct {
	*judge.Item
	// Gates are all that stand against the release of something Stale, the one by which it
	// is refused first. Something Stale without any is released by the next pass.
	Gates []reconciler.Gate
	// At is when it will be released if nothing contradicts it and nothing is added to the
	// gates; zero where that is not known, or nothing stands against it.
	At     time.Time
	Advice []advice.Step
}

func (e *Explanation) item(a advice.Advisor, it *judge.Item) Item {
	item := Item{Item: it}
	if x, refused := e.RefusedOf(it); refused {
		item.Gates, item.At = append([]reconciler.Gate{x.Gate}, x.Also...), x.At()
	}
	item.Advice = e.adviseItem(a, item)
	return item
}

// Release says when something Stale is released, or what stands against it, a sentence
// for each; none for what is not Stale. With several gates no sentence promises more than
// its own gate.
func (it Item) Release() []string {
	switch {
	case it.Verdict != judge.Stale:
		return nil
	case len(it.Gates) == 0:
		return []string{"nothing stands against it: the next pass releases it"}
	}
	var texts []string
	for _, g := range it.Gates {
		texts = append(texts, fmt.Sprintf("not now, %s: %s", g.Why, GateText(g, len(it.Gates) > 1)))
	}
	return texts
}

// GateText is the sentence of a gate. Where there are others, that one opens by itself does
// not mean that anything is released then.
func GateText(g reconciler.Gate, others bool) string {
	if g.Why == reconciler.AwaitingConfirmation && others {
		return fmt.Sprintf("confirmed at %s unless something contradicts it; that alone releases nothing", g.At.UTC().Format(time.RFC3339))
	}
	return g.Detail
}

// claimant is who else carries the address: a pod, or the id of a sandbox.
func claimant(ev *judge.Evidence) (pod, container string) {
	if pod, ok := strings.CutPrefix(ev.Claimant, "pod "); ok {
		return pod, ""
	}
	if rest, ok := strings.CutPrefix(ev.Claimant, "sandbox "); ok {
		container, _, _ = strings.Cut(rest, " ")
	}
	return "", container
}
