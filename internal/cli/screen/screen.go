// Package screen lays out reports as text for a person. Findings that are outages come first, then stale items and when
// they are released, then held items. Each section has its count, and the counts add up to the summary.
package screen

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
)

// Screen is text for a person. Methods append to it.
type Screen struct {
	Wide      bool // all columns and whole container ids
	NoHeaders bool // of lists print only the rows
	All       bool // also list what is in use
	Cut       bool // shorten long lists, and say so in the last line
	Width     int  // at which text is broken; 0 for never. Tables are never broken
	// ConfirmAfter is how long an unconfirmed verdict must hold.
	ConfirmAfter time.Duration

	text           strings.Builder
	isList         bool     // and not text with tables in it
	notShown       []string // what was cut
	sandboxes      []string // words on the screen, for the legend
	hasEvidence    bool     // of rows that are shown, elsewhere
	hasUnconfirmed bool
	hasMissingNode bool // an unconfirmed item has the reason NodeMissing
}

// manyRows is how many rows of a section a Screen with Cut has, and fewNames how many names a sentence.
const (
	manyRows = 40
	fewNames = 3
)

// String returns the text.
func (s *Screen) String() string {
	if len(s.notShown) == 0 {
		return s.text.String()
	}
	return s.text.String() + "\nNot shown: " + strings.Join(s.notShown, ", ") + ". -o wide shows all.\n"
}

// List begins a list, of which NoHeaders leaves only the rows.
func (s *Screen) List() { s.isList = true }

func (s *Screen) onlyRows() bool { return s.isList && s.NoHeaders }

// Line writes a line.
func (s *Screen) Line(format string, args ...any) {
	if !s.onlyRows() {
		s.row(fmt.Sprintf(format, args...))
	}
}

func (s *Screen) row(text string) { s.text.WriteString(text + "\n") }

// Text writes a text behind a prefix, broken between words, with its lines aligned. A longer word stays whole.
func (s *Screen) Text(prefix, text string) {
	indent := utf8.RuneCountInString(prefix)
	line, length := view.Clean(prefix), indent
	for _, word := range strings.Fields(view.Clean(s.shorten(text))) {
		n := utf8.RuneCountInString(word)
		if s.Width > 0 && length > indent && length+n > s.Width {
			s.Line("%s", strings.TrimRight(line, " "))
			line, length = strings.Repeat(" ", indent), indent
		}
		line += word + " "
		length += n + 1
	}
	s.Line("%s", strings.TrimRight(line, " "))
}

// Title writes the title of a section with its count, unless that is zero.
func (s *Screen) Title(title string, n int) {
	if n > 0 {
		s.Line("\n%s (%d)", title, n)
	}
}

var containerID = regexp.MustCompile(`\b[0-9a-f]{64}\b`)

// shorten shortens container ids to the 13 characters that crictl prints, except in a wide screen.
func (s *Screen) shorten(text string) string {
	if s.Wide {
		return text
	}
	return containerID.ReplaceAllStringFunc(text, func(id string) string { return id[:13] })
}

// Table writes rows below the names of the columns. An empty cell becomes a dash. A column without a name is dropped.
// No cell is truncated: a reader may search for a name. below writes what is below a row.
func (s *Screen) Table(columns []string, rows [][]string, below func(row int)) {
	headers := 1
	if s.NoHeaders {
		headers = 0
	} else {
		rows = append([][]string{columns}, rows...)
	}
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		var cells []string
		for i, cell := range row {
			if columns[i] != "" {
				cells = append(cells, cmp.Or(view.Clean(cell), "-"))
			}
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	_ = w.Flush() // into memory
	for i, line := range strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n") {
		s.row(s.shorten(line))
		if below != nil && i >= headers {
			below(i - headers)
		}
	}
}

