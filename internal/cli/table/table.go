// Package table lays out what the command line shows to a person: rows in columns that
// fit the terminal, and text that is broken between words. A cell is cut in the middle
// only where its column allows for it; addresses, verdicts and reasons never are.
package table

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// Column is one column of a table.
type Column struct {
	Name string
	// Wide: shown with -o wide only.
	Wide bool
	// Cut is the least width in characters to which its cells may be cut; 0 for never.
	Cut int
	// Optional: left out where the rows do not fit otherwise, the last one first.
	Optional bool
}

// Style is how tables are shown.
type Style struct {
	Width     int  // of a line, in characters; 0 for no limit
	Wide      bool // every column, and nothing is cut
	NoHeaders bool
	Color     bool
}

// For is the style for a file. A terminal has its own width; COLUMNS is what holds for
// anything else (and for a terminal that does not tell), and without it there is no limit.
// NO_COLOR (no-color.org) and TERM=dumb switch colour off.
func For(f *os.File, env func(string) string) Style {
	s := Style{}
	if term.IsTerminal(int(f.Fd())) {
		s.Color = env("NO_COLOR") == "" && env("TERM") != "dumb"
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			s.Width = width
			return s
		}
	}
	if n, err := strconv.Atoi(env("COLUMNS")); err == nil && n > 0 {
		s.Width = n
	}
	return s
}

// gap is between two columns.
const gap = 2

// Rows writes rows under the names of their columns; each row has a cell for each
// column. Where a column had to be left out, a last line says so.
func (s Style) Rows(w io.Writer, columns []Column, rows [][]string) {
	lines, note := s.Lines(columns, rows)
	for _, line := range lines {
		fmt.Fprintln(w, line)
	}
	if note != "" {
		fmt.Fprintln(w, note)
	}
}

// Lines are the lines that Rows writes, the names of the columns first unless they are not
// to be shown; note is the line about columns that had to be left out, "" for none.
func (s Style) Lines(columns []Column, rows [][]string) (lines []string, note string) {
	shown, widths, leftOut := s.fit(columns, rows)
	var w strings.Builder
	tw := tabwriter.NewWriter(&w, 0, 0, gap, ' ', 0)
	line := func(cell func(i int) string) {
		for at, i := range shown {
			if at > 0 {
				fmt.Fprint(tw, "\t")
			}
			fmt.Fprint(tw, Shorten(cell(i), widths[i]))
		}
		fmt.Fprintln(tw)
	}
	if !s.NoHeaders {
		line(func(i int) string { return columns[i].Name })
	}
	for _, row := range rows {
		line(func(i int) string { return clean(row[i]) })
	}
	tw.Flush()
	for line := range strings.Lines(w.String()) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	if len(leftOut) > 0 && !s.NoHeaders {
		note = fmt.Sprintf("(%s: not shown at %d columns; see -o wide)", strings.Join(leftOut, ", "), s.Width)
	}
	return lines, note
}

// fit picks the columns that are shown, by number, and the most characters that each
// may have.
func (s Style) fit(columns []Column, rows [][]string) (shown, widths []int, leftOut []string) {
	whole := make([]int, len(columns))
	for i, c := range columns {
		if c.Wide && !s.Wide {
			continue
		}
		shown = append(shown, i)
		whole[i] = utf8.RuneCountInString(c.Name)
		for _, row := range rows {
			whole[i] = max(whole[i], utf8.RuneCountInString(clean(row[i])))
		}
	}
	if s.Wide || s.Width == 0 {
		return shown, whole, nil
	}
	for {
		widths = slices.Clone(whole) // with a column less the others need not be cut as much
		if s.shrink(columns, shown, widths) {
			return shown, widths, leftOut
		}
		at := len(shown) - 1
		for at >= 0 && !columns[shown[at]].Optional {
			at--
		}
		if at < 0 {
			return shown, widths, leftOut
		}
		leftOut = append(leftOut, columns[shown[at]].Name)
		shown = slices.Delete(slices.Clone(shown), at, at+1)
	}
}

// shrink makes the widest of the columns that may be cut narrower until a line fits, and
// reports whether it does.
func (s Style) shrink(columns []Column, shown, widths []int) bool {
	for {
		total, widest := -gap, -1
		for _, i := range shown {
			total += widths[i] + gap
			if c := columns[i]; c.Cut > 0 && widths[i] > max(c.Cut, utf8.RuneCountInString(c.Name)) && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if total <= s.Width {
			return true
		}
		if widest < 0 {
			return false
		}
		widths[widest]--
	}
}

// clean keeps what an object says from ending a cell or a line, and from moving the
// terminal's cursor or the direction in which it writes.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}

// Shorten cuts a text that is too long in the middle, where names differ least.
func Shorten(text string, to int) string {
	r := []rune(text)
	if len(r) <= to || to < 1 {
		return text
	}
	head := (to - 1) / 2
	return string(r[:head]) + "…" + string(r[len(r)-(to-1-head):])
}
