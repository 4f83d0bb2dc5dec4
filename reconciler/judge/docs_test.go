package judge

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

const verdictsDoc = "../../docs/verdicts.md"

// docs/verdicts.md is written by this test where UPDATE_DOCS is set, as 'make generate'
// does.
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
order, is in [design.md](design.md).

The first row that matches decides. ` + "`ip-reconcile explain`" + ` prints the row by its name. A pod is *finished* (Failed or Succeeded), else
*terminating* (deletionTimestamp), else *Pending*, else *live*; *none* is no pod by that name. A *proven* verdict may be released at
once, an *unconfirmed* one when it was reached at every pass for ` + "`--confirm-after`" + `.

`)
	rowsTo(&b, table())
	b.WriteString("\n## What overrules Stale\n\n")
	rowsTo(&b, overruled())
	b.WriteString("\n## What makes a proven verdict unconfirmed\n\n")
	for _, c := range doubts() {
		fmt.Fprintf(&b, "- %s\n", c.text)
	}
	return b.String()
}

func rowsTo(b *strings.Builder, rows []rule) {
	b.WriteString("| row | pod by that name | sandbox | when | verdict and reason | in words |\n|---|---|---|---|---|---|\n")
	for i := range rows {
		r := &rows[i]
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s |\n", r.id, r.podText(), r.sandboxText(), r.whenText(), r.verdictText(), r.say)
	}
}

func TestEveryRowHasANameOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, rows := range [][]rule{table(), overruled()} {
		for i := range rows {
			if id := rows[i].id; id == "" || seen[id] || strings.ToLower(id) != id {
				t.Errorf("row %d is called %q", i, id)
			}
			seen[rows[i].id] = true
		}
	}
	if len(seen) >= noRow {
		t.Errorf("%d rows are more than a row's number can tell", len(seen))
	}
}

// A gap in the table must never free anything.
func TestTheLastRowHoldsWhateverNoOtherMatches(t *testing.T) {
	all := newRules()
	for phase := range all.of {
		for state, rows := range all.of[phase] {
			if last := all.rows[rows[len(rows)-1]]; last.reason != NoRule || last.verdict != Held || last.when != nil || last.own != nil {
				t.Errorf("phase %d, sandbox %s ends with %s", phase, Sandbox(state), last.text())
			}
		}
	}
}