// Head writes the first line of every screen: the cluster or the snapshot, and the time at which it was judged.
func (s *Screen) Head(h view.Header) {
	judged := "Cluster " + h.Cluster.Server
	switch c := h.Cluster; {
	case c.Snapshot != "":
		judged = "Snapshot " + c.Snapshot
	case c.Context != "":
		judged += " (context " + c.Context + ")"
	}
	verb := "judged"
	if h.Kind == view.KindHistory {
		verb = "read"
	}
	s.Line("%s, %s at %s.", view.Clean(judged), verb, h.ObservedAt.Format(time.RFC3339))
}

// summary writes the counts, with the word for what is Stale, and what limits the judgement.
func (s *Screen) summary(c view.Circumstances, t view.Totals, stale string) {
	sum := t.Summary
	s.Text("", fmt.Sprintf("%s: %d in use, %d held, %d %s. %s.", counts(sum), sum.InUse+sum.Lone.InUse,
		sum.Held+sum.Lone.Held, sum.Stale+sum.Lone.Stale, stale, Count(sum.Findings, "finding")+s.unknownFindings(t)))
	if all := t.All; all != nil {
		s.Text("", fmt.Sprintf("The flags pick these of %s, %s.", counts(*all), Count(all.Findings, "finding")))
	}
	s.circumstances(c)
}

// unknownFindings says which findings there may be beside those that were found, "" for none.
func (s *Screen) unknownFindings(t view.Totals) string {
	kinds := t.UnknownKinds
	if len(kinds) == 0 {
		return ""
	}
	return ", and there may be more: " + s.names(kinds, fewNames)
}

func counts(sum view.Summary) string {
	text := Count(sum.Pools, "pool") + ", " + Count(sum.Allocations, "allocation")
	if n := sum.Lone.InUse + sum.Lone.Held + sum.Lone.Stale; n > 0 {
		text += ", " + Count(n, "reservation") + " without an allocation"
	}
	return text
}

func (s *Screen) circumstances(c view.Circumstances) {
	for _, text := range c.Notes {
		isGate := func(g view.Gate) bool { return g.Detail == text } // for example an etcd restore
		if !slices.ContainsFunc(c.Gates, isGate) {
			s.Text("Note: ", text)
		}
	}
	for _, g := range c.Gates {
		s.Text("", fmt.Sprintf("%s: %s (%s).", g.Refusal, g.Detail, Count(g.Count, "stale item")))
	}
}

// Count returns a number with its noun.
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// names joins texts. With Cut it joins the first of them, and says how many more there are.
func (s *Screen) names(all []string, most int) string {
	if !s.Cut {
		most = len(all)
	}
	return view.AtMost(all, most)
}

func (s *Screen) gap() {
	if s.text.Len() > 0 {
		s.Line("")
	}
}

func (s *Screen) fact(name, text string) { s.Text(fmt.Sprintf("  %-16s ", name), text) }

// Findings writes findings. Outages come first.
func (s *Screen) Findings(title string, found []view.Finding) {
	if len(found) == 0 {
		return
	}
	s.Title(title, len(found))
	found = slices.SortedStableFunc(slices.Values(found), func(a, b view.Finding) int { return a.Rank() - b.Rank() })
	shown := s.shown(lists.Map(found, func(f view.Finding) string { return string(f.Kind) }))
	for _, f := range found[:shown] {
		prefix := fmt.Sprintf("%-18s  ", f.Kind)
		if s.onlyRows() {
			s.row(prefix + s.shorten(view.Clean(f.Message)))
		}
		s.Text(prefix, f.Message)
	}
	s.more(len(found)-shown, "finding")
}

func (s *Screen) shown(words []string) int {
	if len(words) <= manyRows || !s.Cut {
		return len(words)
	}
	n := map[string]int{}
	for _, word := range words {
		n[word]++
	}
	count := func(word string) string { return fmt.Sprint(n[word], " ", word) }
	s.Text("", strings.Join(lists.Map(slices.Sorted(maps.Keys(n)), count), ", ")+".")
	return manyRows
}

func (s *Screen) more(n int, what string) {
	if n > 0 {
		s.notShown = append(s.notShown, Count(n, what))
	}
}
