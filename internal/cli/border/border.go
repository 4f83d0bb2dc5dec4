// Package border is the last step of all that a program prints: what somebody wrote into an object or the name of a
// file cannot move a terminal's cursor, change the direction of writing, or end a line.
package border

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Writer returns a writer that escapes all that is written to w. Each call of Write must have whole characters.
func Writer(w io.Writer) io.Writer { return writer{w} }

type writer struct{ w io.Writer }

func (b writer) Write(text []byte) (int, error) {
	if _, err := io.WriteString(b.w, Escape(string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Escape replaces each character that is neither printable nor a line feed nor a tab by its escape in JSON, as \u001b.
// Text in JSON means the same afterwards, because JSON has such characters in strings only. Bytes that are no UTF-8
// become \ufffd.
func Escape(text string) string {
	isShown := func(r rune) bool { return r == '\n' || r == '\t' || unicode.IsPrint(r) && r != utf8.RuneError }
	if !strings.ContainsFunc(text, func(r rune) bool { return !isShown(r) }) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		high, low := utf16.EncodeRune(r)
		switch {
		case isShown(r):
			b.WriteRune(r)
		case high != utf8.RuneError:
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
