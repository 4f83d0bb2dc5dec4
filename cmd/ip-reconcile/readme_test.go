package main

import (
	"os"
	"strings"
	"testing"
)

// TestReadme_ShowsWhatIsPrinted compares the lines that README.md shows of explain with what explain prints of the
// sample, and those of status with its golden file.
func TestReadme_ShowsWhatIsPrinted(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	check(t, err)
	status, err := os.ReadFile("../../internal/cli/statuscmd/testdata/status.txt")
	check(t, err)
	_, explained, _ := run(t, "explain", "10.0.0.20", "--snapshot", "../../samples/cluster")
	words := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	printed := words(explained + string(status))
	_, shown, _ := strings.Cut(string(readme), "\n## What it shows\n")
	shown, _, _ = strings.Cut(shown, "\n## ")
	n := 0
	for line := range strings.Lines(shown) {
		line, isShown := strings.CutPrefix(line, "    ")
		line = words(strings.TrimLeft(line, "✗!✓ "))
		if !isShown || strings.HasPrefix(line, "$ ") || strings.HasPrefix(line, "Cluster ") || line == "1 error, 1 warning." {
			continue
		}
		if n++; !strings.Contains(printed, line) {
			t.Errorf("README.md shows %q, which neither explain nor status prints", line)
		}
	}
	if n < 10 {
		t.Errorf("README.md shows %d lines", n)
	}
}
