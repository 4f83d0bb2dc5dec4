package table

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func columns() []Column {
	return []Column{{Name: "ADDRESS"}, {Name: "REASON"}, {Name: "POD", Cut: 16}, {Name: "SANDBOX"}, {Name: "NODE", Cut: 10, Optional: true},
		{Name: "POOL", Cut: 12, Optional: true}, {Name: "CONTAINER", Wide: true}}
}

func show(s Style, c []Column, rows ...[]string) string {
	var b strings.Builder
	s.Rows(&b, c, rows)
	return b.String()
}

func TestEveryRowHasItsAddressAndReasonAtAnyWidth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z]([a-z0-9.-]{0,251}[a-z0-9])?`)
		style := Style{Width: rapid.IntRange(40, 300).Draw(t, "width"), Wide: rapid.Bool().Draw(t, "wide"), NoHeaders: rapid.Bool().Draw(t, "no headers")}
		var rows [][]string
		for range rapid.IntRange(1, 5).Draw(t, "rows") {
			addr := netip.AddrFrom16([16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "address"))).String()
			rows = append(rows, []string{addr, rapid.SampledFrom([]string{"NetworkStatusMissing", "PodGone", "Recent"}).Draw(t, "reason"),
				name.Draw(t, "pod"), "NoFreshReport", name.Draw(t, "node"), name.Draw(t, "pool"), "id"})
		}
		lines := strings.Split(show(style, columns(), rows...), "\n")
		if !style.NoHeaders {
			lines = lines[1:]
		}
		for i, row := range rows {
			fields := strings.Fields(lines[i])
			if fields[0] != row[0] || fields[1] != row[1] || fields[3] != row[3] {
				t.Fatalf("row %q is shown as %q", row, lines[i])
			}
			long := 39 + 20 + 16 + 13 + 3*gap // what is never cut, and a pod's name
			if n := utf8.RuneCountInString(lines[i]); !style.Wide && n > max(style.Width, long) {
				t.Fatalf("a line of %d characters at a width of %d: %q", n, style.Width, lines[i])
			}
		}
	})
}

func TestAColumnThatDoesNotFitIsNamedBelow(t *testing.T) {
	row := []string{"10.0.0.5", "TerminalButRunning", "default/" + strings.Repeat("a", 60), "NoFreshReport", strings.Repeat("n", 60), "kube-system/10.0.0.0-24", "id"}
	got := show(Style{Width: 80}, columns(), row)
	if !strings.Contains(got, "(POOL: not shown at 80 columns; see -o wide)") || strings.Contains(got, "kube-system") {
		t.Error(got)
	}
	if got := show(Style{Width: 80, Wide: true}, columns(), row); !strings.Contains(got, row[4]) || !strings.Contains(got, row[5]) || strings.Contains(got, "not shown") {
		t.Error("-o wide leaves something out:\n" + got)
	}
}

func TestWithoutAColumnTheOthersHaveItsRoom(t *testing.T) {
	c := []Column{{Name: "A", Cut: 5}, {Name: "B", Cut: 5, Optional: true}}
	if got := show(Style{Width: 11, NoHeaders: true}, c, []string{"abcdefghij", "1234567890"}); got != "abcdefghij\n" {
		t.Errorf("%q", got)
	}
}

func TestLongNamesAreCutInTheMiddleAndTheLongestFirst(t *testing.T) {
	c := []Column{{Name: "A", Cut: 5}, {Name: "B", Cut: 5}}
	if got := show(Style{Width: 16, NoHeaders: true}, c, []string{"abcdefghij", "12345"}); got != "abcd…ghij  12345\n" {
		t.Errorf("%q", got)
	}
	if got := show(Style{NoHeaders: true}, c, []string{"abcdefghij", "12345"}); got != "abcdefghij  12345\n" {
		t.Errorf("without a limit: %q", got)
	}
}

func TestACellCannotForgeARowOrAColour(t *testing.T) {
	got := show(Style{NoHeaders: true}, []Column{{Name: "A"}, {Name: "B"}}, []string{"a\nSTALE 10.0.0.1\tx", "\x1b[31mred"})
	if strings.Count(got, "\n") != 1 || strings.Contains(got, "\x1b") || strings.Contains(got, "\t") {
		t.Errorf("%q", got)
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
