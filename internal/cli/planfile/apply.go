package planfile

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// ErrNoUID means that the cluster cannot be identified.
var ErrNoUID = errors.New("cannot read the UID of namespace kube-system, by which a plan identifies its cluster: " +
	"grant get on that namespace")

// Allows reports whether the plan has an item, with all that was read about it unchanged.
func (f *File) Allows(it *judge.Item) bool {
	was := f.items[it.ID()]
	return was != nil && len(changes(*was, planned(it))) == 0
}

// changes returns what has changed since a plan, none where the item may be released. Two changes are none: evidence
// became proof, and the runtime removed a sandbox that had stopped. Messages and network-statuses decide through the
// row of the verdict table.
func changes(was, now document.PlanItem) (texts []string) {
	compare := func(what, before, after string) {
		if before != after {
			texts = append(texts, fmt.Sprintf("%s %s → %s", what, cmp.Or(before, "none"), cmp.Or(after, "none")))
		}
	}
	if was.Evidence.Sandbox.State == judge.Stopped.String() && now.Evidence.Sandbox.State == judge.Gone.String() {
		was.Evidence.Sandbox.State = now.Evidence.Sandbox.State
	}
	compare("sandbox", sandboxOf(was), sandboxOf(now))
	compare("sandbox UID", was.Evidence.Sandbox.UID, now.Evidence.Sandbox.UID)
	compare("pod", podOf(was), podOf(now))
	compare("claimed by", was.Evidence.Claimant, now.Evidence.Claimant)
	if was.Proven && !now.Proven && now.Verdict == judge.Stale {
		compare("verdict", "proven", "unconfirmed")
	}
	compare("verdict", verdictOf(was), verdictOf(now))
	return texts
}

func sandboxOf(it document.PlanItem) string {
	s := it.Evidence.Sandbox
	if len(s.Nodes) == 0 {
		return s.State
	}
	return s.State + " on " + strings.Join(s.Nodes, ", ")
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

// Outcomes returns what became of each item of the plan in a run of what it allows.
func (f *File) Outcomes(out *reconciler.Result) []document.AppliedItem {
	now, released, refused := map[judge.ID]*judge.Item{}, map[judge.ID]bool{}, map[judge.ID]reconciler.Gate{}
	for _, it := range slices.Concat(out.Allocations, out.Reservations) {
		now[it.ID()] = it
	}
	for _, it := range out.Released {
		released[it.ID()] = true
	}
	for _, x := range out.Refused {
		refused[x.ID()] = x.Main()
	}
	return document.Rows(f.Items, func(was document.PlanItem) document.AppliedItem {
		d := document.AppliedItem{PlanItem: was, Outcome: document.NotReleased}
		id := idOf(&was)
		it := now[id]
		if it == nil {
			d.Outcome, d.Detail = missing(out.Observation, id)
			return d
		}
		if d.PlanItem = planned(it); released[id] {
			d.Outcome = document.Released
		} else if gate, isRefused := refused[id]; isRefused {
			d.Refusal, d.Detail = gate.Why, gate.Detail
		} else {
			d.Refusal, d.Detail = reconciler.Changed, cmp.Or(strings.Join(changes(was, d.PlanItem), "; "),
				"changed at the second check; apply the plan again")
		}
		d.Digest = was.Digest
		return d
	})
}

// missing returns the outcome of an item that is not recorded any more.
func missing(o *judge.Observation, id judge.ID) (outcome document.Outcome, detail string) {
	at := slices.IndexFunc(o.Pools, func(p *ippool.Pool) bool { return p.Ref() == id.Object })
	if at < 0 || id.Key == "" {
		return document.AlreadyReleased, ""
	}
	switch a := o.Pools[at].Find(id.Key); {
	case a == nil:
		return document.AlreadyReleased, ""
	case a.Problem != "":
		return document.NotReleased, "the allocation cannot be parsed any more: " + a.Detail
	default:
		return document.AlreadyReleased, "its address is allocated to " + a.PodRef + " now"
	}
}
