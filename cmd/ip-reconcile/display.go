package main

import (
	"io"
	"os"
	"regexp"
	"strconv"

	"golang.org/x/term"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/border"
)

// fewestColumns is the width below which text is not broken further.
const fewestColumns = 60

// display is where a file shows text for a person. The zero display is no terminal.
type display struct {
	isTerminal bool
	columns    int       // at which text is broken; 0 for never
	coloured   io.Writer // colours the text; nil for no colours
}

// displayOf is the display of a file. Text for it is written to w. COLUMNS decides over the terminal's width, and
// NO_COLOR (https://no-color.org) about colours.
func displayOf(f *os.File, w io.Writer) display {
	d := display{isTerminal: term.IsTerminal(int(f.Fd())), columns: columnsOf(f)}
	if d.isTerminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" {
		d.coloured = border.Writer(painter{w}) // colours are added to what is escaped already
	}
	return d
}

func columnsOf(f *os.File) int {
	n, err := strconv.Atoi(os.Getenv("COLUMNS"))
	if err != nil || n <= 0 {
		if n = widthOf(f); n == 0 {
			return 0
		}
	}
	return max(n, fewestColumns)
}

// widthOf returns the width of a terminal, at which it breaks lines itself; 0 for a file.
func widthOf(f *os.File) int {
	n, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return max(n, 0)
}

// painter colours verdicts and marks. Each says the same without its colour.
type painter struct{ w io.Writer }

var colours = map[string]string{
	"InUse": green, "Held": yellow, "Stale": red,
	"✓": green, "!": yellow, "✗": red,
}

const green, yellow, red, plain = "\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[0m"

var coloured = regexp.MustCompile(`\b(?:InUse|Held|Stale)\b|(?m:^[✓!✗])`)

func (p painter) Write(text []byte) (int, error) {
	paint := func(word string) string { return colours[word] + word + plain }
	if _, err := io.WriteString(p.w, coloured.ReplaceAllStringFunc(string(text), paint)); err != nil {
		return 0, err
	}
	return len(text), nil
}
