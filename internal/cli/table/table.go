// Package table lays out what the command line shows to a person: rows in columns, and text that is broken between
// words. Nothing is cut: a name is what somebody searches for.
package table

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"
)

// Lines are rows in columns. Each row has a cell for each column, and an empty cell is shown as a dash. A column without
// a name is not shown.
func Lines(columns []string, rows [][]string) []string {
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

// proseWidth is the longest line of prose in characters.
const proseWidth = 100

// Wrapped writes a text behind a prefix. The text is broken between words, and its lines stand under each other. A
// word that is longer than a line stays whole: it may be an address.
func Wrapped(w io.Writer, prefix, text string) {
	indent := utf8.RuneCountInString(prefix)
	line, length := Clean(prefix), indent
	for _, word := range strings.Fields(Clean(text)) {
		n := utf8.RuneCountInString(word)
		if length > indent && length+n > proseWidth {
			fmt.Fprintln(w, strings.TrimRight(line, " "))
			line, length = strings.Repeat(" ", indent), indent
		}
		line += word + " "
		length += n + 1
	}
	fmt.Fprintln(w, strings.TrimRight(line, " "))
}

// Dash stands for nothing.
func Dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
