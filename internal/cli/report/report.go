// Package report is what check, run and explain print, before it is laid out: a judgement, for each Stale item
// the gates that stand against it, and what was done. Package document makes rows and JSON of it, package screen
// lays out the rows as text.
//
// report.go has the Report, gate.go its gates, filter.go what is asked for, and failon.go
// what makes a command fail.
package report

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Report is a judgement, or of it what a filter picks, with what stands against each
// Stale item.
type Report struct {
	*judge.Judgement
	Filter Filter
	// Of has as many of each as there were before the filter.
	Of judge.Summary
	// Refused are the Stale items that are not released, by ID.
	Refused map[judge.ID]reconciler.Refused
	// Gates are what stands against releases, the cluster-wide ones first.
	Gates []Gate

	// Ran: this is of a run, and DryRun of one that wrote nothing.
	Ran, DryRun bool
	Released    []*judge.Item
	Left        []reconciler.Refused // in the order in which they were refused
	Repaired    []judge.Finding
	Unrepaired  []reconciler.Unrepaired
	// Requests are what a run would send, where that is asked for; else nil.
	Requests *Requests
}

// OfCheck is a judgement with what a pass would do now.
func OfCheck(j *judge.Judgement, plan *reconciler.Plan, f Filter) *Report {
	return of(j, plan.Refused, plan.Standing, f)
}

// OfRun is the result of a run; of the findings those that are left.
func OfRun(out *reconciler.Result, dryRun bool, f Filter) *Report {
	r := of(out.Judgement, out.Refused, out.Standing, f)
	r.Ran, r.DryRun, r.Repaired, r.Unrepaired = true, dryRun, out.Repaired, out.Unrepaired
	r.Released = only(out.Released, f.Item)
	r.Left = only(out.Refused, func(x reconciler.Refused) bool { return f.Item(x.Item) })
	if !dryRun {
		r.Findings = only(r.Findings, func(f judge.Finding) bool { return !slices.ContainsFunc(out.Repaired, f.Is) })
	}
	return r
}

func of(j *judge.Judgement, refused []reconciler.Refused, standing []reconciler.Gate, f Filter) *Report {
	picked := *j
	picked.Allocations, picked.Reservations = only(j.Allocations, f.Item), only(j.Reservations, f.Item)
	picked.Findings = only(j.Findings, func(x judge.Finding) bool { return f.Finding(&x) })
	r := &Report{Judgement: &picked, Filter: f, Of: j.Summary(), Refused: map[judge.ID]reconciler.Refused{}}
	for _, x := range refused {
		if f.Item(x.Item) {
			r.Refused[x.ID()] = x
		}
	}
	r.Gates = gatesOf(standing, refused, f)
	return r
}

// only is a copy of those that a filter lets through.
func only[T any](all []T, is func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(all), func(x T) bool { return !is(x) })
}

// Summary counts what was asked for.
func (r *Report) Summary() judge.Summary {
	sum := r.Judgement.Summary()
	sum.Pools = 0
	for _, p := range r.Observation.Pools {
		if r.Filter.Pool(p.Ref()) {
			sum.Pools++
		}
	}
	return sum
}

// RefusedOf is what stands against an item. A reservation that shares an allocation's
// verdict shares that, too.
func (r *Report) RefusedOf(it *judge.Item) (reconciler.Refused, bool) {
	if shared := it.SharesVerdictOf(); shared != nil {
		it = shared
	}
	x, refused := r.Refused[it.ID()]
	return x, refused
}

// Pick are the items of a verdict that have a row of their own: a reservation that shares
// its allocation's verdict stands in its allocation's row.
func (r *Report) Pick(v judge.Verdict) []*judge.Item {
	is := func(it *judge.Item) bool { return it.Verdict == v && OwnRow(it) }
	return only(slices.Concat(r.Allocations, r.Reservations), is)
}

// OwnRow reports whether an item is listed by itself.
func OwnRow(it *judge.Item) bool { return it.Allocation != nil || len(it.Related()) == 0 }

// Addresses are those of what needs attention, or of everything, each once: what -o name
// prints. What has no readable address is left out.
func (r *Report) Addresses(all bool) []string {
	var found []netip.Addr
	for _, it := range slices.Concat(r.Allocations, r.Reservations) {
		if (all || it.Verdict != judge.InUse || len(r.Filter.Verdicts) > 0) && it.Address().IsValid() {
			found = append(found, it.Address())
		}
	}
	for _, f := range r.Findings {
		for _, text := range strings.Split(f.IP, ",") {
			if addr, err := netip.ParseAddr(text); err == nil {
				found = append(found, addr)
			}
		}
	}
	slices.SortFunc(found, netip.Addr.Compare)
	var texts []string
	for _, addr := range slices.Compact(found) {
		texts = append(texts, addr.String())
	}
	return texts
}
