// Package screen lays out reports as text for a person: what is an outage first, then
// what is stale and when it will be released, then what is held; each section with its
// count, and the counts add up to the first line.
//
// screen.go has what all share, check.go and run.go the order of the sections, items.go
// and groups.go the rows, explain.go and advice.go what is known of one thing and what to
// do about it.
package screen

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/table"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Screen is text for a person, as far as it has been written.
type Screen struct {
	table.Style
	// All: what is in use is listed, too.
	All bool

	text strings.Builder
}

// String is the text.
func (s *Screen) String() string { return s.text.String() }

// Line writes a line.
func (s *Screen) Line(format string, args ...any) { fmt.Fprintf(&s.text, format+"\n", args...) }

// Text writes a text, broken between words, behind a prefix.
func (s *Screen) Text(prefix, text string) { s.Wrapped(&s.text, prefix, text) }

// Title writes the title of a section with its count.
func (s *Screen) Title(level table.Level, title string, n int) {
	s.Line("\n%s", s.Paint(level, fmt.Sprintf("%s (%d)", title, n)))
}

// Table writes rows.
func (s *Screen) Table(columns []table.Column, rows [][]string) { s.Rows(&s.text, columns, rows) }

// summary writes the first line, and what a reader must know to believe the rest.
func (s *Screen) summary(r *report.Report) {
	sum := r.Summary()
	lone := ""
	if n := sum.Lone.InUse + sum.Lone.Held + sum.Lone.Stale; n > 0 {
		lone = fmt.Sprintf(" (%d without an allocation: %s)", n, verdicts(sum.Lone.InUse, sum.Lone.Held, sum.Lone.Stale))
	}
	stale := "stale"
	if len(r.Released) > 0 {
		stale = "stale before this run"
	}
	s.Text("", fmt.Sprintf("%s, %s: %d in use, %d held, %d %s; %s%s, %s.", Count(sum.Pools, "pool"), Count(sum.Allocations, "allocation"),
		sum.InUse, sum.Held, sum.Stale, stale, Count(sum.Reservations, "reservation"), lone, Count(sum.Findings, "finding")))
	if !r.Filter.IsZero() {
		s.Text("", fmt.Sprintf("Only what was asked for; in all %s, %s, %s and %s.", Count(r.Of.Pools, "pool"), Count(r.Of.Allocations, "allocation"), Count(r.Of.Reservations, "reservation"), Count(r.Of.Findings, "finding")))
	}
	for _, text := range r.Notes() {
		if text != r.Restore.Text() { // it is among the gates
			s.Text("Note: ", text)
		}
	}
	s.gates(r)
}

// verdicts lists the counts that are not zero.
func verdicts(inUse, held, stale int) string {
	var parts []string
	for _, c := range []struct {
		n    int
		what string
	}{{inUse, "in use"}, {held, "held"}, {stale, "stale"}} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	return strings.Join(parts, ", ")
}

// gates writes what stands between Stale and released.
func (s *Screen) gates(r *report.Report) {
	for _, g := range r.Gates {
		waiting := "no stale item waits for it"
		switch {
		case g.Count == 1:
			waiting = "1 stale item waits for it"
		case g.Count > 1:
			waiting = fmt.Sprintf("%d stale items wait for it", g.Count)
		}
		s.Text("", fmt.Sprintf("%s: %s (%s).", g.Why, g.Sentence(), waiting))
	}
}

// Count is a number with what it counts.
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// clock is a time of the day where it is within a day of now, else with its date; UTC.
func clock(t, now time.Time) string {
	t = t.UTC()
	if d := t.Sub(now); d < 24*time.Hour && d > -24*time.Hour {
		return t.Format("15:04:05")
	}
	return t.Format(time.RFC3339)
}

// Findings writes findings, what is an outage first.
func (s *Screen) Findings(title string, found []judge.Finding) {
	if len(found) == 0 {
		return
	}
	kinds := judge.Kinds()
	found = slices.Clone(found)
	slices.SortStableFunc(found, func(a, b judge.Finding) int { return slices.Index(kinds, a.Kind) - slices.Index(kinds, b.Kind) })
	s.Title(table.Bad, title, len(found))
	shown := map[judge.Kind]int{}
	for _, f := range found {
		if shown[f.Kind]++; !s.Wide && len(found) > manyRows && shown[f.Kind] > fewRows {
			continue
		}
		s.Text(fmt.Sprintf("%-18s  ", f.Kind), f.Message)
	}
	if s.Wide || len(found) <= manyRows {
		return
	}
	for _, k := range kinds {
		if n := shown[k] - fewRows; n > 0 {
			s.Text(fmt.Sprintf("%-18s  ", k), fmt.Sprintf("and %d more: the same with '--reason %s -o wide'", n, k))
		}
	}
}
