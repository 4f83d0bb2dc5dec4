package reconciler

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// who is what the API has by the allocation's name.
type who struct {
	says string
	pod  part
}

// what is what is known of the allocation's sandbox.
type what struct {
	says  string
	parts part
	state judge.Sandbox
}

var (
	nobody      = who{"no pod by that name", nothing}
	pending     = who{"a Pending pod", web(phaseIs("Pending"))}
	settling    = who{"a Pending pod that has been so for a minute", all(seenWhile(usualPool, web(phaseIs("Pending")), isGone(others).parts), web(phaseIs("Pending")))}
	live        = who{"a live pod", web()}
	carrier     = who{"a live pod that carries the address", web(carrying("10.0.0.5"))}
	unknown     = who{"a pod of phase Unknown that carries the address", web(phaseIs("Unknown"), carrying("10.0.0.5"))}
	terminating = who{"a terminating pod", web(deletedAgo(-30 * time.Second))}
	carrierEnds = who{"a terminating pod that carries the address", web(deletedAgo(-30*time.Second), carrying("10.0.0.5"))}
	stuck       = who{"a pod terminating since six minutes after its time", web(deletedAgo(6 * time.Minute))}
	finished    = who{"a finished pod that kubelet did not report stopped", web(phaseIs("Failed"))}
	succeeded   = who{"a finished pod that kubelet stopped", web(phaseIs("Succeeded"), stoppedByKubelet(time.Hour))}
	finishedDel = who{"a finished pod that should have been deleted an hour ago", web(phaseIs("Failed"), deletedAgo(time.Hour))}
)

// The sandbox of a pod with this UID; "" where the report does not say.
func runs(uid string) what {
	return what{owned(uid) + "runs", onWorker(box("box-1", uid)), judge.Ready}
}
func isNotReady(uid string) what {
	return what{owned(uid) + "is not ready", onWorker(box("box-1", uid, notReady(nil))), judge.NotReady}
}
func hasStopped(uid string) what {
	return what{owned(uid) + "has stopped", onWorker(box("box-1", uid, notReady(closed))), judge.Stopped}
}
func isAttached(uid string) what {
	return what{owned(uid) + "is attached", onWorker(attachment("box-1", uid, time.Minute, nil)), judge.Attached}
}
func isGone(uid string) what {
	return what{owned(uid) + "is gone", onWorker(gone("box-1", uid)), judge.Gone}
}
func diedWithNode(uid string) what {
	return what{owned(uid) + "was on a dead node",
		all(aNode("worker-1", notReadyFor(time.Hour), outOfService), staleReport("worker-1", box("box-1", uid))), judge.NodeDead}
}
func lostItsNode(uid string) what {
	return what{owned(uid) + "was on a node that is missing",
		all(aNode("worker-2"), freshReport("worker-2"), staleReport("worker-1", box("box-1", uid))), judge.NodeMissing}
}
func isUnheard(uid string) what {
	return what{owned(uid) + "is on an unheard node", all(aNode("worker-1"), staleReport("worker-1", box("box-1", uid))), judge.NoFreshReport}
}
func isUnreachable(uid string) what {
	return what{owned(uid) + "is on an unheard node that is not Ready",
		all(aNode("worker-1", notReadyFor(time.Hour)), staleReport("worker-1", box("box-1", uid))), judge.NoFreshReport}
}

