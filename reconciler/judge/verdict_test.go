package judge_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// who is what the API has by the allocation's name.
type who struct {
	says string
	pod  Part
}

// what is what is known of the allocation's sandbox.
type what struct {
	says  string
	parts Part
	state judge.Sandbox
}

var (
	nobody      = who{"no pod by that name", Nothing}
	pending     = who{"a Pending pod", UsualPod(Phase("Pending"))}
	settling    = who{"a Pending pod that has been so for a minute", All(seenWhile(UsualPool, UsualPod(Phase("Pending")), isGone(OtherUID).parts), UsualPod(Phase("Pending")))}
	live        = who{"a live pod", UsualPod()}
	carrier     = who{"a live pod that carries the address", UsualPod(Carrying("10.0.0.5"))}
	unknown     = who{"a pod of phase Unknown that carries the address", UsualPod(Phase("Unknown"), Carrying("10.0.0.5"))}
	terminating = who{"a terminating pod", UsualPod(DeletedAgo(-30 * time.Second))}
	carrierEnds = who{"a terminating pod that carries the address", UsualPod(DeletedAgo(-30*time.Second), Carrying("10.0.0.5"))}
	stuck       = who{"a pod terminating since six minutes after its time", UsualPod(DeletedAgo(6 * time.Minute))}
	finished    = who{"a finished pod that kubelet did not report stopped", UsualPod(Phase("Failed"))}
	succeeded   = who{"a finished pod that kubelet stopped", UsualPod(Phase("Succeeded"), StoppedByKubelet(time.Hour))}
	finishedDel = who{"a finished pod that should have been deleted an hour ago", UsualPod(Phase("Failed"), DeletedAgo(time.Hour))}
)

// The sandbox of a pod with this UID; "" where the report does not say.
func runs(uid string) what {
	return what{owned(uid) + "runs", ReportingWorker(Sandbox("box-1", uid)), judge.Ready}
}
func isNotReady(uid string) what {
	return what{owned(uid) + "is not ready", ReportingWorker(Sandbox("box-1", uid, NotReady(nil))), judge.NotReady}
}
func hasStopped(uid string) what {
	return what{owned(uid) + "has stopped", ReportingWorker(Sandbox("box-1", uid, NotReady(Closed))), judge.Stopped}
}
func isAttached(uid string) what {
	return what{owned(uid) + "is attached", ReportingWorker(Attachment("box-1", uid, time.Minute, nil)), judge.Attached}
}
func isGone(uid string) what {
	return what{owned(uid) + "is gone", ReportingWorker(Gone("box-1", uid)), judge.Gone}
}
func diedWithNode(uid string) what {
	return what{owned(uid) + "was on a dead node",
		All(Node("worker-1", NotReadyFor(time.Hour), OutOfService), StaleReport("worker-1", Sandbox("box-1", uid))), judge.NodeDead}
}
func lostItsNode(uid string) what {
	return what{owned(uid) + "was on a node that is missing",
		All(Node("worker-2"), FreshReport("worker-2"), StaleReport("worker-1", Sandbox("box-1", uid))), judge.NodeMissing}
}
func hasNoFreshReport(uid string) what {
	return what{owned(uid) + "is on a node without a fresh report", All(Node("worker-1"), StaleReport("worker-1", Sandbox("box-1", uid))), judge.NoFreshReport}
}
func isUnreachable(uid string) what {
	return what{owned(uid) + "is on a node without a fresh report that is not Ready",
		All(Node("worker-1", NotReadyFor(time.Hour)), StaleReport("worker-1", Sandbox("box-1", uid))), judge.NoFreshReport}
}

var (
	isAbsent      = what{"is in no report", ReportingWorker(), judge.Absent}
	noSource      = what{"no agent can tell of", Node("worker-1"), judge.NoSource}
	noSourceNodes = what{"no agent can tell of, with nodes that may not be listed", Nothing, judge.NoSource}
	noSourceDown  = what{"no agent can tell of, with a node that is not Ready",
		All(Node("worker-1", NotReadyFor(time.Hour)), Node("worker-2")), judge.NoSource}
)

