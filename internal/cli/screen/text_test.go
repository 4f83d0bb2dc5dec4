package screen

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestTable_EmptyCellsAndColumnsWithoutAName(t *testing.T) {
	rows := [][]string{
		{"10.0.0.5", "not shown", "", "id"},
		{"fd00::1234:5678", "", "ä" + strings.Repeat("b", 9), ""},
		{"a\nSTALE 10.0.0.1\tx", "", "\x1b[31mred", ""},
	}
	want := []string{
		"10.0.0.5            -           id",
		"fd00::1234:5678     äbbbbbbbbb  -",
		"a STALE 10.0.0.1 x   [31mred    -",
	}
	s := Screen{NoHeaders: true}
	s.Table([]string{"ADDRESS", "", "POD", "CONTAINER"}, rows, nil)
	if got := s.String(); got != strings.Join(want, "\n")+"\n" {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestText_CannotForgeALineOrAColour(t *testing.T) {
	var s Screen
	s.Text("a\x1b[2J ", "10.0.0.1\x1b[2J \u009b31m \u202e2.0.0.01\nRELEASED")
	if text := s.String(); strings.ContainsAny(text, "\x1b\u009b\u202e") || strings.Count(text, "\n") != 1 {
		t.Errorf("%q", text)
	}
}

func TestText_BreaksBetweenWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(`[a-z0-9:]{1,120}`), 1, 30).Draw(t, "words")
		s := Screen{Width: 100}
		s.Text("Note: ", strings.Join(words, " "))
		if got := strings.Fields(s.String()); fmt.Sprint(got[1:]) != fmt.Sprint(words) {
			t.Fatalf("%q", got)
		}
		for line := range strings.Lines(s.String()) {
			isOneWord := len(strings.Fields(strings.TrimPrefix(line, "Note: "))) == 1
			if n := utf8.RuneCountInString(strings.TrimSpace(line)); n > s.Width && !isOneWord {
				t.Fatalf("%d characters: %q", n, line)
			}
		}
	})
}
