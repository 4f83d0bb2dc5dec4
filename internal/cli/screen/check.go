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

// Report writes a report of check or run.
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
	s.legend()
}

func (s *Screen) ran(r *report.Report) {
	rows := report.Only(r.Released, report.OwnRow)
	with := ""
	if n := len(r.Released) - len(rows); n > 0 {
		with = " (with their " + Count(n, "reservation") + ")"
	}
	s.Line("Released %s%s. %s not released.", Count(len(rows), "item"), with, Count(len(r.Left), "item"))
	s.Findings("FINDINGS", r.Findings)
	s.items(released, r, rows)
	s.items("NOT RELEASED", r, document.Rows(r.Left, itemOf))
	s.repaired("REPAIRED", r)
}

func itemOf(x reconciler.Refused) *judge.Item { return x.Item }

func (s *Screen) dryRun(r *report.Report) {
	s.Line("Dry run: nothing is written.")
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

func (s *Screen) notRepaired(why map[string]int) {
	for _, text := range slices.Sorted(maps.Keys(why)) {
		s.Text(fmt.Sprintf("%d not repaired: ", why[text]), text)
	}
}

// Recovery writes what recover wrote or would write, and why the rest is not written.
func (s *Screen) Recovery(out *reconciler.Result, wrote bool) {
	s.summary(report.OfRun(out, !wrote, report.Filter{}))
	var rows [][]string
	why, count := map[string]int{}, map[string]int{}
	for _, r := range out.Writes() {
		rows = append(rows, []string{r.IP, r.State, string(r.Kind), r.PodRef, r.Instead, r.Node, r.Pool})
		if count[r.State]++; r.State != "Written" && r.State != "Planned" {
			why[r.Message]++
		}
	}
	others := report.Only(out.Findings, func(f judge.Finding) bool { return !f.CanRepair() })
	if wrote {
		s.Line("Wrote %d, not written %d.", count["Written"], len(rows)-count["Written"])
	} else {
		s.Line("To write: %d, for %s. Nothing is written without --yes.", count["Planned"],
			Count(len(out.Findings)-len(others), "finding"))
	}
	s.Findings("FINDINGS THAT RECOVER DOES NOT REPAIR", others)
	if len(rows) > 0 {
		s.Title("WRITES", len(rows))
		s.Table([]string{"ADDRESS", "STATE", "WHY", "POD", "INSTEAD OF", "NODE", "POOL"}, rows, nil)
	}
	s.notRepaired(why)
}

var levels = []struct {
	document.Level
	mark string
}{
	{document.LevelError, "✗ "}, {document.LevelWarning, "! "}, {document.LevelOK, "✓ "}, {document.LevelUnknown, "– "},
}

// Status writes the lines of a status by level, each with the command to type next.
func (s *Screen) Status(d *document.Status) {
	count := map[document.Level]int{}
	for _, l := range d.Lines {
		count[l.Level]++
	}
	s.Line("%s, %s.", Count(count[document.LevelError], "error"), Count(count[document.LevelWarning], "warning"))
	for _, level := range levels {
		for _, l := range d.Lines {
			if l.Level != level.Level {
				continue
			}
			s.Text(level.mark, l.Message)
			if l.Next != "" {
				s.Line("    %s", l.Next)
			}
		}
	}
}

// Sysdump writes where the bundle is, what it lacks, and the command that judges it.
func (s *Screen) Sysdump(d *document.Sysdump, path, flags string) {
	s.Line("Wrote %s: %s.", path, Count(len(d.Files), "file"))
	for _, text := range d.Missing {
		s.Text("! ", text)
	}
	if slices.Contains(d.Files, "objects-001.json") {
		s.Line("Judge it: ip-reconcile check --snapshot %s --all%s", path, flags)
	}
}
