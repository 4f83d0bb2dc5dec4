package screen

import (
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// released is the title of what a run has released.
const released = "RELEASED"

// items writes a section of items, of some verdict or fate.
func (s *Screen) items(title string, r *report.Report, items []*judge.Item) {
	rows := document.Rows(items, func(it *judge.Item) document.AllocationRow { return document.OfItem(r, it) })
	s.rows(title, r.Observation.Now, rows)
}

// rows writes a section: a row for each item, and below it the sentences behind its verdict and behind what stands
// against its release alone. Of many there are the counts of each reason, and the first rows without sentences.
func (s *Screen) rows(title string, now time.Time, rows []document.AllocationRow) {
	if len(rows) == 0 {
		return
	}
	s.Title(title, len(rows))
	shown := rows[:s.shown(document.Rows(rows, reason))]
	release := ""
	if rows[0].Verdict == judge.Stale && title != released {
		release = "RELEASE"
	}
	columns := []string{"ADDRESS", "REASON", release, "POD", "SANDBOX", "NODE", "POOL OR RESERVATION"}
	if s.Wide {
		columns = append(columns, "INTERFACE", "CONTAINER", "RULE", "MESSAGE")
	}
	lines := document.Rows(shown, func(d document.AllocationRow) []string { return cells(d, now)[:len(columns)] })
	s.Table(columns, lines, func(i int) {
		if s.Wide || len(shown) < len(rows) {
			return
		}
		s.Text("    ", shown[i].Message)
		if why := shown[i].Refusal; why == reconciler.Changed || why == reconciler.LeaseBusy || why == reconciler.WriteFailed {
			s.Text("    ", shown[i].Detail) // the others are above the sections, once
		}
	})
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
