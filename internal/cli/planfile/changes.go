package planfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Of returns the plan of items that a person reads on a screen.
func Of(items []*judge.Item) *File {
	f := &File{items: map[judge.ID]document.PlanItem{}}
	for _, it := range items {
		f.items[it.ID()] = planned(it)
	}
	return f
}

// find returns the item of the plan that a judged item is: the same one, or one in whose place something stands that
// cannot be parsed.
func (f *File) find(it *judge.Item) (was document.PlanItem, isPlanned bool) {
	now := it.ID()
	if was, isPlanned = f.items[now]; isPlanned || it.Allocation != nil && it.Allocation.Problem == "" ||
		it.Reservation != nil && it.Reservation.Problem == "" {
		return was, isPlanned
	}
	for id, was := range f.items {
		if id.Object == now.Object && id.Key == now.Key && id.UID == now.UID {
			return was, true
		}
	}
	return was, false
}

// Has reports whether the plan has an item, whatever has changed since.
func (f *File) Has(it *judge.Item) bool {
	_, isPlanned := f.find(it)
	return isPlanned
}

// Allows reports whether the plan has an item, and all that was read about the item is unchanged.
func (f *File) Allows(it *judge.Item) bool { return f.Has(it) && len(f.Changes(it)) == 0 }

// Changes returns what has changed about an item of the plan since, none where the item may be released. Two changes
// are none: the verdict became proven, and the runtime removed a sandbox that had stopped. The row of the verdict table
// stands for all evidence that is not compared.
func (f *File) Changes(it *judge.Item) (texts []string) {
	was, _ := f.find(it)
	now := planned(it)
	compare := func(what, before, after string) {
		if before != after {
			texts = append(texts, fmt.Sprintf("%s %s → %s", what, cmp.Or(before, "none"), cmp.Or(after, "none")))
		}
	}
	if was.Sandbox == judge.Stopped.String() && now.Sandbox == judge.Gone.String() {
		was.Sandbox = now.Sandbox
	}
	compare("problem", was.Evidence.Problem, now.Evidence.Problem)
	compare("sandbox", sandboxOf(was), sandboxOf(now))
	compare("pod", podOf(was), podOf(now))
	compare("claimant", was.Evidence.Claimant, now.Evidence.Claimant)
	if was.Proven && !now.Proven && now.Verdict == judge.Stale {
		compare("verdict", "proven", "unconfirmed")
	}
	compare("verdict", verdictOf(was), verdictOf(now))
	return texts
}

func sandboxOf(it document.PlanItem) string {
	if nodes := it.Evidence.Sandbox.Nodes; len(nodes) > 0 {
		return it.Sandbox + " on " + strings.Join(nodes, ", ")
	}
	return it.Sandbox
}

func podOf(it document.PlanItem) string {
	p := it.Evidence.Pod
	if p == nil {
		return ""
	}
	return fmt.Sprintf("%s on %s with UID %s", p.Phase, cmp.Or(p.Node, "no node"), p.UID)
}

func verdictOf(it document.PlanItem) string {
	return fmt.Sprintf("%s (%s, rule %s)", it.Verdict, it.Reason, it.Rule)
}

// Complete adds to the result of a run of what the plan allows why it does not allow the other items of the plan.
func (f *File) Complete(out *reconciler.Result) {
	done, recorded := map[judge.ID]bool{}, 0
	for _, it := range out.Released {
		done[it.ID()] = true
	}
	for _, x := range out.Refused {
		done[x.ID()] = true
	}
	for _, it := range slices.Concat(out.Allocations, out.Reservations) {
		if !f.Has(it) {
			continue
		}
		if recorded++; !done[it.ID()] {
			detail := cmp.Or(strings.Join(f.Changes(it), "; "), "changed at the second check; apply the plan again")
			out.Refused = append(out.Refused, reconciler.Refused{Item: it,
				Gate: reconciler.Gate{Why: reconciler.Changed, Detail: detail}})
		}
	}
	if n := len(f.items) - recorded; n > 0 {
		out.Observation.Warnings = append(out.Observation.Warnings,
			fmt.Sprintf("%d of %d items of the plan are not recorded any more: already released", n, len(f.items)))
	}
	out.Judgement.Findings = nil // a plan has none
}
