package screen

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

const released = "RELEASED"

func (s *Screen) items(title string, r *report.Report, items []*judge.Item) {
	rows := document.Rows(items, func(it *judge.Item) document.AllocationRow { return document.OfItem(r, it) })
	s.rows(title, r.Observation.Now, rows)
}

// rows writes a section: a row for each item, and below it the sentences behind its verdict and its own refusal. A long
// section has the count of each reason and the first rows, without sentences.
func (s *Screen) rows(title string, now time.Time, rows []document.AllocationRow) {
	if len(rows) == 0 {
		return
	}
	s.Title(title, len(rows))
	shown := rows[:s.shown(document.Rows(rows, reason))]
	release := ""
	if rows[0].Verdict == judge.Stale && title != released {
		release = "RELEASE"
		for _, d := range rows {
			s.hasUnconfirmed = s.hasUnconfirmed || isUnconfirmed(d)
			s.hasMissingNode = s.hasMissingNode || isUnconfirmed(d) && d.Reason == judge.NodeMissingReason
		}
	}
	columns := []string{"ADDRESS", "REASON", release, "POD", "SANDBOX", "NODE", "POOL OR RESERVATION"}
	if s.Wide {
		columns = append(columns, "INTERFACE", "CONTAINER", "RULE", "MESSAGE")
	}
	lines := document.Rows(shown, func(d document.AllocationRow) []string {
		s.explainWord(d.Sandbox)
		return cells(d, now)[:len(columns)]
	})
	s.Table(columns, lines, func(i int) {
		if s.Wide || len(shown) < len(rows) {
			return
		}
		s.Text("    ", shown[i].Message)
		if why := shown[i].Refusal; why == reconciler.Changed || why == reconciler.LeaseBusy ||
			why == reconciler.WriteFailed {
			s.Text("    ", shown[i].Detail) // the summary has the others
		}
	})
	s.more(len(rows)-len(shown), "row")
}

var sandboxWords = []struct {
	state   judge.Sandbox
	meaning string
}{
	{judge.Ready, "runs"},
	{judge.NotReady, "stopped, its network may be open"},
	{judge.Stopped, "ended, its network is closed"},
	{judge.Attached, "in a CNI cache of the node, not in the runtime's list"},
	{judge.Gone, "the node's agent reports its end"},
	{judge.NodeDead, "its node is proven dead"},
	{judge.NodeMissing, "its Node object is gone"},
	{judge.Absent, "in no report"},
	{judge.NoFreshReport, "a node that could run it has no fresh report"},
	{judge.NoSource, "unknown: no node agents, or the item cannot be read"},
}

func (s *Screen) explainWord(word string) {
	if s.sandboxes == nil {
		s.sandboxes = map[string]bool{}
	}
	s.sandboxes[word] = true
}

func (s *Screen) legend() {
	var texts []string
	for _, w := range sandboxWords {
		if s.sandboxes[w.state.String()] {
			texts = append(texts, w.state.String()+" = "+w.meaning)
		}
	}
	if s.NoHeaders || len(texts) == 0 {
		return
	}
	s.gap()
	s.Text("SANDBOX: ", strings.Join(texts, "; ")+".")
	if s.hasUnconfirmed {
		wait := duration.HumanDuration(s.ConfirmAfter)
		s.Text("", fmt.Sprintf("? = unconfirmed: confirmed once every pass for %s agrees. RELEASE is in UTC, "+
			"for a run that starts now; 'serve' may confirm earlier.", wait))
		if s.hasMissingNode {
			s.Text("", fmt.Sprintf("NodeMissing?: the %s count from the node's last report, if it has one. The Node object "+
				"must be missing for %s at least.", wait, duration.HumanDuration(reconciler.NodeQuarantine)))
		}
	}
}

func cells(d document.AllocationRow, now time.Time) []string {
	if d.IsReservation {
		d.Pool += " (reservation)"
	}
	return []string{d.IP, reason(d), release(d, now), d.PodRef, d.Sandbox, d.Node, d.Pool, d.IfName, d.ContainerID, d.Rule,
		d.Message}
}

func reason(d document.AllocationRow) string {
	if isUnconfirmed(d) {
		return d.Reason.String() + "?"
	}
	return d.Reason.String()
}

func isUnconfirmed(d document.AllocationRow) bool { return d.Verdict == judge.Stale && !d.Proven }

// release returns when a Stale item is released, or why not. A time within a day of now has no date.
func release(d document.AllocationRow, now time.Time) string {
	switch {
	case d.Refusal == "":
		return "now"
	case d.ReleasableAt == nil:
		return string(d.Refusal)
	case d.ReleasableAt.Sub(now).Abs() < 24*time.Hour:
		return d.ReleasableAt.Format(time.TimeOnly)
	}
	return d.ReleasableAt.Format(time.RFC3339)
}
