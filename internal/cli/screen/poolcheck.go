package screen

import (
	"fmt"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
)

// PoolCheck writes what a new definition would mean.
func (s *Screen) PoolCheck(d *view.PoolCheck) {
	s.List()
	s.circumstances(view.Circumstances{Agents: d.Agents, Limits: d.Limits})
	for _, r := range d.Ranges {
		s.fact("new range", newRangeText(r))
	}
	s.Text("", map[string]string{
		"Safe":  "Nothing that is seen in use would be assigned a second time.",
		"Twice": "Do not change it like this: addresses in use would be assigned a second time.",
		"Unknown": "Nothing that is known to be in use would be assigned a second time. But not everything is known: " +
			"do not change it yet.",
	}[d.Answer])
	for _, why := range d.MoreUnknown {
		s.Text("Unknown: ", why)
	}
	if len(d.Twice) > 0 {
		s.Title("ASSIGNED TWICE", len(d.Twice))
		s.Table([]string{"ADDRESS", "NEXT ADD", "HAD BY", "WHY"}, lists.Map(d.Twice, twiceRow), nil)
	}
	if len(d.Overlaps) > 0 {
		s.Title("THE SAME ADDRESSES FROM ANOTHER POOL", len(d.Overlaps))
		for _, o := range d.Overlaps {
			s.Text("", fmt.Sprintf("%s from %s by %s: %s", rangeList(o.Shared, o.MoreShared), o.Pool,
				s.names(o.Definitions, fewNames), o.Why))
		}
	}
	for _, v := range view.Verdicts() {
		isOf := func(a view.AllocationRow) bool { return a.Verdict.String() == v }
		s.rows("OUTSIDE, "+v, d.ObservedAt, lists.Filter(d.Items, isOf))
	}
	s.Findings("OUTSIDE, Unrecorded", d.OutsideUnrecorded)
	if len(d.Fits) > 0 {
		s.Title("DOES IT FIT", len(d.Fits))
		s.Table([]string{"FITS", "NEEDS", "FREE", "RANGE", "WHAT"}, lists.Map(d.Fits, fitRow), nil)
		for _, f := range d.Fits {
			if why := f.Unknown + f.Why; why != "" {
				s.Text(f.What+": ", why)
			}
		}
	}
	if len(d.Steps) > 0 {
		s.Line("\nIN THIS ORDER")
		for i, step := range d.Steps {
			step.Why = fmt.Sprintf("%d. %s", i+1, step.Why)
			s.step("  ", step)
		}
	}
	s.legend()
}

func newRangeText(r view.NewRange) string {
	text := r.Range
	if r.Pool != "" {
		text += " in pool " + r.Pool
	} else {
		text += ", cut into node slices"
	}
	switch {
	case r.OtherPool && r.PoolExists:
		text += ", which is another one than today"
	case r.OtherPool:
		text += ", which does not exist yet"
	}
	if !r.OverlappingRanges {
		text += ", without enable_overlapping_ranges"
	}
	return fmt.Sprintf("%s; %s usable, %s free", text, amount(r.Usable.Int), amount(r.Free.Int))
}

func twiceRow(t view.TwiceAddress) []string {
	next := "?"
	if t.Next != nil {
		next = amount(t.Next.Int)
	}
	return []string{t.IP, next, strings.Join(t.By, ", "), t.Why}
}

func fitRow(f view.RangeFit) []string {
	fits := "?"
	if f.Fits != nil {
		fits = map[bool]string{true: "yes", false: "no"}[*f.Fits]
	}
	return []string{fits, amount(f.Needs.Int), amount(f.Free.Int), f.Range, f.What}
}
