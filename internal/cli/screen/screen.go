// Package screen lays out reports as text for a person: what is an outage first, then
// what is stale and when it will be released, then what is held; each section with its
// count, and the counts add up to the first line.
//
// screen.go has what all share, check.go the order of the sections, items.go the rows, pools.go
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
func (s *Screen) Table(columns []string, rows [][]string) {
	for _, line := range s.Lines(columns, rows) {
		s.Line("%s", line)
	}
}

// summary writes the first line, and what a reader must know to believe the rest.
func (s *Screen) summary(r *report.Report) {
	sum := r.Summary()
	lone, stale := "", "stale"
	if n := sum.Lone; n != (judge.Lone{}) {
		lone = fmt.Sprintf(" (%d without an allocation: %d in use, %d held, %d stale)", n.InUse+n.Held+n.Stale, n.InUse, n.Held, n.Stale)
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
	s.circumstances(r.Notes(), r.Gates)
}

// circumstances writes what a reader must know to believe the rest, and what stands between Stale and released.
func (s *Screen) circumstances(notes []string, gates []report.Gate) {
	for _, text := range notes {
		isGate := func(g report.Gate) bool { return g.Detail == text } // as a restore of etcd is
		if !slices.ContainsFunc(gates, isGate) {
			s.Text("Note: ", text)
		}
	}
	for _, g := range gates {
		s.Text("", fmt.Sprintf("%s: %s (%s).", g.Refusal, g.Detail, Count(g.Count, "stale item")))
	}
}

// Count is a number with what it counts.
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// list is as many of the texts, and how many more there are; all of them with -o wide.
func (s *Screen) list(all []string, most int) string {
	if len(all) <= most || s.Wide {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
}

// gap writes an empty line between what is there and what follows.
func (s *Screen) gap() {
	if s.text.Len() > 0 {
		s.Line("")
	}
}

// fact writes a line of facts under a name.
func (s *Screen) fact(name, text string) { s.Text(fmt.Sprintf("  %-16s ", name), text) }

// Findings writes findings, what is an outage first; of many a few of each kind.
func (s *Screen) Findings(title string, found []judge.Finding) {
	if len(found) == 0 {
		return
	}
	s.Title(table.Bad, title, len(found))
	n := map[judge.Kind]int{}
	for _, k := range judge.Kinds() {
		for _, f := range found {
			if f.Kind != k {
				continue
			}
			if n[k]++; n[k] <= fewRows || s.Wide || len(found) <= manyRows {
				s.Text(fmt.Sprintf("%-18s  ", k), f.Message)
			}
		}
	}
	for _, k := range judge.Kinds() {
		if more := n[k] - fewRows; more > 0 && !s.Wide && len(found) > manyRows {
			s.Text(fmt.Sprintf("%-18s  ", k), fmt.Sprintf("and %d more: the same with '--reason %s -o wide'", more, k))
		}
	}
}
