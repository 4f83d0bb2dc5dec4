package reconciler_test

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what the tests find into testdata")

// golden compares lines with a file of testdata.
func golden(t *testing.T, file string, lines []string) {
	t.Helper()
	file, got := "testdata/"+file, strings.Join(lines, "\n")+"\n"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(string(text), "\n")
	for i, line := range lines {
		if i >= len(want) || line != want[i] {
			t.Errorf("%s, line %d: got\n%s\nwant\n%s", file, i+1, line, strings.Join(want[min(i, len(want)):min(i+1, len(want))],
				""))
		}
	}
	if len(want) != len(lines)+1 {
		t.Errorf("%s has %d lines, want %d", file, len(want)-1, len(lines))
	}
}
