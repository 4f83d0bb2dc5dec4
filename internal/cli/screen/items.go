package screen

import (
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/table"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// items writes a section of items, of some verdict or fate.
func (s *Screen) items(level table.Level, title string, r *report.Report, items []*judge.Item) {
	rows := document.Rows(items, func(it *judge.Item) document.AllocationRow { return document.OfItem(r, it) })
	s.rows(level, title, r.Observation.Now, rows)
}

// rows writes a section: a row for each item, and below it the sentences behind its verdict and behind what stands
// against its release alone. Of many there are the counts of each reason, and the first rows without sentences.
func (s *Screen) rows(level table.Level, title string, now time.Time, rows []document.AllocationRow) {
	if len(rows) == 0 {
		return
	}
	s.Title(level, title, len(rows))
	shown := rows[:s.shown(document.Rows(rows, reason))]
	release := ""
	if level == table.Warn { // what is Stale and not released
		release = "RELEASE"
	}
	columns := []string{"ADDRESS", "REASON", release, "POD", "SANDBOX", "NODE", "POOL OR RESERVATION"}
	if s.Wide {
		columns = append(columns, "INTERFACE", "CONTAINER", "RULE", "MESSAGE")
	}
	lines := s.Lines(columns, document.Rows(shown, func(d document.AllocationRow) []string { return cells(d, now)[:len(columns)] }))
	headers := len(lines) - len(shown)
	for i, line := range lines {
		s.Line("%s", line)
		if i < headers || s.Wide || len(shown) < len(rows) {
			continue
		}
		s.Text("    ", shown[i-headers].Message)
		if why := shown[i-headers].Refusal; why == reconciler.Changed || why == reconciler.LeaseBusy || why == reconciler.WriteFailed {
			s.Text("    ", shown[i-headers].Detail) // the others are above the sections, once
		}
	}
	s.more(len(rows)-len(shown), "row")
	if release != "" && slices.ContainsFunc(rows, isUnconfirmed) {
		s.Text("", "? = unconfirmed: released once nothing has contradicted the verdict for --confirm-after. "+
			"RELEASE is for a run that starts now (UTC); 'serve' may have confirmed it earlier.")
	}
}

func cells(d document.AllocationRow, now time.Time) []string {
	if d.IsReservation {
		d.Pool += " (reservation)"
	}
	return []string{d.IP, reason(d), release(d, now), d.PodRef, d.Sandbox, d.Node, d.Pool, d.IfName, d.ContainerID, d.Rule, d.Message}
}

// reason is the word, with a ? where the verdict is not confirmed.
func reason(d document.AllocationRow) string {
	if isUnconfirmed(d) {
		return d.Reason.String() + "?"
	}
	return d.Reason.String()
}

func isUnconfirmed(d document.AllocationRow) bool { return d.Verdict == judge.Stale && !d.Proven }

// release is when something Stale is released, or in a word why it is not. A time within a day of now has no date.
func release(d document.AllocationRow, now time.Time) string {
	switch {
	case d.Refusal == "":
		return "now"
	case d.ReleasableAt == nil:
		return string(d.Refusal)
	case d.ReleasableAt.Sub(now).Abs() < 24*time.Hour:
		return d.ReleasableAt.Format(time.TimeOnly)
	}
	return d.ReleasableAt.Format(time.RFC3339)
}
