package words_test

import (
	"slices"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/words"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// Every word that is printed has a meaning, and no other word has one.
func TestWords_Complete(t *testing.T) {
	printed := map[string][]string{
		"verdict": view.Verdicts(), "reason": judge.ReasonNames(), "finding": view.Kinds(),
		"refusal":       {string(plan.DryRunRefusal)},
		"agent state":   {string(facts.NodeFresh), string(facts.NodeNoFreshReport), string(facts.NodeDeadOrMissing)},
		"address state": {"Free", "Reserved", "Excluded", "NoPool", "OutsideEveryPool", "Unknown"}, // addresses.go
		"column":        {"USABLE", "USED", "BLOCKED", "OUTSIDE", "FILL", "WAITING"},               // of pools
		"proof":         {"proven", "unconfirmed"},
		"write state":   {view.Planned, view.Written},
		"rule":          judge.RuleIDs(),
	}
	for _, r := range plan.Refusals() {
		printed["refusal"] = append(printed["refusal"], string(r))
	}
	for s := judge.Ready; s <= judge.NoSource; s++ {
		printed["sandbox state"] = append(printed["sandbox state"], s.String())
	}
	var all []string
	for kind, names := range printed {
		for _, name := range names {
			all = append(all, name)
			isFound := false
			for _, w := range words.Find(name) {
				isFound = isFound || w.Kind == kind && w.Word == name && w.Means != ""
			}
			if !isFound {
				t.Errorf("%s %s has no meaning", kind, name)
			}
		}
	}
	for _, name := range words.Known() {
		if !slices.Contains(all, name) {
			t.Errorf("%s is not printed", name)
		}
	}
	if found := words.Find("nodemissing?"); len(found) != 2 {
		t.Errorf("NodeMissing is a reason and a state of sandboxes, got %+v", found)
	}
}