var (
	isAbsent      = what{"is in no report", onWorker(), judge.Absent}
	noSource      = what{"no agent can tell of", aNode("worker-1"), judge.NoSource}
	noSourceNodes = what{"no agent can tell of, with nodes that may not be listed", nothing, judge.NoSource}
	noSourceDown  = what{"no agent can tell of, with a node that is not Ready",
		all(aNode("worker-1", notReadyFor(time.Hour)), aNode("worker-2")), judge.NoSource}
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
		isNotReady(its1), isNotReady(others), hasStopped(its1), hasStopped(others), isAttached(its1), isAttached(others), isGone(its1), isGone(others), isGone(unsaid),
		diedWithNode(its1), diedWithNode(others), lostItsNode(its1), isAbsent, isUnheard(its1), isUnheard(others), isUnreachable(its1), noSource, noSourceDown,
	}
	return []row{
		{[]who{nobody, pending, live, carrier, terminating, carrierEnds, stuck, finished, succeeded}, []what{runs(others)}, judge.Held, false, judge.PhantomPod},
		{[]who{nobody}, []what{runs(its1), runs(unsaid)}, judge.Held, false, judge.PhantomPod},
		{[]who{finished, succeeded, finishedDel}, []what{runs(its1)}, judge.Held, false, judge.TerminalButRunning},
		{[]who{stuck}, []what{runs(its1)}, judge.Held, false, judge.StuckTerminating},
		{[]who{terminating, carrierEnds}, []what{runs(its1)}, judge.Held, false, judge.Terminating},
		{[]who{pending, live, carrier, unknown}, []what{runs(its1)}, judge.InUse, false, judge.SandboxReady},
		{[]who{settling}, []what{hasStopped(others), isGone(others), diedWithNode(others)}, judge.Stale, true, judge.PodReplaced},
		{[]who{pending}, []what{hasStopped(others), isGone(others), diedWithNode(others)}, judge.Stale, false, judge.PodReplaced}, // its node's agent may not know of its sandbox yet
		{[]who{pending}, []what{isAbsent}, judge.Stale, false, judge.PodReplaced},
		{[]who{pending}, []what{
			hasStopped(its1), hasStopped(unsaid), isGone(its1), isGone(unsaid), diedWithNode(its1), diedWithNode(unsaid),
			isNotReady(its1), isNotReady(others), isAttached(its1), isAttached(others), lostItsNode(its1), lostItsNode(others),
			isUnheard(its1), isUnheard(others), isUnreachable(its1), noSource, noSourceDown, noSourceNodes,
		}, judge.InUse, false, judge.PodPending},
		{[]who{carrier, unknown}, beside, judge.InUse, false, judge.AddressOnPod},
		{[]who{nobody, live, terminating, carrierEnds, stuck, finished, succeeded}, []what{isAttached(its1), isAttached(others), isAttached(unsaid)}, judge.Held, false, judge.AttachedReason},
		{[]who{stuck}, []what{isNotReady(its1), isNotReady(others)}, judge.Held, false, judge.StuckTerminating},
		{[]who{nobody, live, terminating, carrierEnds, finished, succeeded, finishedDel}, []what{isNotReady(its1), isNotReady(others), isNotReady(unsaid)}, judge.Held, false, judge.SandboxNotReady},
		{[]who{nobody, live, terminating, carrierEnds, stuck, finished, succeeded}, []what{diedWithNode(its1), diedWithNode(others), diedWithNode(unsaid)}, judge.Stale, true, judge.NodeDeadReason},
		{[]who{nobody, live, terminating, carrierEnds, stuck, finished, succeeded}, []what{lostItsNode(its1), lostItsNode(others)}, judge.Stale, false, judge.NodeMissingReason},
		{[]who{nobody, live, terminating, carrierEnds, stuck, finished, finishedDel}, []what{isUnheard(its1)}, judge.Held, false, judge.NoFreshReportReason},
		{[]who{nobody, live, terminating, carrierEnds, stuck, finished, finishedDel}, []what{isUnreachable(its1)}, judge.Held, false, judge.NodeUnreachable},
		// Kubelet's word is about the successor, not about the sandbox on the node that is not heard.
		{[]who{{"a successor that kubelet stopped since the last report", web(phaseIs("Succeeded"), stoppedByKubelet(time.Minute))}},
			[]what{isUnheard(others)}, judge.Held, false, judge.NoFreshReportReason},
		{[]who{live}, []what{hasStopped(others), isGone(others)}, judge.Stale, true, judge.PodReplaced},
		{[]who{live}, []what{hasStopped(its1), hasStopped(unsaid), isGone(its1), isGone(unsaid)}, judge.Stale, true, judge.SandboxReplaced},
		{[]who{
			{"a live pod without a network-status", web(noStatusAtAll)},
			{"a live pod with a network-status of no text", web(status(" "))},
			{"a live pod with a network-status of no entries", web(status("[]"))},
			{"a live pod with a network-status that is not JSON", web(status(`[{"ips":["10.0.0.7"]`))},
		}, []what{isAbsent, noSource, noSourceDown, noSourceNodes}, judge.Held, false, judge.NetworkStatusMissing},
		{[]who{live}, []what{isAbsent, noSource, noSourceNodes}, judge.Stale, false, judge.AddressNotOnPod},
		{[]who{terminating, stuck}, []what{hasStopped(its1), hasStopped(others), hasStopped(unsaid), isGone(its1), isGone(others), isGone(unsaid)}, judge.Stale, true, judge.SandboxStopped},
		{[]who{terminating, stuck}, []what{isAbsent}, judge.Stale, false, judge.SandboxStopped},
		{[]who{carrierEnds}, []what{hasStopped(its1), isGone(its1)}, judge.Stale, true, judge.SandboxStopped},
		{[]who{carrierEnds}, []what{hasStopped(others), hasStopped(unsaid), isGone(others), isGone(unsaid), isAbsent}, judge.Held, false, judge.ClaimedByOther},
		{[]who{terminating, carrierEnds, stuck}, []what{noSourceDown}, judge.Held, false, judge.NodeUnreachable},
		{[]who{stuck}, []what{noSource, noSourceNodes}, judge.Held, false, judge.StuckTerminating},
		{[]who{terminating, carrierEnds}, []what{noSource, noSourceNodes}, judge.Held, false, judge.Terminating},
		{[]who{finished, succeeded, finishedDel}, []what{hasStopped(its1), hasStopped(others), hasStopped(unsaid), isGone(its1), isGone(others)}, judge.Stale, true, judge.PodFinished},
		{[]who{finished, succeeded, finishedDel}, []what{isAbsent}, judge.Stale, false, judge.PodFinished},
		{[]who{succeeded}, []what{noSource, noSourceNodes, noSourceDown}, judge.Stale, false, judge.PodFinished},
		{[]who{finished, finishedDel}, []what{noSource, noSourceNodes, noSourceDown}, judge.Held, false, judge.TerminalButRunning},
		{[]who{nobody}, []what{hasStopped(its1), hasStopped(unsaid), isGone(its1), isGone(unsaid)}, judge.Stale, true, judge.PodGone},
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
					expect(t, outcome{r.verdict, r.reason, r.proven, b.state}, usualPool, p.pod, b.parts)
				})
			}
		}
	}
}

