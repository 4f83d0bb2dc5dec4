package screen

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/table"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

func planned(t testing.TB, parts ...Part) *report.Report {
	t.Helper()
	r := &reconciler.Reconciler{Options: reconciler.Options{ConfirmAfter: 15 * time.Minute}, History: reconciler.NewHistory()}
	j := Judged(Observe(parts...), judge.Policy{})
	return report.OfCheck(j, r.Plan(t.Context(), j), report.Filter{})
}

func check(s *Screen, r *report.Report) string {
	s.Check(r)
	return s.String()
}

// Whatever the names and the width, each address stands in a row with its reason.
func TestNothingThatMattersIsCutAtAnyWidth(t *testing.T) {
	name := rapid.StringMatching(`[a-z]([a-z0-9.-]{0,251}[a-z0-9])?`)
	rapid.Check(t, func(rt *rapid.T) {
		node, pool := name.Draw(rt, "node"), name.Draw(rt, "pool")
		var entries []Allocation
		var sandboxes []ReportEdit
		for i := range rapid.IntRange(1, 6).Draw(rt, "entries") {
			id, pod := fmt.Sprint("box-", i), name.Draw(rt, "pod")
			entries = append(entries, Alloc(fmt.Sprint(i+1), "default/"+pod, id, "net1"))
			switch rapid.IntRange(0, 3).Draw(rt, "fate") {
			case 0:
				sandboxes = append(sandboxes, Gone(id, "uid-1"))
			case 1:
				sandboxes = append(sandboxes, Sandbox(id, "uid-1", OfPod(pod)))
			case 2:
				sandboxes = append(sandboxes, Sandbox(id, "uid-1", OfPod(pod), NotReady(nil)))
			}
		}
		r := planned(t, Pool(pool, "fd00:1234:5678:9abc:def0:1234:5678:0/112", entries...), Node(node), FreshReport(node, sandboxes...))
		style := table.Style{Width: rapid.IntRange(40, 300).Draw(rt, "width"), Wide: rapid.Bool().Draw(rt, "wide")}
		text := check(&Screen{Style: style, All: true}, r)
		for _, it := range r.Allocations {
			row := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(it.Text()) + ` +` + regexp.QuoteMeta(reason(it)) + ` .*` + regexp.QuoteMeta(sandboxOf(it)))
			if !row.MatchString(text) {
				rt.Fatalf("no row has %s, %s and %s whole:\n%s", it.Text(), reason(it), sandboxOf(it), text)
			}
		}
	})
}

