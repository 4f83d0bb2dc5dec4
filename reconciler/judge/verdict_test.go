package judge_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// podCase is what the API has by the allocation's name.
type podCase struct {
	says string
	pod  Part
}

// sandboxCase is what is known of the allocation's sandbox.
type sandboxCase struct {
	says  string
	parts Part
	state judge.Sandbox
}

var (
	noPod             = podCase{"no pod by that name", Nothing}
	pending           = podCase{"a Pending pod", UsualPod(Phase("Pending"))}
	pendingForAMinute = podCase{"a Pending pod that has been so for a minute",
		All(afterPassOver(UsualPool, UsualPod(Phase("Pending")), isGone(OtherUID).parts), UsualPod(Phase("Pending")))}
	pendingCarrier = podCase{"a Pending pod that carries the address", UsualPod(Phase("Pending"),
		Carrying("10.0.0.5"))}
	live               = podCase{"a live pod", UsualPod()}
	carrier            = podCase{"a live pod that carries the address", UsualPod(Carrying("10.0.0.5"))}
	terminating        = podCase{"a terminating pod", UsualPod(DeletedAgo(-30 * time.Second))}
	terminatingCarrier = podCase{"a terminating pod that carries the address", UsualPod(DeletedAgo(-30*time.Second),
		Carrying("10.0.0.5"))}
	stuckTerminating = podCase{"a pod terminating since six minutes after its time", UsualPod(DeletedAgo(6 * time.Minute))}
	finished         = podCase{"a finished pod that kubelet did not report stopped", UsualPod(Phase("Failed"))}
	succeeded        = podCase{"a finished pod that kubelet stopped", UsualPod(Phase("Succeeded"),
		StoppedByKubelet(time.Hour))}
	finishedAndDeleted = podCase{"a finished pod that should have been deleted an hour ago", UsualPod(Phase("Failed"),
		DeletedAgo(time.Hour))}
)

// The sandbox of a pod with this UID; "" where the report does not say.
func runs(uid string) sandboxCase {
	return sandboxCase{owned(uid) + "runs", ReportingWorker(Sandbox("box-1", uid)), judge.Ready}
}
func isNotReady(uid string) sandboxCase {
	return sandboxCase{owned(uid) + "is not ready", ReportingWorker(Sandbox("box-1", uid, NotReady(nil))), judge.NotReady}
}
func hasStopped(uid string) sandboxCase {
	return sandboxCase{owned(uid) + "has stopped", ReportingWorker(Sandbox("box-1", uid, NotReady(Closed))), judge.Stopped}
}
func isAttached(uid string) sandboxCase {
	return sandboxCase{owned(uid) + "is attached", ReportingWorker(Attachment("box-1", uid, time.Minute, nil)),
		judge.Attached}
}

// wasAttached is in no report but as an attachment whose network is closed, which proves nothing.
func wasAttached(uid string) sandboxCase {
	return sandboxCase{owned(uid) + "was attached, and its network is closed",
		ReportingWorker(Attachment("box-1", uid, 16*time.Minute, Closed)), judge.Absent}
}
func isGone(uid string) sandboxCase {
	return sandboxCase{owned(uid) + "is gone", ReportingWorker(Gone("box-1", uid)), judge.Gone}
}
func diedWithNode(uid string) sandboxCase {
	return sandboxCase{owned(uid) + "was on a dead node", All(dead1,
		StaleReport("worker-1", Sandbox("box-1", uid))), judge.NodeDead}
}
func lostItsNode(uid string) sandboxCase {
	return sandboxCase{owned(uid) + "was on a node that is missing",
		All(Node("worker-2"), FreshReport("worker-2"), StaleReport("worker-1", Sandbox("box-1", uid))), judge.NodeMissing}
}
func hasNoFreshReport(uid string) sandboxCase {
	return sandboxCase{owned(uid) + "is on a node without a fresh report", All(Node("worker-1"), StaleReport("worker-1",
		Sandbox("box-1", uid))), judge.NoFreshReport}
}
func isUnreachable(uid string) sandboxCase {
	return sandboxCase{owned(uid) + "is on a node without a fresh report that is not Ready",
		All(Node("worker-1", NotReadyFor(time.Hour)), StaleReport("worker-1", Sandbox("box-1", uid))), judge.NoFreshReport}
}

