package screen

import (
	"fmt"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
)

// Retire writes what became of the pools that a person asked to retire, or what would.
func (s *Screen) Retire(d *view.RetireReport) {
	s.List()
	s.circumstances(view.Circumstances{Limits: d.Limits})
	if d.DryRun {
		s.Line("Dry run: nothing is written.")
	}
	for i := range d.Pools {
		s.retired(&d.Pools[i], d.ObservedAt, d.DryRun)
	}
	s.rows(released, d.ObservedAt, lists.Filter(d.ReleasedRows, func(r view.AllocationRow) bool { return !r.IsShared }))
	if !d.DryRun {
		s.rows("NOT RELEASED", d.ObservedAt, d.FailedRows)
	}
	s.legend()
}

// Retirements writes what becomes of the pools that a plan deletes.
func (s *Screen) Retirements(pools []view.RetiredPool, d *view.RunReport) {
	title := "POOLS"
	if d.DryRun {
		title = "POOLS TO DELETE"
	}
	s.Title(title, len(pools))
	for i := range pools {
		s.retired(&pools[i], d.ObservedAt, d.DryRun)
	}
}

func (s *Screen) retired(p *view.RetiredPool, now time.Time, isDryRun bool) {
	s.gap()
	s.Line("Pool %s (%s) %s.", view.Clean(p.Pool), view.Clean(p.Range), p.Says(isDryRun))
	if len(p.Obstacles) == 0 && p.Detail != "" {
		s.Text("  ", p.Detail+".")
	}
	for _, o := range p.Obstacles {
		if o.IP == "" && o.PodRef == "" {
			s.Text("  ", fmt.Sprintf("%s: %s.", o.Kind, o.Detail))
		}
	}
	if len(p.Workloads) > 0 {
		s.Text("  ", "These must move to another pool first: "+owners(p.Workloads)+". Once their definition leads to "+
			"another range, restart them: pods keep their addresses until then.")
	}
	for _, v := range view.Verdicts() {
		title := "IN POOL " + p.Pool + ", " + v
		s.rows(title, now, lists.Filter(p.Items, func(r view.AllocationRow) bool { return r.Verdict.String() == v }))
	}
	if p.ReleasesFirst() {
		s.Text("  ", "Its stale items are released first, as 'ip-reconcile release' does.")
	}
}
