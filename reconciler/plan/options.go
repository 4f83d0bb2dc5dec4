package plan

import (
	"time"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/memory"
)

// Options are the decisions of an operator.
type Options struct {
	facts.Policy
	Overrides        judge.Overrides
	ConfirmAfter     time.Duration // how long an unconfirmed verdict must stand
	AllowMassRelease bool          // switches the breaker off
	DryRun           bool          // plans, and writes nothing
	Repair           bool          // writes what findings show to be missing or wrong
	AllowMassRepair  bool          // switches the breaker for repairs off
	// ByHand: a person has read the evidence on what Only selects, so that no verdict waits for ConfirmAfter.
	ByHand bool
	// Only, where set, selects what may be released and what plans contain. OnlyFindings does so for repairs.
	Only         func(*judge.Item) bool
	OnlyFindings func(*findings.Finding) bool
}

// IsInScope reports whether Only selects an item.
func (o Options) IsInScope(it *judge.Item) bool { return o.Only == nil || o.Only(it) }

// confirmAfter is how long an unconfirmed verdict must stand. By hand that is as long as a report is fresh: a report
// that is fresh then is younger than the first pass, and an ADD that was in progress then is in it. No person sees the
// ADD of a Pending pod, which a runtime may not list for longer.
func (o Options) confirmAfter(it *judge.Item) time.Duration {
	switch e := it.Evidence(); {
	case !o.ByHand, e != nil && e.Phase == podstate.Pending:
		return o.ConfirmAfter
	case e != nil && e.Sandbox == judge.NoSource:
		return 0
	}
	return facts.MinAbsenceWhilePending
}

// JudgePolicy is the policy by which verdicts are made.
func (o Options) JudgePolicy() facts.Policy {
	p := o.Policy
	p.MissingAfter = max(o.ConfirmAfter, memory.NodeQuarantine)
	return p
}
