package judge_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// A cloned machine, or one agent that lies, has the ids of sandboxes that run
// elsewhere.
func TestOneNodeDoesNotSpeakForAnother(t *testing.T) {
	held, proven := decision{judge.Held, judge.SandboxNotReady, false}, decision{judge.Stale, judge.PodGone, true}
	nodes := All(Node("worker-1"), Node("worker-2"))
	rebooted := All(Node("worker-1", Booted("boot-2")), Node("worker-2"))
	ends := map[string]Part{
		"stopped on one":                     All(nodes, FreshReport("worker-1", Sandbox("box-1", UsualUID, NotReady(Closed)))),
		"gone on one":                        All(nodes, FreshReport("worker-1", Gone("box-1", UsualUID))),
		"on one, before it was booted again": All(rebooted, StaleReport("worker-1", Sandbox("box-1", UsualUID))),
	}
	has := map[string]Part{
		"running, by an old report":                      StaleReport("worker-2", Sandbox("box-1", UsualUID)),
		"not ready, by an old report":                    StaleReport("worker-2", Sandbox("box-1", UsualUID, NotReady(nil))),
		"attached, by an old report":                     StaleReport("worker-2", Attachment("box-1", UsualUID, time.Minute, nil)),
		"running, by a report whose Lease never matched": StaleReport("worker-2", Sandbox("box-1", UsualUID), WithoutMatchingLease),
		"running for another, by an old report":          StaleReport("worker-2", Sandbox("box-1", OtherUID)),
	}
	for end, first := range ends {
		for other, second := range has {
			t.Run(end+", and on another "+other, func(t *testing.T) {
				expectKept(t, UsualPool, first, second)
				if !strings.Contains(end, "booted") { // there the other node is simply not heard
					expectVerdict(t, held, UsualPool, first, second)
				}
			})
			t.Run(end+", and on another "+other+", while its pod ends", func(t *testing.T) {
				expectKept(t, UsualPool, first, second, UsualPod(DeletedAgo(0)))
			})
		}
	}
	t.Run("stopped on one, and the other is proven dead", func(t *testing.T) {
		expectVerdict(t, proven, UsualPool, Node("worker-1"), FreshReport("worker-1", Sandbox("box-1", UsualUID, NotReady(Closed))),
			Node("worker-2", NotReadyFor(time.Hour), OutOfService), StaleReport("worker-2", Sandbox("box-1", UsualUID)))
	})
	t.Run("on a dead one, and the other has a leftover of it", func(t *testing.T) {
		expectVerdict(t, decision{judge.Stale, judge.NodeDeadReason, false}, UsualPool, Node("worker-1", NotReadyFor(time.Hour), OutOfService),
			StaleReport("worker-1", Sandbox("box-1", UsualUID)), Node("worker-2"), FreshReport("worker-2", Attachment("box-1", UsualUID, time.Hour, nil)))
	})
	gones := All(UsualPool, Node("worker-1"), FreshReport("worker-1", Gone("box-1", UsualUID)))
	t.Run("gone on one, and the other is missing since a moment", func(t *testing.T) {
		expectVerdict(t, held, gones, ReportRenewed("worker-2", time.Minute+time.Second, Sandbox("box-1", UsualUID)))
	})
	t.Run("gone on one, and the other is missing for two hours", func(t *testing.T) {
		missing := StaleReport("worker-2", Sandbox("box-1", UsualUID), RenewedAt(Now.Add(-3*time.Hour)))
		expectVerdict(t, decision{judge.Stale, judge.PodGone, false}, gones, missing, afterPassesOver(2*time.Hour, gones, missing))
	})
}

// The pod of the entry is bound to worker-2, and what is known of the sandbox is
// worker-1's word.
func TestOneNodeDoesNotSpeakForThePodOfAnother(t *testing.T) {
	says := map[string]Part{
		"stopped":     All(Node("worker-1"), FreshReport("worker-1", Sandbox("box-1", OtherUID, NotReady(Closed)))),
		"gone":        All(Node("worker-1"), FreshReport("worker-1", Gone("box-1", OtherUID))),
		"gone, its":   All(Node("worker-1"), FreshReport("worker-1", Gone("box-1", UsualUID))),
		"another one": All(Node("worker-1", Booted("boot-2")), StaleReport("worker-1", Sandbox("box-1", UsualUID))),
	}
	pods := map[string]Part{
		"Pending":     UsualPod(OnNode("worker-2"), Phase("Pending")),
		"live":        UsualPod(OnNode("worker-2")),
		"terminating": UsualPod(OnNode("worker-2"), DeletedAgo(0)),
	}
	for word, first := range says {
		for phase, pod := range pods {
			t.Run(word+", and the node of the pod, which is "+phase+", is not heard", func(t *testing.T) {
				expectKept(t, UsualPool, first, pod, Node("worker-2"))
				expectKept(t, UsualPool, first, pod, Node("worker-2"), StaleReport("worker-2"))
			})
			t.Run(word+", and the node of the pod, which is "+phase+", is heard", func(t *testing.T) {
				it := AllocationOf(t, Judged(Observe(UsualPool, first, pod, Node("worker-2"), FreshReport("worker-2")), judge.Policy{}), "10.0.0.5")
				if it.Proven {
					t.Errorf("%v\nit says: %s", OutcomeOf(it), it.Message())
				}
			})
		}
	}
	t.Run("a pod that kubelet has stopped is no reason to ask its node", func(t *testing.T) {
		expectVerdict(t, decision{judge.Stale, judge.PodFinished, true}, UsualPool, says["gone, its"], Node("worker-2"), FreshReport("worker-2"),
			UsualPod(OnNode("worker-2"), Phase("Succeeded"), StoppedByKubelet(time.Hour)))
	})
	// Whoever says that a pod failed, the node that it is bound to may run it.
	t.Run("a pod that failed by another word than kubelet's is bound to its node all the same", func(t *testing.T) {
		for _, first := range says {
			expectKept(t, UsualPool, first, UsualPod(OnNode("worker-2"), Phase("Failed")), Node("worker-2"))
		}
	})
}

