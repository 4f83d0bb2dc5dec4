package table

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// proseWidth is the longest line of prose where the terminal has room for more.
const proseWidth = 120

// Wrapped writes a text that is broken between words, its lines under each other, behind
// a prefix. A word that is longer than a line stays whole: it may be an address.
func (s Style) Wrapped(w io.Writer, prefix, text string) {
	width := proseWidth
	if s.Width > 0 {
		width = min(width, s.Width)
	}
	prefix = clean(prefix)
	indent := utf8.RuneCountInString(prefix)
	line, length, words := prefix, indent, 0
	for _, word := range strings.Fields(clean(text)) {
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