var (
	isAbsent      = sandboxCase{"is in no report", ReportingWorker(), judge.Absent}
	noSource      = sandboxCase{"no agent can report", Node("worker-1"), judge.NoSource}
	noSourceNodes = sandboxCase{"no agent can report, and there is no node", Nothing, judge.NoSource}
	noSourceDown  = sandboxCase{"no agent can report, with a node that is not Ready",
		All(Node("worker-1", NotReadyFor(time.Hour)), Node("worker-2")), judge.NoSource}
)

func owned(uid string) string {
	switch uid {
	case "":
		return "is of an unknown pod and "
	case "uid-1":
		return ""
	}
	return "was another pod's and "
}

type tableRow struct {
	pods      []podCase
	sandboxes []sandboxCase
	verdict   judge.Verdict
	proven    bool
	reason    judge.Reason
}

// tableRows are the design's table, in its order; a cell with several states or two reasons is written out.
func tableRows() []tableRow {
	beside := []sandboxCase{ // every state but Ready
		isNotReady(UsualUID), isNotReady(OtherUID), hasStopped(UsualUID), hasStopped(OtherUID), isAttached(UsualUID),
		isAttached(OtherUID), isGone(UsualUID), isGone(OtherUID), isGone(NoUID),
		diedWithNode(UsualUID), diedWithNode(OtherUID), lostItsNode(UsualUID), isAbsent, hasNoFreshReport(UsualUID),
		hasNoFreshReport(OtherUID), isUnreachable(UsualUID), noSource, noSourceDown,
	}
	return []tableRow{
		{[]podCase{noPod, pending, live, carrier, terminating, terminatingCarrier, stuckTerminating, finished, succeeded},
			[]sandboxCase{runs(OtherUID)}, judge.Held, false, judge.PhantomPod},
		{[]podCase{noPod}, []sandboxCase{runs(UsualUID), runs(NoUID)}, judge.Held, false, judge.PhantomPod},
		{[]podCase{live, terminating, stuckTerminating, finished, succeeded}, []sandboxCase{runs(NoUID)}, judge.Held, false,
			judge.PhantomPod},
		{[]podCase{finished, succeeded, finishedAndDeleted}, []sandboxCase{runs(UsualUID)}, judge.Held, false,
			judge.TerminalButRunning},
		{[]podCase{stuckTerminating}, []sandboxCase{runs(UsualUID)}, judge.Held, false, judge.StuckTerminating},
		{[]podCase{terminating, terminatingCarrier}, []sandboxCase{runs(UsualUID)}, judge.Held, false, judge.Terminating},
		{[]podCase{pending, live, carrier}, []sandboxCase{runs(UsualUID)}, judge.InUse, false, judge.SandboxReady},
		{[]podCase{pendingForAMinute}, []sandboxCase{hasStopped(OtherUID), isGone(OtherUID), diedWithNode(OtherUID)},
			judge.Stale, true, judge.PodReplaced},
		// its node's agent may not know of its sandbox yet
		{[]podCase{pending}, []sandboxCase{hasStopped(OtherUID), isGone(OtherUID), diedWithNode(OtherUID)}, judge.Stale,
			false, judge.PodReplaced},
		{[]podCase{pending}, []sandboxCase{isAbsent, wasAttached(UsualUID), wasAttached(OtherUID)}, judge.Stale, false,
			judge.PodReplaced},
		{[]podCase{pending}, []sandboxCase{ // B8: it is not waited for
			hasStopped(UsualUID), hasStopped(NoUID), isGone(UsualUID), isGone(NoUID), diedWithNode(UsualUID),
			diedWithNode(NoUID),
			isNotReady(UsualUID), isNotReady(OtherUID), isAttached(UsualUID), isAttached(OtherUID), lostItsNode(UsualUID),
			lostItsNode(OtherUID),
			hasNoFreshReport(UsualUID), hasNoFreshReport(OtherUID), isUnreachable(UsualUID), noSource, noSourceDown,
		}, judge.InUse, false, judge.PodPending},
		{[]podCase{pendingCarrier}, []sandboxCase{isGone(UsualUID)}, judge.InUse, false, judge.PodPending},
		{[]podCase{carrier}, beside, judge.InUse, false, judge.AddressOnPod},
		{[]podCase{noPod, live, terminating, terminatingCarrier, stuckTerminating, finished, succeeded},
			[]sandboxCase{isAttached(UsualUID), isAttached(OtherUID), isAttached(NoUID)}, judge.Held, false,
			judge.AttachedReason},
		{[]podCase{stuckTerminating}, []sandboxCase{isNotReady(UsualUID), isNotReady(OtherUID)}, judge.Held, false,
			judge.StuckTerminating},
		{[]podCase{noPod, live, terminating, terminatingCarrier, finished, succeeded, finishedAndDeleted},
			[]sandboxCase{isNotReady(UsualUID), isNotReady(OtherUID), isNotReady(NoUID)}, judge.Held, false,
			judge.SandboxNotReady},
		{[]podCase{noPod, live, terminating, terminatingCarrier, stuckTerminating, finished, succeeded},
			[]sandboxCase{diedWithNode(UsualUID), diedWithNode(OtherUID), diedWithNode(NoUID)}, judge.Stale, true,
			judge.NodeDeadReason},
		{[]podCase{noPod, live, terminating, terminatingCarrier, stuckTerminating, finished, succeeded},
			[]sandboxCase{lostItsNode(UsualUID), lostItsNode(OtherUID)}, judge.Stale, false, judge.NodeMissingReason},
		{[]podCase{noPod, live, terminating, terminatingCarrier, stuckTerminating, finished, finishedAndDeleted},
			[]sandboxCase{hasNoFreshReport(UsualUID)}, judge.Held, false, judge.NoFreshReportReason},
		{[]podCase{noPod, live, terminating, terminatingCarrier, stuckTerminating, finished, finishedAndDeleted},
			[]sandboxCase{isUnreachable(UsualUID)}, judge.Held, false, judge.NodeUnreachable},
		// What kubelet wrote is about the successor, not about the sandbox on the node without a fresh report.
		{[]podCase{{"a successor that kubelet stopped since the last report", UsualPod(Phase("Succeeded"),
			StoppedByKubelet(time.Minute))}},
			[]sandboxCase{hasNoFreshReport(OtherUID)}, judge.Held, false, judge.NoFreshReportReason},
		{[]podCase{live}, []sandboxCase{hasStopped(OtherUID), isGone(OtherUID)}, judge.Stale, true, judge.PodReplaced},
		{[]podCase{live}, []sandboxCase{hasStopped(UsualUID), hasStopped(NoUID), isGone(UsualUID), isGone(NoUID)},
			judge.Stale, true, judge.SandboxReplaced},
		{[]podCase{
			{"a live pod without a network-status", UsualPod(NoNetworkStatus)},
			{"a live pod with a network-status that is not JSON", UsualPod(NetworkStatus(`[{"ips":["10.0.0.7"]`))},
		}, []sandboxCase{isAbsent, noSource, noSourceDown}, judge.Held, false, judge.NetworkStatusMissing},
		{[]podCase{live}, []sandboxCase{isAbsent, wasAttached(UsualUID), wasAttached(OtherUID)}, judge.Stale, false,
			judge.AddressNotOnPod},
		{[]podCase{live}, []sandboxCase{noSource, noSourceDown}, judge.Held, false, judge.AddressNotOnPod},
		{[]podCase{terminating, stuckTerminating}, []sandboxCase{hasStopped(UsualUID), hasStopped(OtherUID),
			hasStopped(NoUID), isGone(UsualUID), isGone(OtherUID), isGone(NoUID)}, judge.Stale, true, judge.SandboxStopped},
		{[]podCase{terminating, stuckTerminating}, []sandboxCase{isAbsent, wasAttached(UsualUID), wasAttached(OtherUID)},
			judge.Stale, false, judge.SandboxStopped},
		{[]podCase{terminatingCarrier}, []sandboxCase{hasStopped(UsualUID), isGone(UsualUID)}, judge.Stale, true,
			judge.SandboxStopped},
		{[]podCase{terminatingCarrier}, []sandboxCase{hasStopped(OtherUID), hasStopped(NoUID), isGone(OtherUID),
			isGone(NoUID), isAbsent}, judge.Held, false, judge.ClaimedByOther},
		{[]podCase{terminating, terminatingCarrier, stuckTerminating}, []sandboxCase{noSourceDown}, judge.Held, false,
			judge.NodeUnreachable},
		{[]podCase{stuckTerminating}, []sandboxCase{noSource}, judge.Held, false, judge.StuckTerminating},
		{[]podCase{terminating, terminatingCarrier}, []sandboxCase{noSource}, judge.Held, false, judge.Terminating},
		{[]podCase{finished, succeeded, finishedAndDeleted}, []sandboxCase{hasStopped(UsualUID), hasStopped(OtherUID),
			hasStopped(NoUID), isGone(UsualUID), isGone(OtherUID)}, judge.Stale, true, judge.PodFinished},
		{[]podCase{finished, succeeded, finishedAndDeleted}, []sandboxCase{isAbsent, wasAttached(UsualUID),
			wasAttached(OtherUID)}, judge.Stale, false, judge.PodFinished},
		{[]podCase{succeeded}, []sandboxCase{noSource, noSourceDown}, judge.Stale, false, judge.PodFinished},
		{[]podCase{finished, finishedAndDeleted}, []sandboxCase{noSource, noSourceDown}, judge.Held, false,
			judge.TerminalButRunning},
		{[]podCase{noPod}, []sandboxCase{hasStopped(UsualUID), hasStopped(NoUID), isGone(UsualUID), isGone(NoUID)},
			judge.Stale, true, judge.PodGone},
		{[]podCase{noPod}, []sandboxCase{isAbsent, wasAttached(UsualUID), wasAttached(OtherUID)}, judge.Stale, false,
			judge.PodGone},
		{[]podCase{noPod}, []sandboxCase{noSourceDown}, judge.Held, false, judge.NodeUnreachable},
		{[]podCase{noPod}, []sandboxCase{noSource, noSourceNodes}, judge.Stale, false, judge.PodGone},
	}
}

