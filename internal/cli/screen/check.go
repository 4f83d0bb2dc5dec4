package screen

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/audit"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Report writes a report of check or run.
func (s *Screen) Report(r *view.Picked) { s.report(r, "Dry run: nothing is written.") }

// Plan writes the report of the dry run behind a plan, whose file may be written.
func (s *Screen) Plan(r *view.Picked) { s.report(r, "A plan: nothing is written to the cluster.") }

func (s *Screen) report(r *view.Picked, ofDryRun string) {
	s.List()
	s.summary(r)
	switch {
	case !r.Ran:
		s.Findings("FINDINGS", lists.Map(r.Findings, view.FindingOf))
		s.items("STALE", r, r.Pick(judge.Stale))
	case r.DryRun:
		s.Line("%s", ofDryRun)
		s.dryRun(r)
	default:
		s.ran(r)
	}
	isListed := func(it *judge.Item) bool { return r.Refused[it.ID()].Item != nil } // apply refuses what is Held now
	s.items("HELD", r, slices.DeleteFunc(r.Pick(judge.Held), isListed))
	if s.All || len(r.Filter.Verdicts)+len(r.Filter.Reasons) > 0 { // that the filter names them asks for them
		s.items("IN USE", r, r.Pick(judge.InUse))
	}
	s.legend()
	s.nextStep(r)
}

// nextStep says where the steps are for what needs a person: findings, held items and gates.
func (s *Screen) nextStep(r *view.Picked) {
	if s.NoHeaders || len(r.Findings)+len(r.Gates)+len(r.Pick(judge.Held)) == 0 {
		return
	}
	if len(s.sandboxes) == 0 {
		s.gap()
	}
	s.Line("'explain ADDRESS or POD' has the steps for each.")
}

func (s *Screen) ran(r *view.Picked) {
	rows := lists.Filter(r.Released, view.OwnRow)
	with := ""
	if n := len(r.Released) - len(rows); n > 0 {
		with = " (with their " + Count(n, "reservation") + ")"
	}
	s.Line("Released %s%s. %s not released.", Count(len(rows), "item"), with, Count(len(r.Left), "item"))
	s.Findings("FINDINGS", lists.Map(r.Findings, view.FindingOf))
	s.items(released, r, rows)
	s.items("NOT RELEASED", r, lists.Map(r.Left, itemOf))
	s.repaired("REPAIRED", r)
}

func itemOf(x reconciler.Refused) *judge.Item { return x.Item }

func (s *Screen) dryRun(r *view.Picked) {
	s.Findings("FINDINGS", lists.Map(r.Findings, view.FindingOf))
	s.releasable(r, "WOULD BE RELEASED NOW", "WOULD BE RELEASED LATER")
	isNever := func(x reconciler.Refused) bool { return !r.CanRelease(x.Item) }
	s.items("WOULD NOT BE RELEASED", r, lists.Map(lists.Filter(r.Left, isNever), itemOf))
	s.repaired("WOULD BE REPAIRED", r)
	if r.Requests != nil {
		s.requests(r.Requests)
	}
}

// releasable writes what a run releases: what is confirmed, and what it waits for.
func (s *Screen) releasable(r *view.Picked, now, later string) {
	isNow := func(x reconciler.Refused) bool { return x.Gate.Why == reconciler.DryRunRefusal }
	isLater := func(x reconciler.Refused) bool { return !isNow(x) }
	s.items(now, r, lists.Map(lists.Filter(r.Releasable(), isNow), itemOf))
	s.items(later, r, lists.Map(lists.Filter(r.Releasable(), isLater), itemOf))
}

// BeforeRun writes what a run that was tried out will do, which a person is asked about below it.
func (s *Screen) BeforeRun(r *view.Picked) {
	s.summary(r)
	s.releasable(r, "TO RELEASE NOW", "TO RELEASE LATER")
	s.Title("TO REPAIR", len(r.Repaired))
	for _, f := range r.Repaired {
		s.Text("", string(f.Kind)+" of "+f.IP+" in "+f.Pool)
	}
}

// BeforeRelease writes an explanation, and the items that will be released, which a person is asked about below it.
func (s *Screen) BeforeRelease(r *view.Picked, d *view.Explanation, can []*judge.Item) {
	s.Explain(r, d)
	s.items("TO RELEASE", r, can)
}

