package reconciler

import (
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
)

// Result is what passes observed and did. It is a value: nothing changes it once it is built.
type Result struct {
	*findings.Assessment
	// Restore is the state of the last restore of etcd; nil for none.
	Restore *restore.Status
	// Recheck is when a wait may end without a change in the cluster; zero for never.
	Recheck     time.Time
	Released    []*judge.Item
	Delays      []Delay // those of the released items, where known
	Refused     []plan.Refused
	CommonGates []plan.Gate        // the gates of the last pass that concern more than one item
	Repaired    []findings.Finding // the findings that were repaired, or would be in a dry run
	Unrepaired  []plan.Unrepaired  // the findings that --repair could not repair
	// ToRepair is how many findings --repair has yet to repair: they wait, are paused, were refused or failed.
	ToRepair      int
	Oldest        time.Time     // since when the oldest Stale item is Stale; zero for none
	Attempts      int           // how many items had a second check
	CheckDuration time.Duration // how long observing and judging took
}

// Delay is how long an item was proven, or else Stale, before it was released.
type Delay struct {
	Proven bool
	After  time.Duration
}

// after is the result of a pass together with what the passes before it did; earlier is nil for none.
func (out *Result) after(earlier *Result) *Result {
	if earlier == nil {
		return out
	}
	all := *out
	all.Released = slices.Concat(earlier.Released, out.Released)
	all.Delays = slices.Concat(earlier.Delays, out.Delays)
	all.Repaired = slices.Concat(earlier.Repaired, out.Repaired)
	all.Attempts += earlier.Attempts
	return &all
}

// Then is the result of a run together with that of a later one, which may have been about some of the items only. What
// the later one released, or does not find any more, is not refused.
func (out *Result) Then(later *Result) *Result {
	all := later.after(out).withReleased()
	remains := judge.IDs(slices.Concat(later.Allocations, later.Reservations))
	released := judge.IDs(all.Released)
	all.CommonGates = out.CommonGates
	all.Refused = slices.DeleteFunc(uniqueRefused(slices.Concat(later.Refused, out.Refused)), func(x plan.Refused) bool {
		return released[x.ID()] || !remains[x.ID()]
	})
	return all
}

// Notes has a sentence for each thing that limits the judgement. A restore of etcd that pauses releases comes first.
func (out *Result) Notes() []string {
	notes := out.Assessment.Notes()
	if text := out.Restore.Text(); text != "" {
		notes = slices.Insert(notes, 0, text)
	}
	return notes
}

// unconfirmed returns the items that await confirmation.
func (out *Result) unconfirmed() []plan.Refused {
	return slices.DeleteFunc(slices.Clone(out.Refused), func(x plan.Refused) bool {
		return x.Why != plan.AwaitingConfirmation
	})
}

// ended is the result of a run that has ended: what awaits confirmation has no time of release.
func (out *Result) ended() *Result {
	all := *out
	all.Refused = slices.Clone(out.Refused)
	for i := range all.Refused {
		if g := &all.Refused[i].Gate; g.Why == plan.AwaitingConfirmation {
			g.At, g.Detail = time.Time{}, "not confirmed when the run ended; run again"
		}
	}
	return &all
}

// withWarning is the result with another warning of its observation.
func (out *Result) withWarning(text string) *Result {
	j, o := *out.Judgement, *out.Observation
	o.Warnings = append(slices.Clip(o.Warnings), text)
	j.Observation = &o
	return out.with(&j)
}

// with is the result with another judgement, and the same findings.
func (out *Result) with(j *judge.Judgement) *Result {
	all, a := *out, *out.Assessment
	a.Judgement, all.Assessment = j, &a
	return &all
}

// withReleased is the result with the items that earlier passes released in the last judgement.
func (out *Result) withReleased() *Result {
	if len(out.Released) == 0 {
		return out
	}
	j := *out.Judgement
	j.Allocations, j.Reservations = slices.Clip(j.Allocations), slices.Clip(j.Reservations)
	has := judge.IDs(slices.Concat(j.Allocations, j.Reservations))
	for _, it := range out.Released {
		switch {
		case has[it.ID()]:
		case it.Allocation != nil:
			j.Allocations = append(j.Allocations, it)
		default:
			j.Reservations = append(j.Reservations, it)
		}
		has[it.ID()] = true
	}
	j.Allocations = slices.SortedStableFunc(slices.Values(j.Allocations), judge.ByPlace)
	j.Reservations = slices.SortedStableFunc(slices.Values(j.Reservations), judge.ByPlace)
	return out.with(&j)
}

// uniqueRefused are the refusals without those of an item that has one already.
func uniqueRefused(all []plan.Refused) (unique []plan.Refused) {
	has := make(map[judge.ID]bool, len(all))
	for _, x := range all {
		if id := x.ID(); !has[id] {
			has[id], unique = true, append(unique, x)
		}
	}
	return unique
}

// Needs reports whether something that was not released may have its sandbox, or a claimant, on the report's node.
func (out *Result) Needs(r *podstate.Report) bool {
	released := judge.IDs(out.Released)
	return slices.ContainsFunc(slices.Concat(out.Allocations, out.Reservations), func(it *judge.Item) bool {
		e := it.Evidence()
		return e != nil && (slices.Contains(e.Nodes, r.Name) || e.RivalNode() == r.Name) && !released[it.ID()]
	})
}
