package judge

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// Judged is a verdict with why.
type Judged struct {
	Verdict Verdict
	Reason  Reason
	Proven  bool // of a Stale verdict: may be released at once
	// row is that of the table, and overruled that of what stood against it, or noRow.
	row, overruled uint8
}

// noRow marks that nothing overruled a verdict.
const noRow = 255

// rule is one row of the verdict table. A column that is nil or empty matches everything.
type rule struct {
	id      string // stable: it is printed, logged and referred to
	pod     podstate.Phase
	own     *condition
	sandbox []Sandbox
	when    *condition
	verdict Verdict
	proven  bool
	reason  Reason
	by      proof  // what the verdict Stale rests on
	say     string // {sandbox}, {nodes}, {without}, {gone}, {phase}, {deleted}, {uid}, {detail} and {claimant} are filled in
}

// anyPod matches whatever the API has by that name.
const anyPod podstate.Phase = -1

func is(states ...Sandbox) []Sandbox { return states }

// matches reports whether the conditions hold.
func (r *rule) matches(e *Evidence) bool {
	return (r.own == nil || r.own.holds(e)) && (r.when == nil || r.when.holds(e))
}

// isFor reports whether the row is about a pod of this phase and such a sandbox.
func (r *rule) isFor(phase podstate.Phase, state Sandbox) bool {
	return (r.pod == anyPod || r.pod == phase) && (len(r.sandbox) == 0 || slices.Contains(r.sandbox, state))
}

// rules is the table, with the rows that may match a pod's phase and a sandbox's state,
// in their order.
type rules struct {
	rows      []rule
	overruled []rule
	doubts    []*condition
	of        [podstate.Finished + 1][NoSource + 1][]uint8
}

func newRules() *rules {
	t := &rules{rows: table(), overruled: overruled(), doubts: doubts()}
	for i := range t.rows {
		for phase := range t.of {
			for state := range t.of[phase] {
				if t.rows[i].isFor(podstate.Phase(phase), Sandbox(state)) {
					t.of[phase][state] = append(t.of[phase][state], uint8(i))
				}
			}
		}
	}
	return t
}

// RuleIDs are the names of all rows, and of what overrules them, as Item.RuleID has them.
func RuleIDs() (ids []string) {
	for _, rows := range [][]rule{table(), overruled()} {
		for i := range rows {
			ids = append(ids, rows[i].id)
		}
	}
	return ids
}

// judge finds the first row that matches; the last one matches everything.
func (t *rules) judge(e *Evidence) Judged {
	at := uint8(len(t.rows) - 1)
	for _, i := range t.of[e.Phase][e.Sandbox] {
		if t.rows[i].matches(e) {
			at = i
			break
		}
	}
	r := &t.rows[at]
	if r.verdict == Stale {
		return t.stale(at, e)
	}
	return Judged{Verdict: r.verdict, Reason: r.reason, row: at, overruled: noRow}
}

// message is the verdict as a sentence.
func (t *rules) message(j Judged, e *Evidence) string {
	if j.overruled != noRow {
		return e.fill(t.overruled[j.overruled].say)
	}
	return e.fill(t.rows[j.row].say)
}

// id is that of the row that decided.
func (t *rules) id(j Judged) string {
	if j.overruled != noRow {
		return t.overruled[j.overruled].id
	}
	return t.rows[j.row].id
}

// text is the row that decided, with its conditions.
func (t *rules) text(j Judged, e *Evidence) string {
	text := t.rows[j.row].text()
	switch {
	case j.overruled != noRow:
		return text + "; overruled by " + t.overruled[j.overruled].text()
	case t.rows[j.row].proven && !j.Proven:
		for _, c := range t.doubts {
			if c.holds(e) {
				return text + "; not proven here: " + c.text
			}
		}
	}
	return text
}

// text is the row as a line.
func (r *rule) text() string {
	when := r.whenText()
	if when != "" {
		when = " | when: " + when
	}
	return fmt.Sprintf("%s | pod: %s | sandbox: %s%s | %s", r.id, r.podText(), r.sandboxText(), when, r.verdictText())
}

func (r *rule) podText() string {
	if r.pod == anyPod {
		return "any"
	}
	return r.pod.String()
}

func (r *rule) whenText() string {
	var texts []string
	for _, c := range []*condition{r.own, r.when} {
		if c != nil {
			texts = append(texts, c.text)
		}
	}
	return strings.Join(texts, ", and ")
}

func (r *rule) sandboxText() string {
	if len(r.sandbox) == 0 {
		return "any"
	}
	var states []string
	for _, s := range r.sandbox {
		states = append(states, s.String())
	}
	return strings.Join(states, ", ")
}

func (r *rule) verdictText() string {
	text := fmt.Sprintf("%s, %s", r.verdict, r.reason)
	if r.verdict == Stale {
		text += map[bool]string{true: ", proven", false: ", unconfirmed"}[r.proven]
	}
	return text
}

func (e *Evidence) fill(text string) string {
	list := func(nodes []string) string {
		switch n := len(nodes); {
		case n == 0:
			return "an unknown node"
		case n > 3:
			return fmt.Sprintf("%s and %d more nodes", strings.Join(nodes[:2], ", "), n-2)
		}
		return strings.Join(nodes, ", ")
	}
	phase, deleted, uid := "", "", e.SandboxUID
	if e.Pod != nil {
		phase, deleted = e.Phase.String(), e.Pod.Deleted.UTC().Format("2006-01-02T15:04:05Z")
	}
	return strings.NewReplacer("{nodes}", list(e.Nodes), "{gone}", list(e.gone), "{without}", list(e.WithoutReport), "{phase}", phase,
		"{deleted}", deleted, "{uid}", uid, "{sandbox}", e.Sandbox.String(), "{detail}", e.Detail, "{claimant}", e.Claimant).Replace(text)
}