func TestVerdictTable(t *testing.T) {
	for _, r := range tableRows() {
		for _, p := range r.pods {
			for _, b := range r.sandboxes {
				says := map[judge.Verdict]string{judge.InUse: "in use", judge.Held: "held",
					judge.Stale: "stale, unconfirmed"}[r.verdict]
				if r.proven {
					says = "stale, proven"
				}
				t.Run(fmt.Sprintf("%s whose sandbox %s is %s: %s", p.says, b.says, says, r.reason), func(t *testing.T) {
					Expect(t, Want(r.verdict, r.reason, r.proven, b.state), UsualPool, p.pod, b.parts)
				})
			}
		}
	}
}

// Row 1 comes before everything: what cannot be read is not judged, whatever the pod and the sandbox are.
func TestWhatCannotBeReadIsHeld(t *testing.T) {
	entry := func(edit func(map[string]any)) Part {
		e := map[string]any{"id": "box-1", "podref": "default/web-0", "ifname": "net1"}
		edit(e)
		return RawPool("10.0.0.0-24", map[string]any{"range": "10.0.0.0/24", "allocations": map[string]any{"5": e}})
	}
	for says, c := range map[string]struct {
		pool   Part
		reason judge.Reason
	}{
		"an allocation without podref (B4)": {entry(func(e map[string]any) { delete(e, "podref") }), judge.Malformed},
		// No report can name its sandbox, so that none has it proves nothing.
		"an allocation without id":  {entry(func(e map[string]any) { delete(e, "id") }), judge.Malformed},
		"a field that is not known": {entry(func(e map[string]any) { e["ipamclaimref"] = "claim" }), judge.UnknownField},
		"a field that is not known, without a value": {entry(func(e map[string]any) { e["until"] = nil }),
			judge.UnknownField},
		"an IPAMClaim without a value": {entry(func(e map[string]any) { e["ipamclaimref"] = nil }), judge.Malformed},
		"a key that is no number": {Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("x", "default/web-0",
			"box-1", "net1")), judge.Malformed},
		"a range without a length": {Pool("10.0.0.0", "10.0.0.0", UsualAllocation), judge.Malformed},
		"a range wider than /64":   {Pool("193---24", "193::/24", UsualAllocation), judge.UnsupportedRange},
		"a range with host bits":   {Pool("10.0.0.3-24", "10.0.0.3/24", UsualAllocation), judge.UnsupportedRange},
		"a key that is outside of a range with host bits": {Pool("10.0.0.3-24", "10.0.0.3/24", Alloc("-1",
			"default/web-0", "box-1", "net1")), judge.UnsupportedRange},
		"a podref that is empty, in a range wider than /64": {Pool("193---24", "193::/24", Alloc("5", "", "box-1",
			"net1")), judge.UnsupportedRange},
		"a field that is not known, in a range wider than /64": {RawPool("193---24", map[string]any{"range": "193::/24",
			"allocations": map[string]any{"5": map[string]any{"id": "box-1", "podref": "default/web-0", "until": "x"}}}),
			judge.UnsupportedRange},
		"an allocation that is no object": {RawPool("10.0.0.0-24", map[string]any{"range": "10.0.0.0/24",
			"allocations": map[string]any{"5": "box-1"}}), judge.Malformed},
		"allocations that are a list, so no entry is": {RawPool("10.0.0.0-24", map[string]any{"range": "10.0.0.0/24",
			"allocations": []any{"box-1"}}), ""},
	} {
		for _, pod := range []podCase{noPod, live, carrier, succeeded} {
			for _, b := range []sandboxCase{runs(UsualUID), isGone(UsualUID), noSource} {
				t.Run(fmt.Sprintf("%s is held, with %s whose sandbox %s", says, pod.says, b.says), func(t *testing.T) {
					j := Judged(Observe(c.pool, pod.pod, b.parts), facts.Policy{})
					if c.reason == "" {
						if len(j.Allocations) != 0 {
							t.Errorf("judged %d allocations of a pool whose allocations cannot be read", len(j.Allocations))
						}
						return
					}
					it := j.Allocations[0]
					if it.Verdict != judge.Held || it.Reason != c.reason || it.Proven {
						t.Errorf("got %s, %s; want Held, %s", it.Verdict, it.Reason, c.reason)
					}
					if strings.TrimSpace(it.Message()) == "" {
						t.Error("it does not say what is wrong")
					}
				})
			}
		}
	}
}

