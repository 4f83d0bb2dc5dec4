// Package screen lays out reports as text for a person: what is an outage first, then
// what is stale and when it will be released, then what is held; each section with its
// count, and the counts add up to the first line.
//
// screen.go has what all share, check.go the order of the sections, items.go and groups.go the rows, pools.go
// how full pools are, and explain.go what is known of one thing and what to do about it.
package screen

import (
	"fmt"
	"slices"
	"strings"

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
	lone, stale := "", "stale"
	if n := sum.Lone.InUse + sum.Lone.Held + sum.Lone.Stale; n > 0 {
		lone = fmt.Sprintf(" (%d without an allocation: %s)", n, verdicts(sum.Lone.InUse, sum.Lone.Held, sum.Lone.Stale))
	}
	if len(r.Released) > 0 {
		stale = "stale before this run"
	}
	s.Text("", fmt.Sprintf("%s, %s: %d in use, %d held, %d %s; %s%s, %s.",
		Count(sum.Pools, "pool"), Count(sum.Allocations, "allocation"), sum.InUse, sum.Held, sum.Stale, stale,
		Count(sum.Reservations, "reservation"), lone, Count(sum.Findings, "finding")))
	if !r.Filter.IsZero() {
		s.Text("", fmt.Sprintf("Only what was asked for; in all %s, %s, %s and %s.", Count(r.Of.Pools, "pool"),
			Count(r.Of.Allocations, "allocation"), Count(r.Of.Reservations, "reservation"), Count(r.Of.Findings, "finding")))
	}
	restore := r.Restore.Text() // it is among the gates
	s.notes(slices.DeleteFunc(slices.Clone(r.Notes()), func(text string) bool { return text == restore }))
	s.gates(r.Gates)
}

func (s *Screen) notes(texts []string) {
	for _, text := range texts {
		s.Text("Note: ", text)
	}
}

// verdicts lists the counts that are not zero.
func verdicts(inUse, held, stale int) string {
	var parts []string
	for i, n := range []int{inUse, held, stale} {
		if n > 0 {
			parts = append(parts, fmt.Sprint(n, []string{" in use", " held", " stale"}[i]))
		}
	}
	return strings.Join(parts, ", ")
}

// gates writes what stands between Stale and released.
func (s *Screen) gates(gates []report.Gate) {
	for _, g := range gates {
		waiting := fmt.Sprintf("%d stale items wait for it", g.Count)
		switch g.Count {
		case 0:
			waiting = "no stale item waits for it"
		case 1:
			waiting = "1 stale item waits for it"
		}
		s.Text("", fmt.Sprintf("%s: %s (%s).", g.Refusal, g.Detail, waiting))
	}
}

// Count is a number with what it counts.
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// list is as many of the texts, and how many more there are.
func list(all []string, most int) string {
	if len(all) <= most {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
}

// Findings writes findings, what is an outage first; of many a few of each kind.
func (s *Screen) Findings(title string, found []judge.Finding) {
	if len(found) == 0 {
		return
	}
	s.Title(table.Bad, title, len(found))
	texts := map[judge.Kind][]string{}
	for _, f := range found {
		texts[f.Kind] = append(texts[f.Kind], f.Message)
	}
	shorten := !s.Wide && len(found) > manyRows
	for _, k := range judge.Kinds() {
		for i, text := range texts[k] {
			if i < fewRows || !shorten {
				s.Text(fmt.Sprintf("%-18s  ", k), text)
			}
		}
	}
	for _, k := range judge.Kinds() {
		if more := len(texts[k]) - fewRows; more > 0 && shorten {
			s.Text(fmt.Sprintf("%-18s  ", k), fmt.Sprintf("and %d more: the same with '--reason %s -o wide'", more, k))
		}
	}
}
