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

// manyRows is from how many rows on a section has a row for each group of items instead
// of one for each item; fewRows is how many of a group are shown then.
const (
	manyRows = 40
	fewRows  = 3
)

// section is a part of the screen with items.
type section struct {
	title   string
	level   table.Level
	release bool // a column says when or why not
}

// items writes a section with the rows of items.
func (s *Screen) items(sec section, r *report.Report, items []*judge.Item) {
	rows := make([]document.AllocationRow, 0, len(items))
	for _, it := range items {
		rows = append(rows, document.OfItem(r, it))
	}
	s.rows(sec, r.Observation.Now, rows)
}

// rows writes a section: a row for each item and below it the sentences behind its verdict and behind what
// stands against its release, or, where there are many, a row for each group of them.
func (s *Screen) rows(sec section, now time.Time, rows []document.AllocationRow) {
	if len(rows) == 0 {
		return
	}
	s.Title(sec.level, sec.title, len(rows))
	alone := 0
	for _, d := range rows {
		if d.IsReservation {
			alone++
		}
	}
	if alone == 1 {
		s.Line("1 of them is a reservation without an allocation.")
	} else if alone > 1 {
		s.Line("%d of them are reservations without an allocation.", alone)
	}
	if len(rows) > manyRows && !s.Wide {
		s.groups(sec, now, rows)
		return
	}
	cells := make([][]string, 0, len(rows))
	for _, d := range rows {
		cells = append(cells, rowCells(d, now))
	}
	lines, leftOut := s.Lines(rowColumns(sec), cells)
	for _, header := range lines[:len(lines)-len(rows)] {
		s.Line("%s", header)
	}
	for i, line := range lines[len(lines)-len(rows):] {
		s.Line("%s", line)
		if s.Wide {
			continue // it has a column for the sentence
		}
		s.Text("    ", rows[i].Message)
		if sec.release && ofItsOwn(rows[i].Refusal) {
			s.Text("    ", rows[i].Detail)
		}
	}
	if leftOut != "" {
		s.Line("%s", leftOut)
	}
	s.legend(sec, rows)
}

// ofItsOwn reports whether a refusal is about a single item: the others are above the
// sections, once.
func ofItsOwn(why reconciler.Refusal) bool {
	return why == reconciler.Changed || why == reconciler.LeaseBusy || why == reconciler.WriteFailed
}

func rowColumns(sec section) []table.Column {
	return []table.Column{
		{Name: "ADDRESS"}, {Name: "REASON"}, {Name: "RELEASE", Hidden: !sec.release}, {Name: "POD", Cut: 14}, {Name: "SANDBOX"},
		{Name: "NODE", Cut: 8, Optional: true}, {Name: "POOL OR RESERVATION", Cut: 19, Optional: true},
		{Name: "INTERFACE", Wide: true}, {Name: "CONTAINER", Wide: true}, {Name: "RULE", Wide: true}, {Name: "MESSAGE", Wide: true},
	}
}

func rowCells(d document.AllocationRow, now time.Time) []string {
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
	case d.Verdict != judge.Stale:
		return "-"
	case d.Refusal == "":
		return "now"
	case d.ReleasableAt == nil:
		return string(d.Refusal)
	case d.ReleasableAt.Sub(now).Abs() < 24*time.Hour:
		return d.ReleasableAt.Format(time.TimeOnly)
	}
	return d.ReleasableAt.Format(time.RFC3339)
}

// legend explains the marks that the rows have.
func (s *Screen) legend(sec section, rows []document.AllocationRow) {
	if sec.release && slices.ContainsFunc(rows, isUnconfirmed) {
		s.Text("", "? = unconfirmed: released once nothing has contradicted the verdict for --confirm-after. "+
			"RELEASE is for a run that starts now (UTC); 'serve' may have confirmed it earlier.")
	}
}