// expectVerdict is Expect where the rules define the verdict only, and not the state of the sandbox.
func expectVerdict(t *testing.T, want decision, parts ...Part) {
	t.Helper()
	it := usualIn(t, parts...)
	if got := (decision{it.Verdict, it.Reason, it.Proven}); got != want {
		t.Error(Wrong(it, want))
	}
}

// rulingCase and decisionCase are what is observed beside something that all cases of a test share.
type rulingCase struct {
	says  string
	want  Ruling
	parts []Part
}

type decisionCase struct {
	says  string
	want  decision
	parts []Part
}

func expectRulings(t *testing.T, base Part, cases []rulingCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.says, func(t *testing.T) { Expect(t, c.want, append([]Part{base}, c.parts...)...) })
	}
}

func expectVerdicts(t *testing.T, base Part, cases []decisionCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.says, func(t *testing.T) { expectVerdict(t, c.want, append([]Part{base}, c.parts...)...) })
	}
}

// expectReservations judges the reservation 10.0.0.5.
func expectReservations(t *testing.T, base Part, cases []decisionCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.says, func(t *testing.T) {
			expectReservation(t, "10.0.0.5", c.want, append([]Part{base}, c.parts...)...)
		})
	}
}

// expectKept wants the usual allocation in use or held, whatever the reason.
func expectKept(t *testing.T, parts ...Part) {
	t.Helper()
	if it := usualIn(t, parts...); it.Verdict == judge.Stale {
		t.Error(Wrong(it, "in use or held"))
	}
}

// afterPassesOver has earlier passes over the same things, every ten minutes from so long ago on.
func afterPassesOver(ago time.Duration, parts ...Part) Part {
	return func(o *Observed) {
		var known reconciler.Known
		for ; ago > 0; ago -= 10 * time.Minute {
			before := Observe(append([]Part{At(Now.Add(-ago))}, parts...)...)
			before.Past = known
			known = known.After(Judged(before, facts.Policy{}).Judgement)
		}
		o.Past = known
	}
}

// check ends the test with an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