func owned(uid string) string {
	switch uid {
	case "":
		return "belongs to nobody knows whom and "
	case "uid-1":
		return ""
	}
	return "was another pod's and "
}

type row struct {
	pods    []who
	boxes   []what
	verdict judge.Verdict
	proven  bool
	reason  judge.Reason
}

// rows are the design's table, in its order; a cell with several states or two
// reasons is written out.
func rows() []row {
	beside := []what{ // every state but Ready
		isNotReady(UsualUID), isNotReady(OtherUID), hasStopped(UsualUID), hasStopped(OtherUID), isAttached(UsualUID), isAttached(OtherUID), isGone(UsualUID), isGone(OtherUID), isGone(NoUID),
		diedWithNode(UsualUID), diedWithNode(OtherUID), lostItsNode(UsualUID), isAbsent, hasNoFreshReport(UsualUID), hasNoFreshReport(OtherUID), isUnreachable(UsualUID), noSource, noSourceDown,
	}
	return []row{
		{[]who{nobody, pending, live, carrier, terminating, carrierEnds, stuck, finished, succeeded}, []what{runs(OtherUID)}, judge.Held, false, judge.PhantomPod},
		{[]who{nobody}, []what{runs(UsualUID), runs(NoUID)}, judge.Held, false, judge.PhantomPod},
		{[]who{finished, succeeded, finishedDel}, []what{runs(UsualUID)}, judge.Held, false, judge.TerminalButRunning},
		{[]who{stuck}, []what{runs(UsualUID)}, judge.Held, false, judge.StuckTerminating},
		{[]who{terminating, carrierEnds}, []what{runs(UsualUID)}, judge.Held, false, judge.Terminating},
		{[]who{pending, live, carrier, unknown}, []what{runs(UsualUID)}, judge.InUse, false, judge.SandboxReady},
		{[]who{settling}, []what{hasStopped(OtherUID), isGone(OtherUID), diedWithNode(OtherUID)}, judge.Stale, true, judge.PodReplaced},
		{[]who{pending}, []what{hasStopped(OtherUID), isGone(OtherUID), diedWithNode(OtherUID)}, judge.Stale, false, judge.PodReplaced}, // its node's agent may not know of its sandbox yet
		{[]who{pending}, []what{isAbsent}, judge.Stale, false, judge.PodReplaced},
		{[]who{pending}, []what{
			hasStopped(UsualUID), hasStopped(NoUID), isGone(UsualUID), isGone(NoUID), diedWithNode(UsualUID), diedWithNode(NoUID),
			isNotReady(UsualUID), isNotReady(OtherUID), isAttached(UsualUID), isAttached(OtherUID), lostItsNode(UsualUID), lostItsNode(OtherUID),
			hasNoFreshReport(UsualUID), hasNoFreshReport(OtherUID), isUnreachable(UsualUID), noSource, noSourceDown, noSourceNodes,
		}, judge.InUse, false, judge.PodPending},
		{[]who{carrier, unknown}, beside, judge.InUse, false, judge.AddressOnPod},
		{[]who{nobody, live, terminating, carrierEnds, stuck, finished, succeeded}, []what{isAttached(UsualUID), isAttached(OtherUID), isAttached(NoUID)}, judge.Held, false, judge.AttachedReason},
		{[]who{stuck}, []what{isNotReady(UsualUID), isNotReady(OtherUID)}, judge.Held, false, judge.StuckTerminating},
		{[]who{nobody, live, terminating, carrierEnds, finished, succeeded, finishedDel}, []what{isNotReady(UsualUID), isNotReady(OtherUID), isNotReady(NoUID)}, judge.Held, false, judge.SandboxNotReady},
		{[]who{nobody, live, terminating, carrierEnds, stuck, finished, succeeded}, []what{diedWithNode(UsualUID), diedWithNode(OtherUID), diedWithNode(NoUID)}, judge.Stale, true, judge.NodeDeadReason},
		{[]who{nobody, live, terminating, carrierEnds, stuck, finished, succeeded}, []what{lostItsNode(UsualUID), lostItsNode(OtherUID)}, judge.Stale, false, judge.NodeMissingReason},
		{[]who{nobody, live, terminating, carrierEnds, stuck, finished, finishedDel}, []what{hasNoFreshReport(UsualUID)}, judge.Held, false, judge.NoFreshReportReason},
		{[]who{nobody, live, terminating, carrierEnds, stuck, finished, finishedDel}, []what{isUnreachable(UsualUID)}, judge.Held, false, judge.NodeUnreachable},
		// Kubelet's word is about the successor, not about the sandbox on the node that is not heard.
		{[]who{{"a successor that kubelet stopped since the last report", UsualPod(Phase("Succeeded"), StoppedByKubelet(time.Minute))}},
			[]what{hasNoFreshReport(OtherUID)}, judge.Held, false, judge.NoFreshReportReason},
		{[]who{live}, []what{hasStopped(OtherUID), isGone(OtherUID)}, judge.Stale, true, judge.PodReplaced},
		{[]who{live}, []what{hasStopped(UsualUID), hasStopped(NoUID), isGone(UsualUID), isGone(NoUID)}, judge.Stale, true, judge.SandboxReplaced},
		{[]who{
			{"a live pod without a network-status", UsualPod(NoNetworkStatus)},
			{"a live pod with a network-status of no text", UsualPod(NetworkStatus(" "))},
			{"a live pod with a network-status of no entries", UsualPod(NetworkStatus("[]"))},
			{"a live pod with a network-status that is not JSON", UsualPod(NetworkStatus(`[{"ips":["10.0.0.7"]`))},
		}, []what{isAbsent, noSource, noSourceDown, noSourceNodes}, judge.Held, false, judge.NetworkStatusMissing},
		{[]who{live}, []what{isAbsent, noSource, noSourceNodes}, judge.Stale, false, judge.AddressNotOnPod},
		{[]who{terminating, stuck}, []what{hasStopped(UsualUID), hasStopped(OtherUID), hasStopped(NoUID), isGone(UsualUID), isGone(OtherUID), isGone(NoUID)}, judge.Stale, true, judge.SandboxStopped},
		{[]who{terminating, stuck}, []what{isAbsent}, judge.Stale, false, judge.SandboxStopped},
		{[]who{carrierEnds}, []what{hasStopped(UsualUID), isGone(UsualUID)}, judge.Stale, true, judge.SandboxStopped},
		{[]who{carrierEnds}, []what{hasStopped(OtherUID), hasStopped(NoUID), isGone(OtherUID), isGone(NoUID), isAbsent}, judge.Held, false, judge.ClaimedByOther},
		{[]who{terminating, carrierEnds, stuck}, []what{noSourceDown}, judge.Held, false, judge.NodeUnreachable},
		{[]who{stuck}, []what{noSource, noSourceNodes}, judge.Held, false, judge.StuckTerminating},
		{[]who{terminating, carrierEnds}, []what{noSource, noSourceNodes}, judge.Held, false, judge.Terminating},
		{[]who{finished, succeeded, finishedDel}, []what{hasStopped(UsualUID), hasStopped(OtherUID), hasStopped(NoUID), isGone(UsualUID), isGone(OtherUID)}, judge.Stale, true, judge.PodFinished},
		{[]who{finished, succeeded, finishedDel}, []what{isAbsent}, judge.Stale, false, judge.PodFinished},
		{[]who{succeeded}, []what{noSource, noSourceNodes, noSourceDown}, judge.Stale, false, judge.PodFinished},
		{[]who{finished, finishedDel}, []what{noSource, noSourceNodes, noSourceDown}, judge.Held, false, judge.TerminalButRunning},
		{[]who{nobody}, []what{hasStopped(UsualUID), hasStopped(NoUID), isGone(UsualUID), isGone(NoUID)}, judge.Stale, true, judge.PodGone},
		{[]who{nobody}, []what{isAbsent}, judge.Stale, false, judge.PodGone},
		{[]who{nobody}, []what{noSourceDown}, judge.Held, false, judge.NodeUnreachable},
		{[]who{nobody}, []what{noSource, noSourceNodes}, judge.Stale, false, judge.PodGone},
	}
}

