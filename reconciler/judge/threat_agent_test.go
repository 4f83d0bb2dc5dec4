package judge_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// mayHold are the ways in which worker-1 reports that the usual sandbox may hold its address.
func mayHold() map[string]ReportEdit {
	return map[string]ReportEdit{
		"ready":                   Sandbox("box-1", UsualUID, WithAddress("10.0.0.5", "")),
		"ready, addresses unread": Sandbox("box-1", UsualUID, func(b *v1alpha1.Sandbox) { b.AddressesUnread = true }),
		"not ready":               Sandbox("box-1", UsualUID, NotReady(nil)),
		"not ready and open":      Sandbox("box-1", UsualUID, NotReady(Open), WithAddress("10.0.0.5", "")),
		"being set up":            Attachment("box-1", UsualUID, time.Minute, nil),
		"attached and open":       Attachment("box-1", UsualUID, time.Hour, Open, Address("10.0.0.5", "")),
	}
}

// ownersPod is what the API may have by the owner's name, on the owner's own node.
func ownersPod() map[string]Part {
	return map[string]Part{
		"none":                 Nothing,
		"running":              UsualPod(Carrying("10.0.0.5")),
		"without its address":  UsualPod(),
		"pending":              UsualPod(Phase("Pending"), NoNetworkStatus),
		"terminating":          UsualPod(DeletedAgo(time.Hour), Carrying("10.0.0.5")),
		"failed":               UsualPod(Phase("Failed")),
		"a successor":          UsualPod(UID("uid-2"), Carrying("10.0.0.6")),
		"a pending successor":  UsualPod(UID("uid-2"), Phase("Pending"), NoNetworkStatus),
		"a mirror of somebody": UsualPod(UID("uid-2"), MirrorOf("uid-3")),
	}
}

// lie is any report that worker-2's agent may write: of the usual sandbox too, and of others.
func lie(t *rapid.T) Part {
	uid := rapid.SampledFrom([]string{UsualUID, OtherUID, NoUID, "uid-2"})
	networks := []*bool{nil, Open, Closed}
	address := rapid.SampledFrom([]string{"10.0.0.5", "10.0.0.6", "10.0.0.7", "not an address"})
	network := rapid.SampledFrom([]string{"", "red"})
	edit := func(r *podstate.Report) {
		for i := range rapid.IntRange(0, 4).Draw(t, "lies") {
			id := rapid.SampledFrom([]string{"box-1", fmt.Sprint("box-of-worker-2-", i)}).Draw(t, "of")
			closed := networks[rapid.IntRange(0, 2).Draw(t, "network")]
			at := WithAddress(address.Draw(t, "address"), network.Draw(t, "network name"))
			pod := OfPod(rapid.SampledFrom([]string{"web-0", "web-1"}).Draw(t, "pod"))
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				Sandbox(id, uid.Draw(t, "uid"), pod, at)(r)
			case 1:
				Sandbox(id, uid.Draw(t, "uid"), pod, NotReady(closed), at)(r)
			case 2:
				age := time.Duration(rapid.IntRange(-1, 600).Draw(t, "age")) * time.Minute
				Attachment(id, uid.Draw(t, "uid"), age, closed, Address(address.Draw(t, "address"), ""))(r)
			case 3:
				Gone(id, uid.Draw(t, "uid"))(r)
			}
		}
		if rapid.Bool().Draw(t, "another boot") {
			r.BootID = "boot-0"
		}
		if rapid.Bool().Draw(t, "another machine") {
			r.Machine = MachineOf("worker-1")
		}
		r.ObservedAt = metav1.NewTime(Now.Add(time.Duration(rapid.IntRange(-600, 600).Draw(t, "observed")) * time.Minute))
	}
	ago := rapid.SampledFrom([]time.Duration{time.Second, 10 * time.Minute, 100 * time.Hour}).Draw(t, "renewed")
	return ReportRenewed("worker-2", ago, edit)
}

// worker2 is what root on worker-2 can make of its Node: labels, boot and readiness are the kubelet's
// to write, and its own object it may delete. The out-of-service taint is not.
func worker2(t *rapid.T) Part {
	var edits []NodeEdit
	if rapid.Bool().Draw(t, "deselected") {
		edits = append(edits, WithoutAgent)
	}
	if rapid.Bool().Draw(t, "booted") {
		edits = append(edits, Booted("boot-2"))
	}
	if rapid.Bool().Draw(t, "not ready") {
		edits = append(edits, NotReadyFor(time.Hour))
	}
	if rapid.Bool().Draw(t, "Node deleted") {
		return Nothing
	}
	return Node("worker-2", edits...)
}

// One agent's word frees nothing that another node reports, and has no entry rewritten.
func TestALyingAgentFreesNothingThatAnotherNodeReports(t *testing.T) {
	for says, sandbox := range mayHold() {
		for heard, report := range map[string]Part{"heard": FreshReport("worker-1", sandbox), "silent": StaleReport("worker-1", sandbox)} {
			for phase, pod := range ownersPod() {
				t.Run(says+", on a node that is "+heard+", and its pod is "+phase, func(t *testing.T) {
					rapid.Check(t, func(rt *rapid.T) {
						expectUnharmed(t, rt, UsualPool, Node("worker-1"), report, pod, worker2(rt), lie(rt))
					})
				})
			}
		}
	}
}

func expectUnharmed(t *testing.T, rt *rapid.T, parts ...Part) {
	j := Judged(Observe(parts...), judge.Policy{})
	if it := AllocationOf(t, j, "10.0.0.5"); it.Verdict == judge.Stale {
		rt.Fatalf("%v: %s", OutcomeOf(it), it.Message())
	}
	for _, f := range j.Findings {
		if f.Repair != nil && f.Repair.Instead != nil {
			rt.Fatalf("the entry is rewritten: %s", f.Message)
		}
	}
}

// Whatever it has said before, an agent that says nothing more frees nothing but by what others report.
func TestANodeThatDeselectsItselfFreesNothingOfASilentOne(t *testing.T) {
	held := Want(judge.Held, judge.NoFreshReportReason, false, judge.NoFreshReport)
	for says, node := range map[string]Part{
		"the other node deselects itself":    Node("worker-2", WithoutAgent),
		"the other node's object is deleted": Nothing,
	} {
		t.Run(says, func(t *testing.T) {
			Expect(t, held, UsualPool, Node("worker-1"), StaleReport("worker-1"), node, FreshReport("worker-2"))
		})
	}
	t.Run("a silent node that deselects itself is asked as long as it has a report", func(t *testing.T) {
		Expect(t, held, UsualPool, Node("worker-1", WithoutAgent), StaleReport("worker-1"), Node("worker-2"), FreshReport("worker-2"))
	})
}

// What is left to an agent that lies: an id that it cannot know. Reports are all that agents may
// read, so whatever they know of another node's sandbox that node's report has said.
func TestTheEndOfAnIDThatNoOtherNodeReportsIsBelieved(t *testing.T) {
	word := All(UsualPool, Node("worker-1"), Node("worker-2"), FreshReport("worker-2", Gone("box-1", UsualUID)))
	Expect(t, Want(judge.Stale, judge.PodGone, true, judge.Gone), word, StaleReport("worker-1"))
	Expect(t, Want(judge.Held, judge.NoFreshReportReason, false, judge.NoFreshReport), word, StaleReport("worker-1"), UsualPod(DeletedAgo(0)))
	expectKept(t, word, StaleReport("worker-1", Sandbox("box-1", UsualUID)))
}
