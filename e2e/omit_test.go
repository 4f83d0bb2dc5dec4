package e2e

import (
	"strings"
	"testing"
)

// statusCommand is the command of README.md's picture, and statusOutput has what it prints there.
const (
	statusCommand = "ip-reconcile status"
	statusOutput  = "testdata/status.txt"
)

// A part of an output is a line that begins with from, and what follows it: until a line that begins with to, or else
// to the end of the paragraph.
type part struct{ from, to string }

// omit replaces each part of an output by a line "…", and adjacent ones by a single one.
func omit(t testing.TB, output string, parts ...part) string {
	t.Helper()
	const mark = "…"
	for _, p := range parts {
		var kept []string
		n, inside := 0, false
		for _, line := range strings.Split(output, "\n") {
			if inside {
				inside = line != "" && (p.to == "" || !strings.HasPrefix(line, p.to))
			} else if strings.HasPrefix(line, p.from) {
				n, inside = n+1, true
				kept = append(kept, mark)
			}
			if !inside {
				kept = append(kept, line)
			}
		}
		if n == 0 {
			t.Fatalf("no line begins with %q in\n%s", p.from, output)
		}
		output = strings.Join(kept, "\n")
	}
	const twice = mark + "\n\n" + mark + "\n"
	for strings.Contains(output, twice) {
		output = strings.ReplaceAll(output, twice, mark+"\n")
	}
	return output
}
