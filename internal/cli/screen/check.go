package screen

import (
	"encoding/json"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/table"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Check writes a report of check.
func (s *Screen) Check(r *report.Report) {
	s.summary(r)
	s.Findings("FINDINGS", r.Findings)
	s.items(section{title: "STALE", level: table.Warn, release: true}, r, r.Pick(judge.Stale))
	s.heldAndInUse(r)
}

func (s *Screen) heldAndInUse(r *report.Report) {
	s.items(section{title: "HELD", level: table.Plain}, r, r.Pick(judge.Held))
	if s.All {
		s.items(section{title: "IN USE", level: table.Good}, r, r.Pick(judge.InUse))
	}
}

// Run writes a report of run: what was done, what was not and why, and what is left.
func (s *Screen) Run(r *report.Report) {
	s.summary(r)
	if r.DryRun {
		s.dryRun(r)
	} else {
		s.ran(r)
	}
	s.heldAndInUse(r)
}

func (s *Screen) ran(r *report.Report) {
	allocations, reservations := 0, 0
	var released []*judge.Item
	for _, it := range r.Released {
		if it.Allocation != nil {
			allocations++
		} else {
			reservations++
		}
		if report.OwnRow(it) {
			released = append(released, it)
		}
	}
	s.Line("Released %s and %s; %s left.", Count(allocations, "allocation"), Count(reservations, "reservation"), Count(len(r.Left), "stale item"))
	s.Findings("FINDINGS LEFT", r.Findings)
	s.items(section{title: "RELEASED", level: table.Good}, r, byPlace(released))
	s.items(section{title: "NOT RELEASED", level: table.Warn, release: true}, r, itemsOf(r.Left, nil))
	s.repaired(r)
}

// dryRun writes what would become of everything that is stale.
func (s *Screen) dryRun(r *report.Report) {
	now := func(x reconciler.Refused) bool { return x.Gate.Why == reconciler.DryRunRefusal }
	later := func(x reconciler.Refused) bool { return !now(x) && !x.At().IsZero() }
	never := func(x reconciler.Refused) bool { return !now(x) && !later(x) }
	s.Line("A dry run: nothing is written.")
	s.Findings("FINDINGS", r.Findings)
	s.items(section{title: "WOULD BE RELEASED NOW", level: table.Warn, release: true}, r, itemsOf(r.Left, now))
	s.items(section{title: "WOULD BE RELEASED LATER", level: table.Warn, release: true}, r, itemsOf(r.Left, later))
	s.items(section{title: "WOULD NOT BE RELEASED", level: table.Bad, release: true}, r, itemsOf(r.Left, never))
	s.repaired(r)
	if r.Requests != nil {
		s.requests(r.Requests)
	}
}

// requests writes what a run would send, an operation of a patch on each line.
func (s *Screen) requests(r *report.Requests) {
	if len(r.Deletes) > 0 {
		s.Title(table.Plain, "RESERVATIONS TO DELETE", len(r.Deletes))
	}
	for _, name := range r.Deletes {
		s.Line("%s", name)
	}
	if len(r.Patches) > 0 {
		s.Title(table.Plain, "PATCHES OF POOLS", len(r.Patches))
	}
	for _, p := range r.Patches {
		s.Line("%s", p.Pool)
		for _, operation := range p.Operations {
			text, _ := json.Marshal(operation) // it was read from JSON
			s.Line("  %s", text)
		}
	}
}

func itemsOf(refused []reconciler.Refused, is func(reconciler.Refused) bool) []*judge.Item {
	var items []*judge.Item
	for _, x := range refused {
		if is == nil || is(x) {
			items = append(items, x.Item)
		}
	}
	return byPlace(items)
}

// repaired writes what was written back, and what was not and why.
func (s *Screen) repaired(r *report.Report) {
	if len(r.Repaired)+len(r.Unrepaired) == 0 {
		return
	}
	title := "REPAIRED"
	if r.DryRun {
		title = "WOULD BE REPAIRED"
	}
	s.Title(table.Good, title, len(r.Repaired))
	for _, f := range r.Repaired {
		s.Text("", string(f.Kind)+" of "+f.IP+" in "+f.Pool)
	}
	why := map[string]int{}
	for _, u := range r.Unrepaired {
		if u.Why == reconciler.Breaker { // the same for many
			why[u.Detail]++
		} else {
			s.Text("not repaired: ", u.String())
		}
	}
	s.Reasons(why)
}
