package table

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestRows(t *testing.T) {
	ab := []Column{{Name: "A", Cut: 5}, {Name: "B", Cut: 5}}
	whole := []Column{{Name: "ADDRESS"}, {Name: "REASON"}, {Name: "POD", Cut: 16}, {Name: "NODE", Cut: 10, Optional: true}, {Name: "POOL", Cut: 12, Optional: true},
		{Name: "CONTAINER", Wide: true}, {Name: "RELEASE", Hidden: true}}
	row := []string{"10.0.0.5", "TerminalButRunning", "default/" + strings.Repeat("a", 60), strings.Repeat("n", 60), "kube-system/10.0.0.0-24", "id", "now"}
	for name, c := range map[string]struct {
		style   Style
		columns []Column
		row     []string
		want    string
	}{
		"the longest is cut first, in the middle": {Style{Width: 16, NoHeaders: true}, ab, []string{"abcdefghij", "12345"}, "abcd…ghij  12345\n"},
		"nothing is cut without a limit":          {Style{NoHeaders: true}, ab, []string{"abcdefghij", "12345"}, "abcdefghij  12345\n"},
		"without a column the others have its room": {Style{Width: 11, NoHeaders: true}, []Column{{Name: "A", Cut: 5}, {Name: "B", Cut: 5, Optional: true}},
			[]string{"abcdefghij", "1234567890"}, "abcdefghij\n"},
		"an empty cell is a dash": {Style{}, ab, []string{"", "x"}, "A  B\n-  x\n"},
		"a column that does not fit is named below": {Style{Width: 60}, whole, row, "ADDRESS   REASON              POD               NODE\n" +
			"10.0.0.5  TerminalButRunning  default…aaaaaaaa  nnnnn…nnnnnn\n(POOL: not shown at 60 columns; see -o wide)\n"},
		"wide has all": {Style{Width: 80, Wide: true, NoHeaders: true}, whole, row, strings.Join(row[:6], "  ") + "\n"},
	} {
		var got strings.Builder
		if c.style.Rows(&got, c.columns, [][]string{c.row}); got.String() != c.want {
			t.Errorf("%s:\n%q, want\n%q", name, got.String(), c.want)
		}
	}
}

func TestACellCannotForgeARowOrAColour(t *testing.T) {
	var got strings.Builder
	Style{NoHeaders: true}.Rows(&got, []Column{{Name: "A"}, {Name: "B"}}, [][]string{{"a\nSTALE 10.0.0.1\tx", "\x1b[31mred"}})
	if want := "a STALE 10.0.0.1 x   [31mred\n"; got.String() != want {
		t.Errorf("%q, want %q", got.String(), want)
	}
}

func TestProseCannotForgeALineOrAColourEither(t *testing.T) {
	var b strings.Builder
	Style{}.Wrapped(&b, "a\x1b[2J ", "10.0.0.1\x1b[2J \u009b31m \u202e2.0.0.01\nRELEASED")
	if text := b.String(); strings.ContainsAny(text, "\x1b\u009b\u202e") || strings.Count(text, "\n") != 1 {
		t.Errorf("%q", text)
	}
}

func TestTheWidthOfAPipeIsCOLUMNSOrNone(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for text, want := range map[string]int{"": 0, "100": 100, "-3": 0, "wide": 0} {
		s := For(f, func(name string) string { return map[string]string{"COLUMNS": text}[name] })
		if s.Width != want || s.Color {
			t.Errorf("COLUMNS=%q: %+v", text, s)
		}
	}
}

func TestProseIsBrokenBetweenWordsAndNeverInOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(`[a-z0-9:]{1,60}`), 1, 30).Draw(t, "words")
		width := rapid.IntRange(40, 200).Draw(t, "width")
		var b strings.Builder
		Style{Width: width}.Wrapped(&b, "Note: ", strings.Join(words, " "))
		if got := strings.Fields(b.String()); fmt.Sprint(got[1:]) != fmt.Sprint(words) {
			t.Fatalf("%q", got)
		}
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(strings.TrimSpace(line)); n > min(width, proseWidth) && len(strings.Fields(line)) > 2 {
				t.Fatalf("%d characters: %q", n, line)
			}
		}
	})
}
