package screen

import (
	"slices"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/table"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Recovery writes what recover wrote, or would write.
func (s *Screen) Recovery(out *reconciler.Result, wrote bool) {
	r := report.OfRun(out, !wrote, report.Filter{})
	s.summary(r)
	rows, written := out.Writes(), 0
	for _, row := range rows {
		if row.State == "Written" {
			written++
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
		s.writes(rows)
	}
}

// writes lists what is written, and below why something is not.
func (s *Screen) writes(rows []reconciler.WriteRow) {
	columns := []table.Column{{Name: "ADDRESS"}, {Name: "STATE"}, {Name: "WHY"}, {Name: "POD", Cut: 14}, {Name: "INSTEAD OF", Cut: 12}, {Name: "NODE", Cut: 8, Optional: true}, {Name: "POOL", Cut: 16, Optional: true}}
	cells, why := make([][]string, 0, len(rows)), map[string]int{}
	for _, r := range rows {
		cells = append(cells, []string{r.IP, r.State, string(r.Kind), r.PodRef, table.Dash(r.Instead), table.Dash(r.Node), r.Pool})
		if r.State != "Planned" && r.State != "Written" {
			why[r.Message]++
		}
	}
	s.Table(columns, cells)
	s.Reasons(why)
}
