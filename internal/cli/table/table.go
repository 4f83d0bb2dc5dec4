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
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// Column is one column of a table.
type Column struct {
	Name string
	// Hidden: never shown.
	Hidden bool
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

// Rows writes rows under the names of their columns; each row has a cell for each column, and an empty one
// is shown as a dash. Where a column had to be left out, a last line says so.
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
	names, widths, cells := make([]string, len(columns)), make([]int, len(columns)), make([]int, len(columns))
	for i, c := range columns {
		if c.Hidden || c.Wide && !s.Wide {
			continue // a width of 0 is that of a column that is not shown
		}
		for _, row := range rows {
			cells[i] = max(cells[i], utf8.RuneCountInString(Dash(clean(row[i]))))
		}
		names[i], widths[i] = c.Name, max(cells[i], utf8.RuneCountInString(c.Name))
	}
	leftOut := s.fit(columns, widths)
	if len(leftOut) > 0 && !s.NoHeaders {
		note = fmt.Sprintf("(%s: not shown at %d columns; see -o wide)", strings.Join(leftOut, ", "), s.Width)
	}
	if !s.NoHeaders {
		rows, cells = append([][]string{names}, rows...), widths
	}
	for _, row := range rows {
		var line strings.Builder
		for i, width := range widths {
			if width > 0 {
				fmt.Fprintf(&line, "%-*s", min(width, cells[i])+gap, shorten(Dash(clean(row[i])), width))
			}
		}
		lines = append(lines, strings.TrimRight(line.String(), " "))
	}
	return lines, note
}

// fit makes columns narrower, and leaves some out by a width of 0, until a line fits. It returns the names
// of those that it has left out.
func (s Style) fit(columns []Column, widths []int) (leftOut []string) {
	whole := slices.Clone(widths) // with a column less the others need not be cut as much
	for s.Width > 0 && !s.Wide && !s.shrink(columns, widths) {
		at := len(columns) - 1
		for at >= 0 && (!columns[at].Optional || whole[at] == 0) {
			at--
		}
		if at < 0 {
			break
		}
		leftOut = append(leftOut, columns[at].Name)
		whole[at] = 0
		copy(widths, whole)
	}
	return leftOut
}

// shrink makes the widest of the columns that may be cut narrower until a line fits, and
// reports whether it does.
func (s Style) shrink(columns []Column, widths []int) bool {
	for {
		total, widest := -gap, -1
		for i, c := range columns {
			if widths[i] > 0 {
				total += widths[i] + gap
			}
			canBeCut := c.Cut > 0 && widths[i] > max(c.Cut, utf8.RuneCountInString(c.Name))
			if canBeCut && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if total <= s.Width || widest < 0 {
			return total <= s.Width
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

// shorten cuts a text that is too long in the middle, where names differ least.
func shorten(text string, to int) string {
	r := []rune(text)
	if len(r) <= to || to < 1 {
		return text
	}
	head := (to - 1) / 2
	return string(r[:head]) + "…" + string(r[len(r)-(to-1-head):])
}
