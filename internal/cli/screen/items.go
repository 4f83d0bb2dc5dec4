package screen

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

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

// items writes a section: a row for each item and the sentence behind it, or, where there
// are many, a row for each group of them.
func (s *Screen) items(sec section, r *report.Report, items []*judge.Item) {
	if len(items) == 0 {
		return
	}
	s.Title(sec.level, sec.title, len(items))
	switch n := reservationsIn(items); {
	case n == 1:
		s.Line("1 of them is a reservation without an allocation.")
	case n > 1:
		s.Line("%d of them are reservations without an allocation.", n)
	}
	if len(items) > manyRows && !s.Wide {
		s.groups(sec, r, items)
		return
	}
	columns := itemColumns(sec)
	rows := make([][]string, 0, len(items))
	for _, it := range items {
		rows = append(rows, itemRow(sec, r, it))
	}
	if s.Wide {
		s.Table(columns, rows)
	} else {
		s.rowsWithSentences(sec, r, items, columns, rows)
	}
	s.legend(sec, r, items)
}

// rowsWithSentences writes each row with the sentence behind its verdict, and behind what
// stands against its release, below.
func (s *Screen) rowsWithSentences(sec section, r *report.Report, items []*judge.Item, columns []table.Column, rows [][]string) {
	lines, rest := s.Lines(columns, rows)
	if !s.NoHeaders {
		s.Line("%s", lines[0])
		lines = lines[1:]
	}
	for i, it := range items {
		s.Line("%s", lines[i])
		s.Text("    ", it.Message())
		if x, refused := r.RefusedOf(it); sec.release && refused && ofItsOwn(x.Gate.Why) {
			s.Text("    ", x.Gate.Detail)
		}
	}
	if rest != "" {
		s.Line("%s", rest)
	}
}

// ofItsOwn reports whether a refusal is about a single item: the others are above the
// sections, once.
func ofItsOwn(why reconciler.Refusal) bool {
	return why == reconciler.Changed || why == reconciler.LeaseBusy || why == reconciler.WriteFailed
}

func itemColumns(sec section) []table.Column {
	columns := []table.Column{{Name: "ADDRESS"}, {Name: "REASON"}, {Name: "RELEASE"}, {Name: "POD", Cut: 14}, {Name: "SANDBOX"},
		{Name: "NODE", Cut: 8, Optional: true}, {Name: "POOL OR RESERVATION", Cut: 19, Optional: true}, {Name: "INTERFACE", Wide: true}, {Name: "CONTAINER", Wide: true}, {Name: "RULE", Wide: true}, {Name: "MESSAGE", Wide: true}}
	if !sec.release {
		columns = slices.Delete(columns, 2, 3)
	}
	return columns
}

func itemRow(sec section, r *report.Report, it *judge.Item) []string {
	place := it.Object()
	if it.Reservation != nil {
		place += " (reservation)"
	}
	row := []string{table.Dash(it.Text()), reason(it), releaseOf(r, it), table.Dash(it.PodRef()), table.Dash(sandboxOf(it)), table.Dash(it.Node()), place,
		table.Dash(it.IfName()), table.Dash(it.ContainerID()), it.RuleID(), it.Message()}
	if !sec.release {
		row = slices.Delete(row, 2, 3)
	}
	return row
}

// reason is the word, with a ? where the verdict is not confirmed.
func reason(it *judge.Item) string {
	if it.Verdict == judge.Stale && !it.Proven {
		return it.Reason.String() + "?"
	}
	return it.Reason.String()
}

func sandboxOf(it *judge.Item) string {
	if e := it.Evidence(); e != nil {
		return e.Sandbox.String()
	}
	return ""
}

// releaseOf is when something Stale is released, or in a word why it is not.
func releaseOf(r *report.Report, it *judge.Item) string {
	x, refused := r.RefusedOf(it)
	switch {
	case it.Verdict != judge.Stale:
		return "-"
	case !refused || x.Gate.Why == reconciler.DryRunRefusal:
		return "now"
	case !x.At().IsZero():
		return clock(x.At(), r.Observation.Now)
	}
	return string(x.Gate.Why)
}

// legend explains the marks that the rows have.
func (s *Screen) legend(sec section, r *report.Report, items []*judge.Item) {
	if !sec.release {
		return
	}
	if slices.ContainsFunc(items, func(it *judge.Item) bool { return it.Verdict == judge.Stale && !it.Proven }) {
		s.Text("", "? = unconfirmed: released once nothing has contradicted the verdict for --confirm-after. RELEASE is for a run that starts now (UTC); 'serve' may have confirmed it earlier.")
	}
}

func reservationsIn(items []*judge.Item) (n int) {
	for _, it := range items {
		if it.Reservation != nil {
			n++
		}
	}
	return n
}

func byPlace(items []*judge.Item) []*judge.Item {
	slices.SortStableFunc(items, func(a, b *judge.Item) int {
		return cmp.Or(cmp.Compare(a.Object(), b.Object()), a.Address().Compare(b.Address()))
	})
	return items
}

// Reasons writes each reason for which something was not repaired once, with how many it is
// about.
func (s *Screen) Reasons(why map[string]int) {
	for _, text := range slices.Sorted(maps.Keys(why)) {
		s.Text(fmt.Sprintf("%d not repaired: ", why[text]), text)
	}
}