// Row 1 comes before everything: what cannot be read is not judged, whatever
// the pod and the sandbox are.
func TestWhatCannotBeReadIsHeld(t *testing.T) {
	entry := func(edit func(map[string]any)) part {
		e := map[string]any{"id": "box-1", "podref": "default/web-0", "ifname": "net1"}
		edit(e)
		return rawPool("10.0.0.0-24", map[string]any{"range": "10.0.0.0/24", "allocations": map[string]any{"5": e}})
	}
	podref := func(text string) part { return entry(func(e map[string]any) { e["podref"] = text }) }
	for says, c := range map[string]struct {
		pool   part
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
		"a key that is no number":                     {aPool("10.0.0.0-24", "10.0.0.0/24", alloc{"x", "default/web-0", "box-1", "net1"}), judge.Malformed},
		"a key that is outside of the range":          {aPool("10.0.0.0-24", "10.0.0.0/24", alloc{"256", "default/web-0", "box-1", "net1"}), judge.Malformed},
		"a key below the range":                       {aPool("10.0.0.0-24", "10.0.0.0/24", alloc{"-1", "default/web-0", "box-1", "net1"}), judge.Malformed},
		"a range without a length":                    {aPool("10.0.0.0", "10.0.0.0", usual), judge.Malformed},
		"a range that is empty":                       {aPool("x", "", usual), judge.Malformed},
		"an entry that is no object":                  {rawPool("10.0.0.0-24", map[string]any{"range": "10.0.0.0/24", "allocations": map[string]any{"5": "box-1"}}), judge.Malformed},
		"allocations that are a list, so no entry is": {rawPool("10.0.0.0-24", map[string]any{"range": "10.0.0.0/24", "allocations": []any{"box-1"}}), 0},
	} {
		for _, pod := range []who{nobody, live, carrier, succeeded} {
			for _, b := range []what{runs(its1), isGone(its1), noSource} {
				t.Run(fmt.Sprintf("%s is held, with %s whose sandbox %s", says, pod.says, b.says), func(t *testing.T) {
					j := judged(observe(c.pool, pod.pod, b.parts), judge.Policy{})
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
