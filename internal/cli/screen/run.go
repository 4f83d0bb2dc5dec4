package screen

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
)

// Run writes the document of run.
func (s *Screen) Run(d *view.RunReport) {
	if d.DryRun {
		s.dryRun(d, "Dry run: nothing is written.")
		return
	}
	stale := "stale"
	if len(d.ReleasedRows) > 0 {
		stale = "stale before this run"
	}
	s.List()
	s.summary(d.Circumstances, d.Totals, stale)
	rows := lists.Filter(d.ReleasedRows, func(r view.AllocationRow) bool { return !r.IsShared })
	with := ""
	if n := len(d.ReleasedRows) - len(rows); n > 0 {
		with = " (with their " + Count(n, "reservation") + ")"
	}
	s.Line("Released %s%s. %s not released.", Count(len(rows), "item"), with, Count(len(d.FailedRows), "item"))
	s.Findings("FINDINGS", d.Findings)
	s.rows(released, d.ObservedAt, rows)
	s.rows("NOT RELEASED", d.ObservedAt, d.FailedRows)
	s.repaired("REPAIRED", d)
	s.Retirements(d.Retirements, d)
	s.rest(&d.CheckReport, heldAlone(d))
}

// heldAlone returns the rows of what is Held and in no other section: apply refuses what is Held now.
func heldAlone(d *view.RunReport) []view.AllocationRow {
	return lists.Filter(d.Held(), func(r view.AllocationRow) bool { return r.Refusal == "" })
}

// Plan writes the dry run behind a plan, whose file may be written.
func (s *Screen) Plan(d *view.RunReport) { s.dryRun(d, "A plan: nothing is written to the cluster.") }

func (s *Screen) dryRun(d *view.RunReport, says string) {
	s.List()
	s.summary(d.Circumstances, d.Totals, "stale")
	s.Line("%s", says)
	s.Findings("FINDINGS", d.Findings)
	s.releasable(d, "WOULD BE RELEASED NOW", "WOULD BE RELEASED LATER")
	isNever := func(r view.AllocationRow) bool { return !r.CanRelease() }
	s.rows("WOULD NOT BE RELEASED", d.ObservedAt, lists.Filter(d.FailedRows, isNever))
	s.repaired("WOULD BE REPAIRED", d)
	if d.Requests != nil {
		s.requests(d.Requests)
	}
	s.rest(&d.CheckReport, heldAlone(d))
}

// releasable writes what a run releases: what is confirmed, and what it waits for.
func (s *Screen) releasable(d *view.RunReport, now, later string) {
	isNow := func(r view.AllocationRow) bool { return r.Refusal == "" }
	isLater := func(r view.AllocationRow) bool { return !isNow(r) }
	s.rows(now, d.ObservedAt, lists.Filter(d.Releasable(), isNow))
	s.rows(later, d.ObservedAt, lists.Filter(d.Releasable(), isLater))
}

// BeforeRun writes what a run that was tried out will do, which a person is asked about below it.
func (s *Screen) BeforeRun(d *view.RunReport) {
	s.summary(d.Circumstances, d.Totals, "stale")
	s.releasable(d, "TO RELEASE NOW", "TO RELEASE LATER")
	s.Title("TO REPAIR", len(d.Repaired))
	s.repairs(d)
	s.Retirements(d.Retirements, d)
}

// BeforeRelease writes an explanation, and the rows that will be released, which a person is asked about below it.
func (s *Screen) BeforeRelease(d *view.ExplainReport, can []view.AllocationRow) {
	s.Explain(d)
	s.rows("TO RELEASE", d.ObservedAt, can)
}

func (s *Screen) requests(r *view.Requests) {
	s.Title("RESERVATIONS TO DELETE", len(r.Deletes))
	for _, name := range r.Deletes {
		s.Line("%s", name)
	}
	s.Title("PATCHES OF POOLS", len(r.Patches))
	for _, p := range r.Patches {
		s.Line("%s", p.Pool)
		for _, operation := range p.Operations {
			text, _ := json.Marshal(operation) // it was read from JSON
			s.Line("  %s", text)
		}
	}
	s.Title("OBJECTS TO CREATE", len(r.Creates))
	for _, object := range r.Creates {
		text, _ := json.Marshal(object)
		s.Line("%s", text)
	}
}

func (s *Screen) repairs(d *view.RunReport) {
	for _, f := range d.Repaired {
		s.Text("", string(f.Kind)+" of "+f.IP+" in "+f.Pool)
	}
}

func (s *Screen) repaired(title string, d *view.RunReport) {
	if len(d.Repaired)+len(d.NotRepaired) == 0 {
		return
	}
	s.Line("\n%s (%d)", title, len(d.Repaired)) // also for none
	s.repairs(d)
	why := map[string]int{}
	for _, f := range d.NotRepaired {
		why[f.Summary]++
	}
	s.notRepaired(why)
}

func (s *Screen) notRepaired(why map[string]int) {
	for _, text := range slices.Sorted(maps.Keys(why)) {
		s.Text(fmt.Sprintf("%d not repaired: ", why[text]), text)
	}
}
