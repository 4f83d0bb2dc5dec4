package table

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestLines(t *testing.T) {
	rows := [][]string{{"10.0.0.5", "", "id"}, {"fd00::1234:5678", "default/" + strings.Repeat("ä", 60), ""}}
	for name, c := range map[string]struct {
		style   Style
		columns []string
		want    string
	}{
		"under the names": {Style{}, []string{"ADDRESS", "POD", "CONTAINER"},
			"ADDRESS          POD" + strings.Repeat(" ", 67) + "CONTAINER\n10.0.0.5         -" + strings.Repeat(" ", 69) + "id\nfd00::1234:5678  default/" + strings.Repeat("ä", 60) + "  -"},
		"without the names, and a column that is not shown": {Style{NoHeaders: true}, []string{"ADDRESS", "", "CONTAINER"}, "10.0.0.5         id\nfd00::1234:5678  -"},
	} {
		if got := strings.Join(c.style.Lines(c.columns, rows), "\n"); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

func TestACellCannotForgeARowOrAColour(t *testing.T) {
	got := Style{NoHeaders: true}.Lines([]string{"A", "B"}, [][]string{{"a\nSTALE 10.0.0.1\tx", "\x1b[31mred"}})
	if want := []string{"a STALE 10.0.0.1 x   [31mred"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
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
