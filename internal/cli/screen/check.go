package screen

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Report writes a report of check or run: of a run what was done, what was not and why, and what is left.
func (s *Screen) Report(r *report.Report) {
	s.summary(r)
	switch {
	case !r.Ran:
		s.Findings("FINDINGS", r.Findings)
		s.items("STALE", r, r.Pick(judge.Stale))
	case r.DryRun:
		s.dryRun(r)
	default:
		s.ran(r)
	}
	s.items("HELD", r, r.Pick(judge.Held))
	if s.All {
		s.items("IN USE", r, r.Pick(judge.InUse))
	}
}

func (s *Screen) ran(r *report.Report) {
	allocations := len(report.Only(r.Released, func(it *judge.Item) bool { return it.Allocation != nil }))
	s.Line("Released %s and %s; %s left.", Count(allocations, "allocation"), Count(len(r.Released)-allocations, "reservation"),
		Count(len(r.Left), "stale item"))
	s.Findings("FINDINGS LEFT", r.Findings)
	s.items(released, r, report.Only(r.Released, report.OwnRow))
	s.items("NOT RELEASED", r, document.Rows(r.Left, itemOf))
	s.repaired("REPAIRED", r)
}

func itemOf(x reconciler.Refused) *judge.Item { return x.Item }

// dryRun writes what would become of everything that is stale.
func (s *Screen) dryRun(r *report.Report) {
	s.Line("A dry run: nothing is written.")
	s.Findings("FINDINGS", r.Findings)
	const now, never = "WOULD BE RELEASED NOW", "WOULD NOT BE RELEASED"
	for _, title := range []string{now, "WOULD BE RELEASED LATER", never} {
		s.items(title, r, document.Rows(report.Only(r.Left, func(x reconciler.Refused) bool {
			isNow := x.Gate.Why == reconciler.DryRunRefusal
			return isNow == (title == now) && (isNow || x.At().IsZero() == (title == never))
		}), itemOf))
	}
	s.repaired("WOULD BE REPAIRED", r)
	if r.Requests != nil {
		s.requests(r.Requests)
	}
}

// requests writes what a run would send, an operation of a patch on each line.
func (s *Screen) requests(r *report.Requests) {
	if len(r.Deletes) > 0 {
		s.Title("RESERVATIONS TO DELETE", len(r.Deletes))
	}
	for _, name := range r.Deletes {
		s.Line("%s", name)
	}
	if len(r.Patches) > 0 {
		s.Title("PATCHES OF POOLS", len(r.Patches))
	}
	for _, p := range r.Patches {
		s.Line("%s", p.Pool)
		for _, operation := range p.Operations {
			text, _ := json.Marshal(operation) // it was read from JSON
			s.Line("  %s", text)
		}
	}
}

// repaired writes what was written back, and what was not and why.
func (s *Screen) repaired(title string, r *report.Report) {
	if len(r.Repaired)+len(r.Unrepaired) == 0 {
		return
	}
	s.Title(title, len(r.Repaired))
	for _, f := range r.Repaired {
		s.Text("", string(f.Kind)+" of "+f.IP+" in "+f.Pool)
	}
	why := map[string]int{}
	for _, u := range r.Unrepaired {
		if u.Why == reconciler.Breaker { // the same for many
			why[u.Detail]++
		} else {
			why[u.String()]++
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
	columns := []string{"ADDRESS", "STATE", "WHY", "POD", "INSTEAD OF", "NODE", "POOL"}
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
		s.Table(columns, rows, nil)
	}
	s.notRepaired(why)
}
