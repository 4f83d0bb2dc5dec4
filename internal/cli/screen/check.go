package screen

import "github.com/ip-reconcile/ip-reconcile/internal/cli/view"

// Check writes the document of check.
func (s *Screen) Check(d *view.CheckReport) {
	s.List()
	s.summary(d.Circumstances, d.Totals, "stale")
	s.Findings("FINDINGS", d.Findings)
	s.rows("STALE", d.ObservedAt, d.Stale())
	s.rest(d, d.Held())
}

// rest writes what all documents with verdicts end with, with these rows of what is Held.
func (s *Screen) rest(d *view.CheckReport, held []view.AllocationRow) {
	s.rows("HELD", d.ObservedAt, held)
	if s.All || d.NamesVerdicts() { // that the filter names them asks for them
		s.rows("IN USE", d.ObservedAt, d.InUse())
	}
	s.legend()
	s.nextStep(d)
}

// nextStep says where the steps are for what needs a person: findings, held items and gates.
func (s *Screen) nextStep(d *view.CheckReport) {
	if s.NoHeaders || len(d.Findings)+len(d.Gates)+d.Summary.Held+d.Summary.Lone.Held == 0 {
		return
	}
	if len(s.sandboxes) == 0 {
		s.gap()
	}
	s.Line("'explain ADDRESS or POD' has the steps for each.")
}
