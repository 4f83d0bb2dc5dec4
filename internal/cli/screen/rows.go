package screen

import (
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
)

const released = "RELEASED"

// rows writes a section: a row for each item, which has its verdict. The sentence behind the verdict is in the row of a
// wide screen, and below the row of a screen that is no list. A refusal of this item alone is below its row, too. All
// sections have the same columns. A long section that is cut has the count of each reason first.
func (s *Screen) rows(title string, now time.Time, rows []view.AllocationRow) {
	if len(rows) == 0 {
		return
	}
	s.Title(title, len(rows))
	shown := rows[:s.shown(lists.Map(rows, reason))]
	columns := []string{"ADDRESS", "VERDICT", "REASON", "RELEASE", "POD", "SANDBOX", "NODE", "POOL OR RESERVATION"}
	if s.Wide {
		columns = append(columns, "INTERFACE", "CONTAINER", "RULE", "MESSAGE")
	}
	s.hasEvidence = s.hasEvidence || s.isList && !s.Wide
	isReleased := title == released
	for _, d := range rows {
		s.hasUnconfirmed = s.hasUnconfirmed || d.IsUnconfirmed() && !isReleased
		s.hasMissingNode = s.hasMissingNode || d.IsUnconfirmed() && !isReleased && d.IsOfMissingNode()
	}
	s.Table(columns, lists.Map(shown, func(d view.AllocationRow) []string {
		s.sandboxes = append(s.sandboxes, d.Sandbox)
		when := release(d, now)
		if isReleased {
			when = "released"
		}
		return cells(d, when)[:len(columns)]
	}), func(i int) {
		if s.Wide {
			return
		}
		if !s.isList && len(shown) == len(rows) {
			s.Text("    ", shown[i].Message)
		}
		if why := shown[i].OwnRefusal(); why != "" {
			s.Text("    ", why)
		}
	})
	s.more(len(rows)-len(shown), "row")
}

func cells(d view.AllocationRow, when string) []string {
	if d.IsReservation {
		d.Pool += " (reservation)"
	}
	message := d.Message
	if why := d.OwnRefusal(); why != "" {
		message += "; " + why
	}
	return []string{d.IP, d.Verdict.String(), reason(d), when, d.PodRef, d.Sandbox, d.Node, d.Pool, d.IfName,
		d.ContainerID, d.Rule, message}
}

func reason(d view.AllocationRow) string {
	if d.IsUnconfirmed() {
		return d.Reason.String() + "?"
	}
	return d.Reason.String()
}

// release returns when an item is released, or why a Stale one is not, "" for one that is not Stale. A time within a
// day of now has no date.
func release(d view.AllocationRow, now time.Time) string {
	switch {
	case d.Refusal == "" && !d.IsStale():
		return ""
	case d.Refusal == "":
		return "now"
	case d.ReleasableAt == nil:
		return string(d.Refusal)
	case d.ReleasableAt.Sub(now).Abs() < 24*time.Hour:
		return d.ReleasableAt.Format(time.TimeOnly)
	}
	return d.ReleasableAt.Format(time.RFC3339)
}
