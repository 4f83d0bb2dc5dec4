package main

import (
	"os"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/border"
)

// Colours are beside words and marks that say the same. Text of an object cannot bring its own.
func TestPainter_VerdictsAndMarks(t *testing.T) {
	var shown strings.Builder
	w := border.Writer(painter{&shown})
	for _, text := range []string{
		"10.0.0.5  Stale  PodGone\n10.0.0.6  Held  Malformed\n10.0.0.7  InUse  SandboxReady\n",
		"✓ All is well, and not Staleness!\n! Not so well ✗\n✗ Bad\n", "\x1b[31mred\n",
	} {
		if n, err := w.Write([]byte(text)); n != len(text) || err != nil {
			t.Error(n, err)
		}
	}
	want := "10.0.0.5  \x1b[31mStale\x1b[0m  PodGone\n10.0.0.6  \x1b[33mHeld\x1b[0m  Malformed\n" +
		"10.0.0.7  \x1b[32mInUse\x1b[0m  SandboxReady\n" +
		"\x1b[32m✓\x1b[0m All is well, and not Staleness!\n\x1b[33m!\x1b[0m Not so well ✗\n\x1b[31m✗\x1b[0m Bad\n" +
		"\\u001b[31mred\n"
	if shown.String() != want {
		t.Errorf("got\n%q, want\n%q", shown.String(), want)
	}
}

// A file has no width of its own, and no colours.
func TestDisplay_OfAFile(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/out")
	check(t, err)
	defer f.Close()
	for columns, want := range map[string]int{"": 0, "x": 0, "0": 0, "-1": 0, "20": 60, "60": 60, "132": 132} {
		t.Setenv("COLUMNS", columns)
		if d := displayOf(f, f); d != (display{columns: want}) {
			t.Errorf("COLUMNS=%s: %+v", columns, d)
		}
	}
}

// Rows alone can be piped into other programs: notes are on stderr.
func TestNoHeaders_LeavesOnlyRows(t *testing.T) {
	for _, args := range [][]string{
		{"check", "--all"}, {"check", "-o", "wide"}, {"run"}, {"recover"}, {"pools"}, {"pools", "10.0.0.0/24"},
	} {
		_, out, errs := run(t, append(args, "--no-headers", "--snapshot", sample)...)
		for line := range strings.Lines(out) {
			first, _, _ := strings.Cut(line, " ")
			isKind := strings.Contains(kinds, " "+first+" ")
			if !strings.Contains(line, "  ") || !strings.ContainsAny(first, ".-") && !isKind {
				t.Errorf("%v: %q is no row", args, line)
			}
		}
		if out == "" || !strings.Contains(errs, "Note: the snapshot's time is taken from") {
			t.Errorf("%v: it prints %q, and on stderr %q", args, out, errs)
		}
	}
}

const kinds = " Conflict Unrecorded Misrecorded Phantom MissingReservation Malformed NoFreshReport StatusMismatch "

// Texts of flags are broken at the width of the terminal, which is 100 in these tests.
func TestHelp_FlagsFitTheTerminal(t *testing.T) {
	for _, command := range newRoot(streams{}).Commands() {
		_, out, _ := run(t, command.Name(), "--help")
		_, flags, hasFlags := strings.Cut(out, "\nFlags:\n")
		for line := range strings.Lines(flags) {
			if len(strings.TrimSpace(line)) > 100 && strings.HasPrefix(line, "  ") {
				t.Errorf("%s --help has a line of %d columns: %s", command.Name(), len(line), line)
			}
		}
		if !hasFlags {
			t.Errorf("%s --help has no flags:\n%s", command.Name(), out)
		}
	}
}
