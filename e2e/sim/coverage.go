package sim

import (
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// enoughForAll is the number of histories after which everything has surely happened.
const enoughForAll = 50_000

// expected is what enough histories must have covered: every row of the verdict table, every refusal, every fault and
// every kind of step.
func expected() (all []string) {
	for _, id := range judge.RuleIDs() {
		// The one row exists so that no history meets it, and the other takes a day.
		if id != "no-rule" && id != "gone-long-alone" {
			all = append(all, "row "+id)
		}
	}
	for _, r := range plan.Refusals() {
		// takes more conflicts in a row than a history has; TestAPoolThatAlwaysConflictsGivesUpAndOthersDoNot
		if r != plan.Changed {
			all = append(all, "refusal "+string(r))
		}
	}
	for _, f := range faults() {
		all = append(all, "fault "+f.name)
	}
	for _, k := range kinds() {
		all = append(all, "step "+k.name)
	}
	return append(all, "released", "repaired", "rewritten", "written back", "pool made", "restored", "reservation written",
		"step at a write", "ADD without an entry", "ADD of IPv6", "DEL lost", "released by a plan", "changed since a plan",
		"ADD of a second interface", "ADD of a second interface in the same pool", "ADD of IPv4 and IPv6",
		"ADD of a node slice", "another slice for a node", "DEL without the slice",
		"ADD of a second interface failed", "ADD of a second interface killed", "DEL of one interface lost",
		"reservation of a live address deleted", "stopped",
		"released by hand", "overridden by hand", "entry taken over", "DEL kept an entry", "released without a claim")
}
