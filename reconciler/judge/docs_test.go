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
		check(t, os.WriteFile(referenceDocs+"verdicts.md", []byte(want), 0o644))
	}
	got, err := os.ReadFile(referenceDocs + "verdicts.md")
	check(t, err)
	if string(got) != want {
		t.Error("docs/reference/verdicts.md has other rows than the table. If you meant to change it, run 'make generate'")
	}
}

func document() string {
	var b strings.Builder
	b.WriteString(`# Verdicts

` + "`make generate`" + ` writes this page from the verdict table (reconciler/judge/table.go).

Every allocation and every reservation without an allocation gets one
[verdict](../getting-started/concepts.md#who-knows-what) with a reason. The first row that matches decides;
` + "`ip-reconcile explain`" + ` prints it with a sentence. A row that names no pod or no sandbox is for any.

**Pod**: the one by the name that the allocation records. *none*: there is no such pod, or it was never bound to a node.
*finished*: its phase is Failed or Succeeded. *terminating*: it has a deletionTimestamp. *Pending*: its phase.
*live*: any other.

**Sandbox**: the one by the id that the allocation records. A report has the UID of its pod. The first state that
applies counts. [Its nodes](../explain/design.md#what-is-known-of-a-sandbox) are those that could run it.

- *Ready*: a fresh report lists the id as READY
- *NotReady*: a fresh report lists it as NOTREADY; its network namespace is open or unknown
- *Stopped*: a fresh report lists it as NOTREADY; its network namespace is closed
- *Attached*: a fresh report has it in a CNI cache only, and its network namespace is open or unknown. It is starting,
  or its DEL was lost
- *Gone*: a fresh report names it among those that have ended
- *NodeDead*: each of its nodes without a fresh report is proven dead
- *NodeMissing*: the Node object of each of its nodes without a fresh report is gone, or the node is proven dead
- *Absent*: no report has it, and all its nodes have fresh reports of their machines
- *NoFreshReport*: one of its nodes has no fresh report, or one that may be of another machine
- *NoSource*: there are no node agents

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

// rowsTo lists rows in their order. What a row leaves open is not written, and a condition that three or more in
// succession share is the title above them.
func rowsTo(b *strings.Builder, overrules bool) {
	var rows []*rule
	for i := range rules {
		if rules[i].overrules == overrules {
			rows = append(rows, &rules[i])
		}
	}
	for n, title, until := 0, "", 0; n < len(rows); n++ {
		if n >= until {
			was := title
			title, until = commonTo(rows, n)
			if title == "" && was != "" {
				title = "others"
			}
			if title != was {
				fmt.Fprintf(b, "\n**%s**\n\n", strings.ToUpper(title[:1])+title[1:])
			}
		}
		r := rows[n]
		conditions := slices.DeleteFunc(conditionsOf(r), func(c string) bool { return c == title })
		if when := r.whenText(); when != "" {
			conditions = append(conditions, when)
		}
		if conditions == nil {
			conditions = []string{"anything else"}
		}
		fmt.Fprintf(b, "%d. **%s** (`%s`)", n+1, r.verdictText(), r.id)
		if len(conditions) > 0 {
			fmt.Fprintf(b, ": %s", strings.Join(conditions, "; "))
		}
		b.WriteString("\n")
	}
}

// conditionsOf are what a row demands of the pod and of the sandbox.
func conditionsOf(r *rule) (all []string) {
	if r.pod != anyPod {
		all = append(all, "pod "+r.podText())
	}
	if len(r.sandbox) > 0 {
		all = append(all, "sandbox "+r.sandboxText())
	}
	return all
}

// commonTo is the condition that the most rows from one on share, if these are three or more, and the row after them.
func commonTo(rows []*rule, from int) (common string, until int) {
	until = from + 2
	for _, c := range conditionsOf(rows[from]) {
		end := from
		for end < len(rows) && slices.Contains(conditionsOf(rows[end]), c) {
			end++
		}
		if end > until {
			common, until = c, end
		}
	}
	if common == "" {
		until = from + 1
	}
	return common, until
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

// check ends the test with an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
