package screen

import (
	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
)

// BeforeRecovery writes what recover will write, which a person is asked about below it.
func (s *Screen) BeforeRecovery(d *view.RecoverReport) {
	s.summary(d.Circumstances, d.Totals, "stale")
	s.writes("TO WRITE", lists.Filter(d.Writes, func(r view.WriteRow) bool { return r.State == view.Planned }))
}

// Recovery writes what recover wrote or would write, and why the rest is not written.
func (s *Screen) Recovery(d *view.RecoverReport, wrote bool) {
	s.List()
	s.summary(d.Circumstances, d.Totals, "stale")
	why, count := map[string]int{}, map[string]int{}
	for _, r := range d.Writes {
		if count[r.State]++; r.State != view.Written && r.State != view.Planned {
			why[r.Message]++
		}
	}
	others := lists.Filter(d.Findings, func(f view.Finding) bool { return !f.CanRepair })
	if wrote {
		s.Line("Wrote %d, not written %d.", count[view.Written], len(d.Writes)-count[view.Written])
	} else {
		s.Line("Dry run: nothing is written. To write: %d, for %s.", count[view.Planned],
			Count(len(d.Findings)-len(others), "finding"))
	}
	s.Findings("FINDINGS THAT RECOVER DOES NOT REPAIR", others)
	s.writes("WRITES", d.Writes)
	s.notRepaired(why)
}

func (s *Screen) writes(title string, rows []view.WriteRow) {
	if len(rows) == 0 {
		return
	}
	s.Title(title, len(rows))
	s.Table([]string{"ADDRESS", "STATE", "WHY", "POD", "INSTEAD OF", "NODE", "POOL"},
		lists.Map(rows, func(r view.WriteRow) []string {
			return []string{r.IP, r.State, string(r.Kind), r.PodRef, r.Instead, r.Node, r.Pool}
		}), nil)
}