func TestVerdictTable(t *testing.T) {
	for _, r := range rows() {
		for _, p := range r.pods {
			for _, b := range r.boxes {
				says := map[judge.Verdict]string{judge.InUse: "in use", judge.Held: "held", judge.Stale: "stale, unconfirmed"}[r.verdict]
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

// Row 1 comes before everything: what cannot be read is not judged, whatever
// the pod and the sandbox are.
func TestWhatCannotBeReadIsHeld(t *testing.T) {
	entry := func(edit func(map[string]any)) Part {
		e := map[string]any{"id": "box-1", "podref": "default/web-0", "ifname": "net1"}
		edit(e)
		return RawPool("10.0.0.0-24", map[string]any{"range": "10.0.0.0/24", "allocations": map[string]any{"5": e}})
	}
	podref := func(text string) Part { return entry(func(e map[string]any) { e["podref"] = text }) }
	for says, c := range map[string]struct {
		pool   Part
		reason judge.Reason
	}{
		"an entry without podref":                     {entry(func(e map[string]any) { delete(e, "podref") }), judge.Malformed},
		"a podref that is empty":                      {podref(""), judge.Malformed},
		"a podref without a namespace":                {podref("weird"), judge.Malformed},
		"a podref of three parts":                     {podref("a/b/c"), judge.Malformed},
		"a podref that no pod can have":               {podref("default/Web_0 x"), judge.Malformed},
		"a podref with an underscore and no UID":      {podref("default/web-0_"), judge.Malformed},
		"an id that is not a text":                    {entry(func(e map[string]any) { e["id"] = int64(7) }), judge.Malformed},
		"a field that is not known":                   {entry(func(e map[string]any) { e["ipamclaimref"] = "claim" }), judge.UnknownField},
		"a field that is not known and a bad podref":  {entry(func(e map[string]any) { e["ipamclaimref"], e["podref"] = "claim", "weird" }), judge.Malformed},
		"a field that is not known, without a value":  {entry(func(e map[string]any) { e["ipamclaimref"] = nil }), judge.UnknownField},
		"a key that is no number":                     {Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("x", "default/web-0", "box-1", "net1")), judge.Malformed},
		"a key that is outside of the range":          {Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("256", "default/web-0", "box-1", "net1")), judge.Malformed},
		"a key below the range":                       {Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("-1", "default/web-0", "box-1", "net1")), judge.Malformed},
		"a range without a length":                    {Pool("10.0.0.0", "10.0.0.0", UsualAllocation), judge.Malformed},
		"a range that is empty":                       {Pool("x", "", UsualAllocation), judge.Malformed},
		"an entry that is no object":                  {RawPool("10.0.0.0-24", map[string]any{"range": "10.0.0.0/24", "allocations": map[string]any{"5": "box-1"}}), judge.Malformed},
		"allocations that are a list, so no entry is": {RawPool("10.0.0.0-24", map[string]any{"range": "10.0.0.0/24", "allocations": []any{"box-1"}}), 0},
	} {
		for _, pod := range []who{nobody, live, carrier, succeeded} {
			for _, b := range []what{runs(UsualUID), isGone(UsualUID), noSource} {
				t.Run(fmt.Sprintf("%s is held, with %s whose sandbox %s", says, pod.says, b.says), func(t *testing.T) {
					j := Judged(Observe(c.pool, pod.pod, b.parts), judge.Policy{})
					if c.reason == 0 {
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