// What kubelet wrote of stopped containers is about the pod on its node, at
// the time at which they did.
func TestFinishedWithoutAFreshReportRestsOnKubeletForItsOwnNodeOnly(t *testing.T) {
	held, freed := decision{judge.Held, judge.NoFreshReportReason, false}, decision{judge.Stale, judge.PodFinished, false}
	ended := func(ago time.Duration) Part { return UsualPod(Phase("Succeeded"), StoppedByKubelet(ago)) }
	one, two := Node("worker-1"), Node("worker-2")
	for _, c := range []struct {
		says  string
		want  decision
		parts []Part
	}{
		{"its own node is not heard, and the containers stopped since", freed, []Part{ended(time.Minute), one, StaleReport("worker-1", Sandbox("box-1", UsualUID))}},
		{"it is another node that had the sandbox", held, []Part{ended(time.Minute), one, two, FreshReport("worker-1"), StaleReport("worker-2", Sandbox("box-1", UsualUID))}},
		{"a clone had it too", held, []Part{ended(time.Minute), one, two, StaleReport("worker-1", Sandbox("box-1", UsualUID)), StaleReport("worker-2", Sandbox("box-1", UsualUID))}},
		{"no report has it, and another node is not heard either", held, []Part{ended(time.Minute), one, two, StaleReport("worker-1"), StaleReport("worker-2")}},
		{"no report has it, and only another node is not heard", held, []Part{ended(time.Minute), one, two, FreshReport("worker-1"), StaleReport("worker-2")}},
		{"no report has it, and only its own node is not heard", freed, []Part{ended(time.Minute), one, two, StaleReport("worker-1"), FreshReport("worker-2")}},
		{"its sandbox ran after the containers stopped", held, []Part{ended(time.Hour), one, StaleReport("worker-1", Sandbox("box-1", UsualUID))}},
		{"its sandbox was not ready after the containers stopped", held, []Part{ended(time.Hour), one, StaleReport("worker-1", Sandbox("box-1", UsualUID, NotReady(nil)))}},
		{"its sandbox was not ready and open after the containers stopped", held, []Part{ended(time.Hour), one, StaleReport("worker-1", Sandbox("box-1", UsualUID, NotReady(Open)))}},
		{"its sandbox was attached after the containers stopped", held, []Part{ended(time.Hour), one, StaleReport("worker-1", Attachment("box-1", UsualUID, time.Minute, nil))}},
		{"its sandbox was stopped after the containers did", freed, []Part{ended(time.Hour), one, StaleReport("worker-1", Sandbox("box-1", UsualUID, NotReady(Closed)))}},
		{"its sandbox was not ready before the containers stopped", freed, []Part{ended(time.Minute), one, StaleReport("worker-1", Sandbox("box-1", UsualUID, NotReady(nil)))}},
		{"the report did not change since, and was renewed after the containers stopped", held,
			[]Part{ended(time.Hour), one, StaleReport("worker-1", Sandbox("box-1", UsualUID), ObservedAgo(2*time.Hour))}},
		{"the report was renewed before the containers stopped, by whatever clock it was observed", freed,
			[]Part{ended(time.Minute), one, StaleReport("worker-1", Sandbox("box-1", UsualUID), ObservedAgo(-time.Hour))}},
		{"the sandbox was another pod's", held, []Part{ended(time.Minute), one, StaleReport("worker-1", Sandbox("box-1", OtherUID))}},
	} {
		t.Run(c.says, func(t *testing.T) { expectVerdict(t, c.want, append([]Part{UsualPool}, c.parts...)...) })
	}
}

// Two rows hold with the same reason, and tell the operator of different causes.
func TestTheRowNamesTheCauseWhereSeveralHoldForOneReason(t *testing.T) {
	gone := All(UsualPool, Node("worker-1"), FreshReport("worker-1", Gone("box-1", UsualUID)))
	elsewhere := All(gone, Node("worker-2"), StaleReport("worker-2", Sandbox("box-1", UsualUID)))
	for row, parts := range map[string]Part{
		"not-ready-elsewhere": elsewhere,
		"not-ready":           All(UsualPool, ReportingWorker(Sandbox("box-1", UsualUID, NotReady(nil)))),
		"claimed-unread":      All(UsualPool, Node("worker-1"), FreshReport("worker-1", Gone("box-1", UsualUID), Sandbox("box-9", "uid-9", OfPod("web-1"), unread))),
		"claimed":             All(UsualPool, Node("worker-1"), FreshReport("worker-1", Gone("box-1", UsualUID), Sandbox("box-9", "uid-9", OfPod("web-1"), WithAddress("10.0.0.5", "")))),
	} {
		if it := AllocationOf(t, Judged(Observe(parts), judge.Policy{}), "10.0.0.5"); it.RuleID() != row {
			t.Errorf("row %s holds it, want %s: %s", it.RuleID(), row, it.Message())
		}
	}
}
