package findings_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
)

// TestDocs_Findings checks that docs/reference/findings.md has a section for each kind, in the order of Kinds.
func TestDocs_Findings(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/findings.md")
	if err != nil {
		t.Fatal(err)
	}
	var sections []findings.Kind
	for line := range strings.Lines(string(page)) {
		if name, found := strings.CutPrefix(line, "## "); found {
			sections = append(sections, findings.Kind(strings.TrimSpace(name)))
		}
	}
	if !slices.Equal(sections, findings.Kinds()) {
		t.Errorf("the page has sections for %v, want %v", sections, findings.Kinds())
	}
}
