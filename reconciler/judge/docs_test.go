package judge

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

const verdictsDoc = "../../docs/verdicts.md"

// docs/verdicts.md is written by this test where UPDATE_DOCS is set, as 'make generate' does.
func TestTheVerdictsInTheDocsAreThoseOfTheTable(t *testing.T) {
	want := document()
	if os.Getenv("UPDATE_DOCS") != "" {
		if err := os.WriteFile(verdictsDoc, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(verdictsDoc)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/verdicts.md is not what the table says: run 'make generate'")
	}
}

func document() string {
	var b strings.Builder
	b.WriteString(`# Verdicts

Generated from the verdict table (reconciler/judge/table.go) by ` + "`make generate`" + `. What the words mean, and why the rows are in this
order, is in [design.md](explain/design.md).

The first row that matches decides. ` + "`ip-reconcile explain`" + ` prints the row by its name. A pod is *finished* (Failed or Succeeded), else
*terminating* (deletionTimestamp), else *Pending*, else *live*; *none* is no pod by that name. A *proven* verdict may be released at
once, an *unconfirmed* one when it was reached at every pass for ` + "`--confirm-after`" + `.

`)
	rowsTo(&b, false)
	b.WriteString("\n## What overrules Stale\n\n")
	rowsTo(&b, true)
	b.WriteString("\n## What makes a proven verdict unconfirmed\n\n")
	for _, c := range doubts() {
		fmt.Fprintf(&b, "- %s\n", c.text)
	}
	return b.String()
}

func rowsTo(b *strings.Builder, overrules bool) {
	b.WriteString("| row | pod by that name | sandbox | when | verdict and reason | in words |\n|---|---|---|---|---|---|\n")
	for i := range rules {
		r := &rules[i]
		if r.overrules != overrules {
			continue
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s |\n", r.id, r.podText(), r.sandboxText(), r.whenText(), r.verdictText(), r.say)
	}
}

func TestEveryRowHasANameOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for i := range rules {
		if id := rules[i].id; id == "" || seen[id] || strings.ToLower(id) != id {
			t.Errorf("row %d is called %q", i, id)
		}
		seen[rules[i].id] = true
	}
}

// A gap in the table must never free anything.
func TestTheLastRowHoldsWhateverNoOtherMatches(t *testing.T) {
	i := slices.IndexFunc(rules, func(r rule) bool { return r.overrules })
	if last := rules[i-1]; last.reason != NoRule || last.verdict != Held || last.pod != anyPod || last.sandbox != nil || last.when != nil || last.own != nil {
		t.Errorf("the last row is %s", last.text())
	}
	for _, r := range rules[i:] {
		if !r.overrules || r.verdict != Held {
			t.Errorf("%s follows the last row and does not hold what is stale", r.text())
		}
	}
}
