package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// Decision is a verdict with its reason.
type Decision struct {
	Verdict     Verdict
	Reason      Reason
	Proven      bool  // a Stale verdict that may be released at once
	row         *rule // the first that matched
	overruledBy *rule // the row that overrules row, which says Stale; nil for none
}

// rule is a row of the verdict table. A column that is nil or empty matches everything.
type rule struct {
	id        string // stable: printed, logged and referred to
	pod       podstate.Phase
	own       *condition
	sandbox   []Sandbox
	when      *condition
	verdict   Verdict
	proven    bool
	reason    Reason
	by        proof  // of the verdict Stale; assertedByPerson where a person can override the verdict Held
	overrules bool   // matches only if another row says Stale
	say       string // the message, with places for fill
}

// condition is what a row requires beside the pod's phase and the sandbox's state. explain and
// docs/reference/verdicts.md print its text.
type condition struct {
	text  string
	holds func(*Evidence) bool
}

// anyPod matches every phase, and no pod.
const anyPod podstate.Phase = -1

func is(states ...Sandbox) []Sandbox { return states }

var rules = table()

// RuleIDs are the names of all rows, as Item.RuleID has them.
func RuleIDs() (ids []string) {
	for i := range rules {
		ids = append(ids, rules[i].id)
	}
	return ids
}

// RuleMeaning is what a row of a name says, in words; "" if there is none.
func RuleMeaning(id string) string {
	i := slices.IndexFunc(rules, func(r rule) bool { return r.id == id })
	if i < 0 {
		return ""
	}
	r := &rules[i]
	text := fmt.Sprintf("A row of the verdict table. Pod: %s; sandbox: %s", r.podText(), r.sandboxText())
	if when := r.whenText(); when != "" {
		text += "; " + when
	}
	if text += ". Then the verdict is " + r.verdictText(); r.overrules {
		text += ", where another row says Stale"
	}
	return text + "."
}

func (r *rule) matches(e *Evidence) bool {
	return (r.pod == anyPod || r.pod == e.Phase) && (len(r.sandbox) == 0 || slices.Contains(r.sandbox, e.Sandbox)) &&
		(r.own == nil || r.own.holds(e)) && (r.when == nil || r.when.holds(e))
}

// decide finds the first row that matches. If it says Stale, or is overridden, the first row that overrules it decides.
// One of these says Stale, too, and gives another reason.
func decide(e *Evidence) Decision {
	var stale *rule
	for i := range rules {
		switch r := &rules[i]; {
		case r.overrules != (stale != nil) || !r.matches(e):
		case stale == nil && (r.verdict == Stale || r.by == assertedByPerson && r.reason == e.Override):
			stale = r
		case r.verdict == Stale:
			return stale.stale(e, r)
		case stale != nil:
			return Decision{Verdict: r.verdict, Reason: r.reason, row: stale, overruledBy: r}
		default:
			return Decision{Verdict: r.verdict, Reason: r.reason, row: r}
		}
	}
	return stale.stale(e, nil)
}

// CanBeOverridden reports whether a person can override the verdict.
func (j *Decision) CanBeOverridden() bool {
	return j.Verdict == Held && j.decidingRow().by == assertedByPerson
}

// OverridableReasons returns the reasons for which a person can override a verdict, each once, in the table's order.
func OverridableReasons() (reasons []string) {
	for i := range rules {
		if r := &rules[i]; r.by == assertedByPerson && !slices.Contains(reasons, r.reason.String()) {
			reasons = append(reasons, r.reason.String())
		}
	}
	return reasons
}

// IsOverridden reports whether the verdict rests on the assertion of a person.
func (j *Decision) IsOverridden() bool { return j.Verdict == Stale && j.row.by == assertedByPerson }

func (j *Decision) decidingRow() *rule { return cmp.Or(j.overruledBy, j.row) }

// text is the row that decided as a line, with what overruled it or made it unconfirmed.
func (j *Decision) text(e *Evidence) string {
	text := j.row.text()
	switch {
	case j.overruledBy != nil:
		return text + "; overruled by " + j.overruledBy.text()
	case j.IsOverridden():
		return text + "; overridden by a person"
	case j.row.proven && !j.Proven:
		for _, c := range doubts() {
			if c.holds(e) {
				return text + "; unconfirmed here: " + c.text
			}
		}
	}
	return text
}

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
	switch {
	case r.by == assertedByPerson:
		return text + ", can be overridden"
	case r.verdict != Stale:
		return text
	case r.proven:
		return text + ", proven"
	}
	return text + ", unconfirmed"
}

// fill fills the evidence into the message of a row.
func (it *Item) fill(text string) string {
	e := it.evidence
	list := func(nodes []string) string {
		switch n := len(nodes); {
		case n == 0:
			return "an unknown node"
		case n > 3:
			return fmt.Sprintf("%s and %d more nodes", strings.Join(nodes[:2], ", "), n-2)
		}
		return strings.Join(nodes, ", ")
	}
	noPod, phase, deleted := "the pod does not exist", "", ""
	if e.Pod != nil {
		noPod = "the pod of this name was never bound to a node"
		phase, deleted = e.Phase.String(), e.Pod.DeletionTime.UTC().Format("2006-01-02T15:04:05Z")
	}
	gone := slices.DeleteFunc(slices.Clone(e.Nodes), func(node string) bool { return !it.j.facts.IsDeadOrMissing(node) })
	unknown := it.j.facts.NodesUnknown()
	if e.rival != nil {
		unknown = cmp.Or(e.rival.unknown, unknown)
	}
	return strings.NewReplacer("{nodes}", list(e.Nodes), "{gone}", list(gone), "{without}", list(e.WithoutReport),
		"{notready}", list(e.NotReady), "{nopod}", noPod, "{phase}", phase, "{deleted}", deleted, "{uid}", e.SandboxUID,
		"{sandbox}", e.Sandbox.String(), "{detail}", e.Detail, "{unknown}", unknown,
		"{claimant}", e.Rival).Replace(text)
}