// BeforeRecovery writes what recover will write, which a person is asked about below it.
func (s *Screen) BeforeRecovery(out *reconciler.Result) {
	s.summary(view.PickRun(out, true, view.Filter{}))
	isPlanned := func(r view.WriteRow) bool { return r.State == view.Planned }
	s.writes("TO WRITE", lists.Filter(view.Writes(out), isPlanned))
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

func (s *Screen) repaired(title string, r *view.Picked) {
	if len(r.Repaired)+len(r.Unrepaired) == 0 {
		return
	}
	s.Line("\n%s (%d)", title, len(r.Repaired)) // also for none
	for _, f := range r.Repaired {
		s.Text("", string(f.Kind)+" of "+f.IP+" in "+f.Pool)
	}
	why := map[string]int{}
	for _, u := range r.Unrepaired {
		text := u.String()
		if u.Why == reconciler.Breaker { // the same for many
			text = u.Detail
		}
		why[text]++
	}
	s.notRepaired(why)
}

func (s *Screen) notRepaired(why map[string]int) {
	for _, text := range slices.Sorted(maps.Keys(why)) {
		s.Text(fmt.Sprintf("%d not repaired: ", why[text]), text)
	}
}

// Recovery writes what recover wrote or would write, and why the rest is not written.
func (s *Screen) Recovery(out *reconciler.Result, wrote bool) {
	s.List()
	s.summary(view.PickRun(out, !wrote, view.Filter{}))
	rows := view.Writes(out)
	why, count := map[string]int{}, map[string]int{}
	for _, r := range rows {
		if count[r.State]++; r.State != view.Written && r.State != view.Planned {
			why[r.Message]++
		}
	}
	others := lists.Filter(out.Findings, func(f judge.Finding) bool { return !f.CanRepair() })
	if wrote {
		s.Line("Wrote %d, not written %d.", count[view.Written], len(rows)-count[view.Written])
	} else {
		s.Line("Dry run: nothing is written. To write: %d, for %s.", count[view.Planned],
			Count(len(out.Findings)-len(others), "finding"))
	}
	s.Findings("FINDINGS THAT RECOVER DOES NOT REPAIR", lists.Map(others, view.FindingOf))
	s.writes("WRITES", rows)
	s.notRepaired(why)
}

func (s *Screen) writes(title string, rows []view.WriteRow) {
	if len(rows) == 0 {
		return
	}
	s.Title(title, len(rows))
	s.Table([]string{"ADDRESS", "STATE", "WHY", "POD", "INSTEAD OF", "NODE", "POOL"},
		lists.Map(rows, func(r view.WriteRow) []string {
			return []string{r.IP, r.State, string(r.Kind), r.PodRef, r.Instead, r.Node, r.Pool}
		}), nil)
}

var levels = []struct {
	view.Level
	mark string
}{
	{view.LevelError, "✗ "}, {view.LevelWarning, "! "}, {view.LevelOK, "✓ "}, {view.LevelUnknown, "– "},
}

// Status writes the lines of a status by level, each with the command to type next.
func (s *Screen) Status(d *view.Status) {
	s.List()
	count := map[view.Level]int{}
	for _, l := range d.Lines {
		count[l.Level]++
	}
	s.Line("%s, %s.", Count(count[view.LevelError], "error"), Count(count[view.LevelWarning], "warning"))
	for _, level := range levels {
		for _, l := range d.Lines {
			if l.Level != level.Level {
				continue
			}
			if s.onlyRows() {
				s.row(strings.TrimSpace(level.mark + view.Clean(l.Message) + "  " + l.Next))
			}
			s.Text(level.mark, l.Message)
			if l.Next != "" {
				s.Line("    %s", l.Next)
			}
			for _, step := range l.Advice {
				s.step("  ", step)
			}
		}
	}
}

// Sysdump writes where the bundle is, what it lacks, and the command that judges it.
func (s *Screen) Sysdump(d *view.Sysdump, path, flags string) {
	s.Line("Wrote %s: %s.", path, Count(len(d.Files), "file"))
	for _, text := range d.Missing {
		s.Text("! ", text)
	}
	if len(d.Lists) > 0 {
		s.Line("Judge it: ip-reconcile check --snapshot %s --all%s", path, flags)
	}
}

// History writes a row for each record, with its evidence if hasWords. With isVerify it writes only the faults.
func (s *Screen) History(d *view.History, hasWords, isVerify bool) {
	s.List()
	if len(d.Faults) > 0 {
		s.Title("FAULTS", len(d.Faults))
		for _, f := range d.Faults {
			if s.onlyRows() {
				s.row(f.Place + "  " + view.Clean(f.Message))
			}
			s.Text(f.Place+"  ", f.Message)
		}
	}
	switch {
	case isVerify:
		s.Line("%s checked, %s.", Count(d.Checked, "record"), Count(len(d.Faults), "fault"))
		return
	case len(d.Records) == 0:
		s.Line("No such record is kept.")
		return
	}
	s.Title("HISTORY", len(d.Records))
	columns := []string{"TIME", "WHAT", "ADDRESS", "POD", "REASON", "ACTOR"}
	if s.Wide {
		columns = append(columns, "POOL OR RESERVATION", "INTERFACE", "CONTAINER", "RULE", "COMMAND", "PROCESS")
	}
	rows := lists.Map(d.Records, func(r audit.Record) []string {
		if r.What == audit.Paused || r.What == audit.Resumed {
			r.Actor = "" // the process that wrote the record observed it
		}
		return []string{r.Time.Format(time.RFC3339), string(r.What), r.IP, r.PodRef, cmp.Or(r.Refusal, r.Reason),
			strings.TrimPrefix(r.Actor, "system:serviceaccount:"), cmp.Or(r.Pool, strings.Join(r.Reservations, ", ")), r.IfName,
			r.ContainerID, r.Row, r.Command, cmp.Or(r.Pod, r.Run)}[:len(columns)]
	})
	s.Table(columns, rows, func(i int) {
		if r := d.Records[i]; hasWords || r.IP == "" {
			s.Text("    ", r.Message)
			if r.Because != "" {
				s.Text("    because: ", r.Because)
			}
		}
	})
}

const released = "RELEASED"

func (s *Screen) items(title string, r *view.Picked, items []*judge.Item) {
	rows := lists.Map(items, func(it *judge.Item) view.AllocationRow { return view.OfItem(r, it) })
	s.rows(title, r.Observation.Now, rows)
}

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
		s.hasUnconfirmed = s.hasUnconfirmed || isUnconfirmed(d) && !isReleased
		s.hasMissingNode = s.hasMissingNode || isUnconfirmed(d) && !isReleased && d.Reason == judge.NodeMissingReason
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
		if why := ownRefusal(shown[i]); why != "" {
			s.Text("    ", why)
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

func (s *Screen) legend() {
	var texts []string
	for _, w := range sandboxWords {
		if slices.Contains(s.sandboxes, w.state.String()) {
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
	if s.hasEvidence {
		s.Line("'explain ADDRESS' and -o wide print the evidence.")
	}
}

// ownRefusal returns the detail of a refusal that is of an item alone, "" for one that stands in the summary.
func ownRefusal(d view.AllocationRow) string {
	if why := d.Refusal; why == reconciler.Changed || why == reconciler.LeaseBusy || why == reconciler.WriteFailed {
		return d.Detail
	}
	return ""
}

func cells(d view.AllocationRow, when string) []string {
	if d.IsReservation {
		d.Pool += " (reservation)"
	}
	message := d.Message
	if why := ownRefusal(d); why != "" {
		message += "; " + why
	}
	return []string{d.IP, d.Verdict.String(), reason(d), when, d.PodRef, d.Sandbox, d.Node, d.Pool, d.IfName,
		d.ContainerID, d.Rule, message}
}

func reason(d view.AllocationRow) string {
	if isUnconfirmed(d) {
		return d.Reason.String() + "?"
	}
	return d.Reason.String()
}

func isUnconfirmed(d view.AllocationRow) bool { return d.Verdict == judge.Stale && !d.Proven }

// release returns when an item is released, or why a Stale one is not, "" for one that is not Stale. A time within a
// day of now has no date.
func release(d view.AllocationRow, now time.Time) string {
	switch {
	case d.Refusal == "" && d.Verdict != judge.Stale:
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
