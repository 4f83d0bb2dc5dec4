// Package table lays out text for a person: rows in columns, and prose that is broken between words. It never
// truncates: a reader may search for a name.
package table

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"
)

// Lines lays out rows in columns. An empty cell becomes a dash. A column without a name is dropped.
func Lines(columns []string, rows [][]string) []string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		var cells []string
		for i, cell := range row {
			if columns[i] != "" {
				cells = append(cells, cmp.Or(Clean(cell), "-"))
			}
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	_ = w.Flush() // into memory
	return strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
}

// Clean replaces characters that are not printable by spaces. Text of objects cannot end a line, move the terminal's
// cursor or change the direction of writing.
func Clean(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}

const proseWidth = 100

// Wrapped writes a text behind a prefix, broken between words, with its lines aligned. A longer word stays whole.
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
