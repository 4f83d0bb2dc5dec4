package screen

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/table"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Report writes a report of check or run: of a run what was done, what was not and why, and what is left.
func (s *Screen) Report(r *report.Report) {
	s.summary(r)
	switch {
	case !r.Ran:
		s.Findings("FINDINGS", r.Findings)
		s.items(section{title: "STALE", level: table.Warn, release: true}, r, r.Pick(judge.Stale))
	case r.DryRun:
		s.dryRun(r)
	default:
		s.ran(r)
	}
	s.items(section{title: "HELD", level: table.Plain}, r, r.Pick(judge.Held))
	if s.All {
		s.items(section{title: "IN USE", level: table.Good}, r, r.Pick(judge.InUse))
	}
}

func (s *Screen) ran(r *report.Report) {
	allocations := 0
	var released, left []*judge.Item
	for _, it := range r.Released {
		if it.Allocation != nil {
			allocations++
		}
		if report.OwnRow(it) {
			released = append(released, it)
		}
	}
	for _, x := range r.Left {
		left = append(left, x.Item)
	}
	reservations := len(r.Released) - allocations
	s.Line("Released %s and %s; %s left.", Count(allocations, "allocation"), Count(reservations, "reservation"), Count(len(left), "stale item"))
	s.Findings("FINDINGS LEFT", r.Findings)
	s.items(section{title: "RELEASED", level: table.Good}, r, byPlace(released))
	s.items(section{title: "NOT RELEASED", level: table.Warn, release: true}, r, byPlace(left))
	s.repaired("REPAIRED", r)
}

// dryRun writes what would become of everything that is stale.
func (s *Screen) dryRun(r *report.Report) {
	var now, afterwards, never []*judge.Item
	for _, x := range r.Left {
		switch {
		case x.Gate.Why == reconciler.DryRunRefusal:
			now = append(now, x.Item)
		case !x.At().IsZero():
			afterwards = append(afterwards, x.Item)
		default:
			never = append(never, x.Item)
		}
	}
	s.Line("A dry run: nothing is written.")
	s.Findings("FINDINGS", r.Findings)
	s.items(section{title: "WOULD BE RELEASED NOW", level: table.Warn, release: true}, r, byPlace(now))
	s.items(section{title: "WOULD BE RELEASED LATER", level: table.Warn, release: true}, r, byPlace(afterwards))
	s.items(section{title: "WOULD NOT BE RELEASED", level: table.Bad, release: true}, r, byPlace(never))
	s.repaired("WOULD BE REPAIRED", r)
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

func byPlace(items []*judge.Item) []*judge.Item {
	slices.SortStableFunc(items, func(a, b *judge.Item) int {
		return cmp.Or(cmp.Compare(a.Object(), b.Object()), a.Address().Compare(b.Address()))
	})
	return items
}

// repaired writes what was written back, and what was not and why.
func (s *Screen) repaired(title string, r *report.Report) {
	if len(r.Repaired)+len(r.Unrepaired) == 0 {
		return
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
	s.notRepaired(why)
}

// notRepaired writes each reason once, with how many it is about.
func (s *Screen) notRepaired(why map[string]int) {
	for _, text := range slices.Sorted(maps.Keys(why)) {
		s.Text(fmt.Sprintf("%d not repaired: ", why[text]), text)
	}
}

// Recovery writes what recover wrote, or would write, and below why something is not written.
func (s *Screen) Recovery(out *reconciler.Result, wrote bool) {
	s.summary(report.OfRun(out, !wrote, report.Filter{}))
	columns := []table.Column{{Name: "ADDRESS"}, {Name: "STATE"}, {Name: "WHY"}, {Name: "POD", Cut: 14},
		{Name: "INSTEAD OF", Cut: 12}, {Name: "NODE", Cut: 8, Optional: true}, {Name: "POOL", Cut: 16, Optional: true}}
	var rows [][]string
	why, written := map[string]int{}, 0
	for _, r := range out.Writes() {
		rows = append(rows, []string{r.IP, r.State, string(r.Kind), r.PodRef, r.Instead, r.Node, r.Pool})
		switch r.State {
		case "Written":
			written++
		case "Planned":
		default:
			why[r.Message]++
		}
	}
	if wrote {
		s.Line("Wrote %d; %d left.", written, len(rows)-written)
	} else {
		s.Line("%d to write; nothing is written without --yes.", len(rows))
	}
	s.Findings("FINDINGS", slices.DeleteFunc(slices.Clone(out.Findings), judge.Finding.CanRepair))
	if len(rows) > 0 {
		s.Line("")
		s.Table(columns, rows)
	}
	s.notRepaired(why)
}
