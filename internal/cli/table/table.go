// Package table lays out what the command line shows to a person: rows in columns, and text that is broken between
// words. Nothing is cut: a name is what somebody searches for.
package table

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// Style is how text is shown.
type Style struct {
	Width     int  // of a line of prose, in characters; 0 for no limit
	Wide      bool // every column and row
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

// Lines are rows in columns, below the names of the columns unless they are not to be shown. Each row has a cell for each
// column, and an empty one is shown as a dash. A column without a name is not shown.
func (s Style) Lines(columns []string, rows [][]string) []string {
	if !s.NoHeaders {
		rows = append([][]string{columns}, rows...)
	}
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		var cells []string
		for i, cell := range row {
			if columns[i] != "" {
				cells = append(cells, Dash(Clean(cell)))
			}
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	_ = w.Flush() // into memory
	return strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
}

// Clean keeps what an object says from ending a cell or a line, and from moving the
// terminal's cursor or the direction in which it writes.
func Clean(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}

// proseWidth is the longest line of prose where the terminal has room for more.
const proseWidth = 120

// Wrapped writes a text that is broken between words, its lines under each other, behind
// a prefix. A word that is longer than a line stays whole: it may be an address.
func (s Style) Wrapped(w io.Writer, prefix, text string) {
	width := proseWidth
	if s.Width > 0 {
		width = min(width, s.Width)
	}
	prefix = Clean(prefix)
	indent := utf8.RuneCountInString(prefix)
	line, length, words := prefix, indent, 0
	for _, word := range strings.Fields(Clean(text)) {
		n := utf8.RuneCountInString(word)
		if words > 0 && length+n > width {
			fmt.Fprintln(w, strings.TrimRight(line, " "))
			line, length, words = strings.Repeat(" ", indent), indent, 0
		}
		line += word + " "
		length += n + 1
		words++
	}
	fmt.Fprintln(w, strings.TrimRight(line, " "))
}

// Level is how much something matters; it has a colour on a terminal.
type Level int

const (
	Plain Level = iota
	Good
	Warn
	Bad
)

// Paint gives a text the colour of a level, where there is colour.
func (s Style) Paint(level Level, text string) string {
	code := [...]string{Plain: "1", Good: "32", Warn: "33", Bad: "31"}[level]
	if !s.Color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Dash stands for nothing.
func Dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
