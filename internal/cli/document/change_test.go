package document_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// checkRows are the rows of an observation. why is the gate against each Stale item, "" for none.
func checkRows(why reconciler.Refusal, f report.Filter, parts ...Part) []document.WatchRow {
	j := Judged(Observe(append(parts, Pod("bystander"))...), judge.Policy{})
	plan := &reconciler.Plan{}
	for _, it := range j.Allocations {
		if it.Verdict == judge.Stale && why != "" {
			plan.Refused = append(plan.Refused, reconciler.Refused{Item: it, Gate: reconciler.Gate{Why: why}})
		}
	}
	return document.CheckRows(report.OfCheck(j, plan, report.Filter{}), f)
}

func lines(before, after []document.WatchRow) (all []string) {
	for _, c := range document.Diff(document.Header{}, before, after) {
		all = append(all, strings.Join(strings.Fields(c.String()), " "))
	}
	return all
}

func TestDiff(t *testing.T) {
	none, stale := report.Filter{}, report.Filter{Verdicts: []judge.Verdict{judge.Stale}}
	const place = "10.0.0.5 of kube-system/10.0.0.0-24: "
	const inUse, gone = "default/web-0 InUse AddressOnPod", "default/web-0 Stale PodGone"
	const unknown = "Malformed: NetworkAttachmentDefinition default/wb was not found, but pods name it: default/web-0. " +
		"Their network is unknown, so missing allocations of these pods are not found"
	empty := Pool("10.0.0.0-24", "10.0.0.0/24")
	pod := UsualPod(Carrying("10.0.0.5"))
	phantom := All(UsualPool, ReportingWorker(Sandbox("box-1", UsualUID)))
	for name, c := range map[string]struct {
		before, after []document.WatchRow
		want          []string
	}{
		"nothing": {checkRows("", none, UsualPool, pod), checkRows("", none, UsualPool, pod), nil},
		"an allocation appears": {checkRows("", none, empty, pod), checkRows("", none, UsualPool, pod),
			[]string{"appeared " + place + inUse, "vanished " + unknown}},
		"it vanishes": {checkRows("", none, UsualPool, pod), checkRows("", none, empty, pod),
			[]string{"vanished " + place + inUse, "appeared " + unknown}},
		"its pod is gone": {checkRows("", none, UsualPool, pod), checkRows("", none, UsualPool),
			[]string{"changed " + place + inUse + " → " + gone + ", can be released"}},
		"it waits": {checkRows("", none, UsualPool), checkRows(reconciler.AwaitingConfirmation, none, UsualPool),
			[]string{"changed " + place + gone + ", can be released → " + gone + ", not released: AwaitingConfirmation"}},
		"another gate": {checkRows(reconciler.AwaitingConfirmation, none, UsualPool),
			checkRows(reconciler.Breaker, none, UsualPool),
			[]string{"changed " + place + gone + ", not released: AwaitingConfirmation → " + gone + ", not released: Breaker"}},
		"the filter picks it now": {checkRows("", stale, UsualPool, pod), checkRows("", stale, UsualPool),
			[]string{"changed " + place + inUse + " → " + gone + ", can be released"}},
		"the filter picks it no more": {checkRows("", stale, UsualPool), checkRows("", stale, UsualPool, pod),
			[]string{"changed " + place + gone + ", can be released → " + inUse}},
		"the filter never picks it": {checkRows("", stale, UsualPool, pod), checkRows("", stale, empty, pod), nil},
		"a lone reservation": {checkRows("", none, empty),
			checkRows("", none, empty, Reservation("10.0.0.9", "default/db-0", LongAgo)),
			[]string{"appeared 10.0.0.9 of reservation kube-system/10.0.0.9: " +
				"default/db-0 Stale PodGone, can be released"}},
		"a reservation with an allocation": {checkRows("", none, UsualPool, pod),
			checkRows("", none, UsualPool, pod, Reservation("10.0.0.5", "default/web-0", LongAgo)), nil},
	} {
		if got := lines(c.before, c.after); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%q, want\n%q", name, got, c.want)
		}
	}
	came := strings.Join(lines(checkRows("", none, UsualPool, pod), checkRows("", none, phantom)), "\n")
	went := strings.Join(lines(checkRows("", none, phantom), checkRows("", none, UsualPool, pod)), "\n")
	if !strings.Contains(came, "appeared Phantom: ") || !strings.Contains(went, "vanished Phantom: ") {
		t.Errorf("a finding comes:\n%s\nand goes:\n%s", came, went)
	}
}

// Two keys of a pool may be one address.
func TestDiff_RowsOfOneKey(t *testing.T) {
	one, two := checkRows("", report.Filter{}, UsualPool), checkRows("", report.Filter{}, UsualPool)
	two = append(two, two...)
	if got := lines(one, two); len(got) != 1 || !strings.HasPrefix(got[0], "appeared ") {
		t.Errorf("%q", got)
	}
	if got := lines(two, two); got != nil {
		t.Errorf("%q", got)
	}
}

func TestDiff_Pools(t *testing.T) {
	rows := func(parts ...Part) []document.WatchRow {
		return document.PoolRows(usage.Of(Judged(Observe(append(parts, Pod("bystander"))...), judge.Policy{})).All)
	}
	pod, empty := UsualPod(Carrying("10.0.0.5")), Pool("10.0.0.0-24", "10.0.0.0/24")
	const one = "1 used; 1 in use, 0 held, 0 stale, 0 waiting"
	for _, c := range []struct {
		before, after []document.WatchRow
		want          string
	}{
		{rows(UsualPool, pod), rows(UsualPool, pod), ""},
		{rows(UsualPool, pod), rows(UsualPool), "changed kube-system/10.0.0.0-24: " + one +
			" → 1 used; 0 in use, 0 held, 1 stale, 0 waiting"},
		{rows(empty, pod), rows(UsualPool, pod), "changed kube-system/10.0.0.0-24: " +
			"0 used; 0 in use, 0 held, 0 stale, 0 waiting → " + one},
		{rows(), rows(UsualPool, pod), "appeared kube-system/10.0.0.0-24: " + one},
		{rows(UsualPool, pod), rows(), "vanished kube-system/10.0.0.0-24: " + one},
	} {
		if got := strings.Join(lines(c.before, c.after), "\n"); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