// sections are the counts in the titles.
func sections(text string) map[string]string {
	found := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^([A-Z ]+) \((\d+)\)$`).FindAllStringSubmatch(text, -1) {
		found[m[1]] = m[2]
	}
	return found
}

func TestTheSectionsAddUpToTheFirstLine(t *testing.T) {
	r := planned(t, UsualPool, ReportingWorker(Gone("box-1", UsualUID)), Reservation("10.0.0.9", "default/lone", LongAgo), Reservation("10.0.0.5", "default/web-0", LongAgo))
	text := check(&Screen{}, r)
	if want := "1 pool, 1 allocation: 0 in use, 0 held, 1 stale; 2 reservations (1 without an allocation: 1 stale), 0 findings."; !strings.HasPrefix(text, want) {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	if got := sections(text)["STALE"]; got != "2" || !strings.Contains(text, "1 of them is a reservation without an allocation.") {
		t.Errorf("STALE (%s):\n%s", got, text)
	}
}

func TestAnOutageComesFirst(t *testing.T) {
	text := check(&Screen{}, planned(t, UsualPool, UsualPod(Carrying("10.0.0.7")), Pod("web-9", Carrying("10.0.0.7")), NAD("wb", WhereaboutsConfig("10.0.0.0/24", "")),
		Node("worker-1"), Node("worker-2"), StaleReport("worker-2"), FreshReport("worker-1", Gone("box-1", "uid-of-another"),
			Sandbox("box-7", UsualUID, WithAddress("10.0.0.7", "")), Sandbox("box-9", UsualUID, OfPod("web-9"), WithAddress("10.0.0.7", ""))), Reservation("nonsense", "default/x", LongAgo)))
	order := []string{"Conflict  ", "Unrecorded  ", "Malformed  ", "STALE (", "HELD ("}
	at := -1
	for _, what := range order {
		i := strings.Index(text, "\n"+what)
		if i <= at {
			t.Errorf("%q is not where it should be:\n%s", what, text)
		}
		at = i
	}
}

func TestManyRowsAreGroupedAndEachCanBeFound(t *testing.T) {
	var entries []Allocation
	var gone []ReportEdit
	for i := range 60 {
		entries = append(entries, Alloc(fmt.Sprint(i+1), fmt.Sprintf("default/web-%d", i), fmt.Sprint("box-", i), "net1"))
		if i < 45 {
			gone = append(gone, Gone(fmt.Sprint("box-", i), "uid-1"))
		}
	}
	r := planned(t, Pool("10.0.0.0-24", "10.0.0.0/24", entries...), Node("worker-1"), FreshReport("worker-1", gone...))
	text := check(&Screen{}, r)
	for _, want := range []string{"STALE (60)", "COUNT  REASON", "45     PodGone ", "15     PodGone?", "10.0.0.1, 10.0.0.2, 10.0.0.3 and 42 more", "the same with '-o wide'"} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
	if wide := check(&Screen{Style: table.Style{Wide: true}}, r); strings.Count(wide, "default/web-") < 60 {
		t.Error("-o wide has not every row")
	}
}

func TestAGatedItemIsNotSaidToBeReleased(t *testing.T) {
	proven := All(UsualPool, ReportingWorker(Gone("box-1", UsualUID)))
	for _, c := range []struct {
		name  string
		parts Part
		want  string
	}{
		{"nothing stands against it", proven, "PodGone  now "},
		{"not confirmed", All(UsualPool, ReportingWorker()), "PodGone?  " + Now.Add(15*time.Minute).Format("15:04:05")},
		{"paused", All(proven, func(o *Observed) { o.Paused = true }), "PodGone  Paused "},
		{"its pool is paused", All(proven, func(o *Observed) { o.Pools[0].Paused = true }), "PodGone  Paused "},
	} {
		text := check(&Screen{}, planned(t, c.parts))
		if !strings.Contains(text, c.want) {
			t.Errorf("%s: want %q in\n%s", c.name, c.want, text)
		}
		if gated := strings.Contains(c.want, "Paused"); gated != strings.Contains(text, "Paused: ") {
			t.Errorf("%s: the gate is not named:\n%s", c.name, text)
		}
	}
}

func TestColourIsForTitlesOnATerminalAlone(t *testing.T) {
	r := planned(t, UsualPool, ReportingWorker(Gone("box-1", UsualUID)))
	plain, coloured := check(&Screen{}, r), check(&Screen{Style: table.Style{Color: true}}, r)
	if strings.Contains(plain, "\x1b") || !strings.Contains(coloured, "\x1b[33mSTALE (1)\x1b[0m") {
		t.Errorf("%q\n%q", plain, coloured)
	}
	if regexp.MustCompile(`\x1b\[\d+m`).ReplaceAllString(coloured, "") != plain {
		t.Error("colour changes the text")
	}
}

func TestHeadersCanBeLeftOut(t *testing.T) {
	text := check(&Screen{Style: table.Style{NoHeaders: true}}, planned(t, UsualPool, ReportingWorker(Gone("box-1", UsualUID))))
	if strings.Contains(text, "ADDRESS") || !strings.Contains(text, "10.0.0.5") {
		t.Error(text)
	}
}

func TestEveryFindingHasAPlaceInTheOrder(t *testing.T) {
	for _, k := range []judge.Kind{judge.Conflict, judge.Unrecorded, judge.Misrecorded, judge.Phantom, judge.MissingReservation, judge.MalformedFinding, judge.NoFreshReportFinding, judge.StatusMismatch} {
		if !slices.Contains(judge.Kinds(), k) {
			t.Errorf("%s has none", k)
		}
	}
}
