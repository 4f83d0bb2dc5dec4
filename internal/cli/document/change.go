package document

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// ChangeType is what became of the subject of a Change.
type ChangeType string

const (
	Appeared ChangeType = "Appeared"
	Changed  ChangeType = "Changed"
	Vanished ChangeType = "Vanished"
)

// Change is the document of one change, which check --watch and pools --watch print after their first document.
type Change struct {
	Header
	// Change is Appeared, Changed or Vanished.
	Change ChangeType `json:"change"`
	Was    string     `json:"was,omitempty"` // the state before the change in words; absent for what Appeared
	Is     string     `json:"is,omitempty"`  // the state after the change in words; absent for what Vanished
	ChangeSubject

	name string
}

// ChangeSubject is what a change is about, in one field. What Vanished is as it was before the change.
type ChangeSubject struct {
	Allocation *AllocationRow `json:"allocation,omitempty"`
	// Reservation is a reservation without an allocation. Any other changes with its allocation.
	Reservation *ReservationRow `json:"reservation,omitempty"`
	Finding     *judge.Finding  `json:"finding,omitempty"`
	Pool        *PoolUsage      `json:"pool,omitempty"`
}

// String returns the change as one line, without the time. It may have control characters of names.
func (c *Change) String() string {
	states := slices.DeleteFunc([]string{c.Was, c.Is}, func(state string) bool { return state == "" })
	return fmt.Sprintf("%-8s  %s: %s", strings.ToLower(string(c.Change)), c.name, strings.Join(states, " → "))
}

// WatchRow is the state of one subject at one time.
type WatchRow struct {
	ChangeSubject
	key, name string
	state     string // in words
	isSame    bool   // the subject has no other state: it only comes and goes
	isPicked  bool   // by the filter
}

// CheckRows returns the rows of all items and findings of an unfiltered report.
func CheckRows(r *report.Report, f report.Filter) (rows []WatchRow) {
	for _, it := range report.Only(r.Items(), report.OwnRow) {
		d := OfItem(r, it)
		row := WatchRow{name: d.IP + " of " + d.Pool, state: d.state(), isPicked: f.Item(it)}
		if row.Allocation = &d; d.IsReservation {
			lone := d.reservation(it)
			row.ChangeSubject, row.name = ChangeSubject{Reservation: &lone}, d.IP+" of reservation "+d.Pool
		}
		row.key = row.name
		rows = append(rows, row)
	}
	for _, x := range r.Findings {
		key := fmt.Sprintf("%s %q", x.Kind, []any{x.Pool, x.IP, x.Node, x.Pods, x.ContainerIDs})
		rows = append(rows, WatchRow{
			ChangeSubject: ChangeSubject{Finding: &x}, key: key, name: string(x.Kind), state: x.Message, isSame: true,
			isPicked: f.Finding(&x),
		})
	}
	return rows
}

// state returns whose the item is, the verdict, and whether a Stale item is released.
func (d AllocationRow) state() string {
	text := fmt.Sprintf("%s %s %s", d.PodRef, d.Verdict, d.Reason)
	switch {
	case d.Refusal != "":
		text += fmt.Sprintf(", not released: %s", d.Refusal)
	case d.Verdict == judge.Stale:
		text += ", can be released"
	}
	return text
}

// PoolRows returns the rows of pools.
func PoolRows(pools []*usage.Pool) []WatchRow {
	return Rows(pools, func(p *usage.Pool) WatchRow {
		d := OfPool(p)
		state := fmt.Sprintf("%d used", d.Used)
		if d.Unknown == "" {
			state = fmt.Sprintf("%d used of %s, %s blocked, %s free", d.Used-p.Outside, p.Usable, p.Blocked, p.Free)
			if p.Outside > 0 {
				state += fmt.Sprintf(", %d outside", p.Outside)
			}
		}
		state += fmt.Sprintf("; %d in use, %d held, %d stale, %d waiting", d.InUse, d.Held, d.Stale, len(d.Waiting))
		return WatchRow{ChangeSubject: ChangeSubject{Pool: &d}, key: d.Pool, name: d.Pool, state: state, isPicked: true}
	})
}

// Diff returns what changed from one result to another, ordered by subject. A change counts if the filter picks the
// subject before or after it.
func Diff(h Header, before, after []WatchRow) (changes []Change) {
	was, is := byKey(before), byKey(after)
	keys := slices.Concat(slices.Collect(maps.Keys(was)), slices.Collect(maps.Keys(is)))
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		a, existed := was[key]
		b, exists := is[key]
		c := Change{Header: h, Change: Changed, Was: a.state, Is: b.state, ChangeSubject: b.ChangeSubject, name: b.name}
		switch {
		case !a.isPicked && !b.isPicked:
			continue
		case !existed:
			c.Change = Appeared
		case !exists:
			c.Change, c.ChangeSubject, c.name = Vanished, a.ChangeSubject, a.name
		case a.isSame || a.state == b.state:
			continue
		}
		changes = append(changes, c)
	}
	return changes
}

// byKey returns rows by key. Rows of the same key, as for two keys of a pool that are one address, are counted.
func byKey(rows []WatchRow) map[string]WatchRow {
	found := map[string]WatchRow{}
	for _, row := range rows {
		key := row.key
		for n := 2; found[key].key != ""; n++ {
			key = fmt.Sprintf("%s (%d)", row.key, n)
		}
		found[key] = row
	}
	return found
}
