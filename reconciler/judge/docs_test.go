package judge

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

const referenceDocs = "../../docs/reference/"

// TestDocs_Verdicts writes docs/reference/verdicts.md where UPDATE_DOCS is set, as 'make generate' does.
func TestDocs_Verdicts(t *testing.T) {
	want := document()
	if os.Getenv("UPDATE_DOCS") != "" {
		if err := os.WriteFile(referenceDocs+"verdicts.md", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(referenceDocs + "verdicts.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/reference/verdicts.md differs from the table: run 'make generate'")
	}
}

// TestDocs_Findings checks that docs/reference/findings.md has a section for each kind, in the order of Kinds.
func TestDocs_Findings(t *testing.T) {
	page, err := os.ReadFile(referenceDocs + "findings.md")
	if err != nil {
		t.Fatal(err)
	}
	var sections []Kind
	for line := range strings.Lines(string(page)) {
		if name, found := strings.CutPrefix(line, "## "); found {
			sections = append(sections, Kind(strings.TrimSpace(name)))
		}
	}
	if !slices.Equal(sections, Kinds()) {
		t.Errorf("the page has sections for %v, want %v", sections, Kinds())
	}
}

func document() string {
	var b strings.Builder
	b.WriteString(`# Verdicts

` + "`make generate`" + ` writes this page from the verdict table (reconciler/judge/table.go).

Every allocation and every reservation without an allocation gets one [verdict](../getting-started/concepts.md), InUse,
Held or Stale, with a reason. A *proven* one may be released at once, an *unconfirmed* one when every pass for
` + "`--confirm-after`" + ` agrees.

The first row that matches decides; ` + "`ip-reconcile explain`" + ` prints it with a sentence. A row that names no pod
or no sandbox is for any.

**Pod**: the pod by the name that the allocation records. *none*: there is no such pod, or it was never bound to
a node. *finished*: its phase is Failed or Succeeded. *terminating*: it has a deletionTimestamp. *Pending*: its phase is
Pending. *live*: any other.

**Sandbox**: what is known of the sandbox by the id that the allocation records. The report gives the UID of its pod.
The first state that applies counts. [Its nodes](../explain/design.md#what-is-known-of-a-sandbox) are those that could
run it.

| sandbox | meaning |
|---|---|
| Ready | a fresh report lists the id as READY |
| NotReady | a fresh report lists it as NOTREADY; its network namespace is open or unknown |
| Stopped | a fresh report lists it as NOTREADY; its network namespace is closed |
| Attached | a fresh report has it in a CNI cache only, and its network namespace is open or unknown |
| Gone | a fresh report names it among those that have ended |
| NodeDead | each of its nodes without a fresh report is proven dead |
| NodeMissing | the Node object of each of its nodes without a fresh report is gone, or the node is proven dead |
| Absent | no report has it, and all its nodes have fresh reports of their machines |
| NoFreshReport | one of its nodes has no fresh report, or one that may be of another machine |
| NoSource | there are no node agents |

An Attached sandbox is starting, or its DEL was lost.

## Rows

`)
	rowsTo(&b, false)
	b.WriteString("\n## Rows that overrule Stale\n\n")
	rowsTo(&b, true)
	b.WriteString("\n## Conditions that make a proven verdict unconfirmed\n\n")
	for _, c := range doubts() {
		fmt.Fprintf(&b, "- %s\n", c.text)
	}
	return b.String()
}

// rowsTo lists rows in their order. What a row leaves open is not written.
func rowsTo(b *strings.Builder, overrules bool) {
	n := 0
	for i := range rules {
		r := &rules[i]
		if r.overrules != overrules {
			continue
		}
		var conditions []string
		if r.pod != anyPod {
			conditions = append(conditions, "pod "+r.podText())
		}
		if len(r.sandbox) > 0 {
			conditions = append(conditions, "sandbox "+r.sandboxText())
		}
		if when := r.whenText(); when != "" {
			conditions = append(conditions, when)
		}
		if conditions == nil {
			conditions = []string{"anything else"}
		}
		n++
		fmt.Fprintf(b, "%d. `%s`: %s → **%s**\n", n, r.id, strings.Join(conditions, "; "), r.verdictText())
	}
}

func TestTable_RowNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for i := range rules {
		if id := rules[i].id; id == "" || seen[id] || strings.ToLower(id) != id {
			t.Errorf("row %d is called %q", i, id)
		}
		seen[rules[i].id] = true
	}
}

// A gap in the table must never release anything.
func TestTable_LastRowHolds(t *testing.T) {
	i := slices.IndexFunc(rules, func(r rule) bool { return r.overrules })
	last := rules[i-1]
	matchesAll := last.pod == anyPod && last.sandbox == nil && last.when == nil && last.own == nil
	if last.reason != NoRule || last.verdict != Held || !matchesAll {
		t.Errorf("the last row is %s", last.text())
	}
	for _, r := range rules[i:] {
		isLast := r.id == rules[len(rules)-1].id // it leaves what is stale unconfirmed
		if !r.overrules || r.verdict != Held && !isLast || r.proven {
			t.Errorf("%s follows the last row and does not hold what is stale", r.text())
		}
	}
}
