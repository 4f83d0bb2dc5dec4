// Package screen lays out reports as text for a person: what is an outage first, then
// what is stale and when it will be released, then what is held; each section with its
// count, and the counts add up to the first line.
//
// screen.go has what all share, check.go the order of the sections, items.go the rows, pools.go
// how full pools are, and explain.go what is known of one thing and what to do about it.
package screen

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/table"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Screen is text for a person, as far as it has been written.
type Screen struct {
	Wide      bool // every column and row
	NoHeaders bool
	All       bool // what is in use is listed, too

	text strings.Builder
}

// manyRows is how many of a section are shown without -o wide, fewNames how many names in a sentence.
const (
	manyRows = 40
	fewNames = 3
)

// String is the text.
func (s *Screen) String() string { return s.text.String() }

// Line writes a line.
func (s *Screen) Line(format string, args ...any) { fmt.Fprintf(&s.text, format+"\n", args...) }

// Text writes a text, broken between words, behind a prefix.
func (s *Screen) Text(prefix, text string) { table.Wrapped(&s.text, prefix, text) }

// Title writes the title of a section with its count.
func (s *Screen) Title(title string, n int) { s.Line("\n%s (%d)", title, n) }

// Table writes rows below the names of the columns. below writes what is below a row.
func (s *Screen) Table(columns []string, rows [][]string, below func(row int)) {
	headers := 1
	if s.NoHeaders {
		headers = 0
	} else {
		rows = append([][]string{columns}, rows...)
	}
	for i, line := range table.Lines(columns, rows) {
		s.Line("%s", line)
		if below != nil && i >= headers {
			below(i - headers)
		}
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
	if s.Wide {
		most = len(all)
	}
	return judge.AtMost(all, most)
}

// gap writes an empty line between what is there and what follows.
func (s *Screen) gap() {
	if s.text.Len() > 0 {
		s.Line("")
	}
}

// fact writes a line of facts under a name.
func (s *Screen) fact(name, text string) { s.Text(fmt.Sprintf("  %-16s ", name), text) }

// Findings writes findings, what is an outage first.
func (s *Screen) Findings(title string, found []judge.Finding) {
	if len(found) == 0 {
		return
	}
	s.Title(title, len(found))
	rank := func(f judge.Finding) int { return slices.Index(judge.Kinds(), f.Kind) }
	found = slices.SortedStableFunc(slices.Values(found), func(a, b judge.Finding) int { return rank(a) - rank(b) })
	shown := s.shown(document.Rows(found, func(f judge.Finding) string { return string(f.Kind) }))
	for _, f := range found[:shown] {
		s.Text(fmt.Sprintf("%-18s  ", f.Kind), f.Message)
	}
	s.more(len(found)-shown, "finding")
}

// shown is how many of a section are shown. Of many these are the first, below the count of each word.
func (s *Screen) shown(words []string) int {
	if len(words) <= manyRows || s.Wide {
		return len(words)
	}
	n := map[string]int{}
	for _, word := range words {
		n[word]++
	}
	s.Text("", strings.Join(document.Rows(slices.Sorted(maps.Keys(n)), func(word string) string { return fmt.Sprint(n[word], " ", word) }), ", ")+".")
	return manyRows
}

func (s *Screen) more(n int, what string) {
	if n > 0 {
		s.Line("and %s; -o wide has them all.", Count(n, "more "+what))
	}
}
