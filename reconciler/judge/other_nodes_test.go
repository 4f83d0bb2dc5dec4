package judge_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// A cloned machine, or one agent that lies, has the ids of sandboxes that run elsewhere.
func TestOneNodeDoesNotSpeakForAnother(t *testing.T) {
	held, proven := decision{judge.Held, judge.SandboxNotReady, false}, decision{judge.Stale, judge.PodGone, true}
	rebooted := All(Node("worker-1", Booted("boot-2")), Node("worker-2"))
	ends := map[string]Part{
		"stopped on one":                     All(nodes, FreshReport("worker-1", stopped1)),
		"gone on one":                        All(nodes, FreshReport("worker-1", gone1)),
		"on one, before it was booted again": All(rebooted, StaleReport("worker-1", box1)),
	}
	has := map[string]Part{
		"running, by an old report":   StaleReport("worker-2", box1),
		"not ready, by an old report": StaleReport("worker-2", Sandbox("box-1", UsualUID, NotReady(nil))),
		"attached, by an old report":  StaleReport("worker-2", Attachment("box-1", UsualUID, time.Minute, nil)),
		"running, by a report whose Lease never matched": StaleReport("worker-2", box1,
			WithoutMatchingLease),
		"running for another, by an old report": StaleReport("worker-2", Sandbox("box-1", OtherUID)),
	}
	for end, first := range ends {
		for other, second := range has {
			t.Run(end+", and on another "+other, func(t *testing.T) {
				expectKept(t, UsualPool, first, second)
				if !strings.Contains(end, "booted") { // there the other node simply does not report
					expectVerdict(t, held, UsualPool, first, second)
				}
			})
			t.Run(end+", and on another "+other+", while its pod ends", func(t *testing.T) {
				expectKept(t, UsualPool, first, second, UsualPod(DeletedAgo(0)))
			})
		}
	}
	t.Run("stopped on one, and the other is proven dead", func(t *testing.T) {
		expectVerdict(t, proven, UsualPool, Node("worker-1"), FreshReport("worker-1",
			stopped1), dead2, StaleReport("worker-2", box1))
	})
	for end, part := range map[string]ReportEdit{"stopped": stopped1, "gone": gone1} {
		t.Run(end+" on one, and the other has rebooted since it had it", func(t *testing.T) {
			expectVerdict(t, held, UsualPool, Node("worker-1"), FreshReport("worker-1", part), Node("worker-2",
				Booted("boot-2")), StaleReport("worker-2", box1))
		})
	}
	t.Run("on a dead one, and the other has a leftover of it", func(t *testing.T) {
		expectVerdict(t, decision{judge.Held, judge.AttachedReason, false}, UsualPool, dead1, StaleReport("worker-1", box1),
			Node("worker-2"), FreshReport("worker-2", Attachment("box-1", UsualUID, time.Hour, nil)))
	})
	gones := All(UsualPool, ReportingWorker(gone1))
	t.Run("gone on one, and the other is missing since a moment", func(t *testing.T) {
		expectVerdict(t, held, gones, ReportRenewed("worker-2", time.Minute+time.Second, box1))
	})
	t.Run("gone on one, and the other is missing for two hours", func(t *testing.T) {
		missing := StaleReport("worker-2", box1, RenewedAt(Now.Add(-3*time.Hour)))
		expectVerdict(t, decision{judge.Stale, judge.PodGone, false}, gones, missing, afterPassesOver(2*time.Hour, gones,
			missing))
	})
}

// A node that reported the end of a sandbox reports no longer. What another node's CNI cache has of the sandbox, with
// its network closed, does not make the sandbox absent.
func TestANodeThatReportedTheEndMustReportAgain(t *testing.T) {
	leftover := All(Node("worker-1"), FreshReport("worker-1", Attachment("box-1", UsualUID, time.Hour, Closed)))
	pending := UsualPod(Phase("Pending"))
	Expect(t, Want(judge.InUse, judge.PodPending, false, judge.Gone), UsualPool, leftover, pending,
		Node("worker-2"), FreshReport("worker-2", gone1))
	Expect(t, Want(judge.InUse, judge.PodPending, false, judge.NoFreshReport), UsualPool, leftover, pending,
		Node("worker-2"), StaleReport("worker-2", gone1))
	Expect(t, Want(judge.Stale, judge.PodReplaced, false, judge.Absent), UsualPool, leftover, pending,
		dead2, StaleReport("worker-2", gone1))
}

// A dead node does not prove the end of a sandbox that another node's report has. A fresh report decides by itself, and
// the node of an expired one lacks a fresh report.
func TestADeadNodeDoesNotSpeakForAnother(t *testing.T) {
	dead := All(UsualPool, dead1, StaleReport("worker-1", box1))
	mentions := map[string]ReportEdit{
		"running":                 box1,
		"running for another":     Sandbox("box-1", OtherUID),
		"not ready":               Sandbox("box-1", UsualUID, NotReady(nil)),
		"not ready and open":      Sandbox("box-1", UsualUID, NotReady(Open)),
		"in a cache for a minute": Attachment("box-1", UsualUID, time.Minute, nil),
		"in a cache, and open":    Attachment("box-1", UsualUID, time.Hour, Open),
		"in a cache for an hour":  Attachment("box-1", UsualUID, time.Hour, nil),
	}
	another := Node("worker-2", OnMachine(MachineOf("another")))
	for mention, edit := range mentions {
		fresh, expired := FreshReport("worker-2", edit), StaleReport("worker-2", edit)
		for other, part := range map[string]Part{
			"fresh": All(Node("worker-2"), fresh), "fresh, of another machine": All(another, fresh),
			"expired": All(Node("worker-2"), expired), "expired, of another machine": All(another, expired),
			"expired, of a node that is not Ready": All(Node("worker-2", NotReadyFor(time.Hour)), expired),
			"expired, of a missing node":           expired,
		} {
			t.Run(mention+", by a report that is "+other, func(t *testing.T) {
				it := usualIn(t, dead, part)
				if it.Proven || it.Verdict == judge.Stale && it.Reason != judge.NodeMissingReason {
					t.Error(Wrong(it, "held, or stale because its node is missing"))
				}
			})
		}
	}
}

// The pod of the allocation is bound to worker-2, and only worker-1 reports the sandbox.
func TestOneNodeDoesNotSpeakForThePodOfAnother(t *testing.T) {
	says := map[string]Part{
		"stopped":     All(Node("worker-1"), FreshReport("worker-1", Sandbox("box-1", OtherUID, NotReady(Closed)))),
		"gone":        All(Node("worker-1"), FreshReport("worker-1", Gone("box-1", OtherUID))),
		"gone, its":   ReportingWorker(gone1),
		"another one": All(Node("worker-1", Booted("boot-2")), StaleReport("worker-1", box1)),
	}
	pods := map[string]Part{
		"Pending":     UsualPod(OnNode("worker-2"), Phase("Pending")),
		"live":        UsualPod(OnNode("worker-2")),
		"terminating": UsualPod(OnNode("worker-2"), DeletedAgo(0)),
	}
	for word, first := range says {
		for phase, pod := range pods {
			t.Run(word+", and the node of the pod, which is "+phase+", has no fresh report", func(t *testing.T) {
				expectKept(t, UsualPool, first, pod, Node("worker-2"))
				expectKept(t, UsualPool, first, pod, Node("worker-2"), StaleReport("worker-2"))
			})
			t.Run(word+", and the node of the pod, which is "+phase+", has a fresh report", func(t *testing.T) {
				it := usualIn(t, UsualPool, first, pod, Node("worker-2"), FreshReport("worker-2"))
				if it.Proven {
					t.Error(Wrong(it, "unconfirmed"))
				}
			})
		}
	}
	t.Run("a pod that kubelet has stopped is no reason to ask its node", func(t *testing.T) {
		expectVerdict(t, decision{judge.Stale, judge.PodFinished, true}, UsualPool, says["gone, its"], Node("worker-2"),
			FreshReport("worker-2"), UsualPod(OnNode("worker-2"), Phase("Succeeded"), StoppedByKubelet(time.Hour)))
	})
	// Whoever says that a pod failed, the node that it is bound to may run it.
	t.Run("a pod whose failure kubelet did not report stays bound to its node", func(t *testing.T) {
		for _, first := range says {
			expectKept(t, UsualPool, first, UsualPod(OnNode("worker-2"), Phase("Failed")), Node("worker-2"))
		}
	})
}

// What kubelet wrote of stopped containers is about the pod on its node, at the time at which they did.
func TestFinishedWithoutAFreshReportRestsOnKubeletForItsOwnNodeOnly(t *testing.T) {
	held := decision{judge.Held, judge.NoFreshReportReason, false}
	released := decision{judge.Stale, judge.PodFinished, false}
	ended := func(ago time.Duration) Part { return UsualPod(Phase("Succeeded"), StoppedByKubelet(ago)) }
	one, two := Node("worker-1"), Node("worker-2")
	expectVerdicts(t, UsualPool, []decisionCase{
		{"it is another node that had the sandbox", held, []Part{ended(time.Minute), one, two, FreshReport("worker-1"),
			StaleReport("worker-2", box1)}},
		{"a clone had it too", held, []Part{ended(time.Minute), one, two, StaleReport("worker-1", box1),
			StaleReport("worker-2", box1)}},
		{"no report has it, and another node has no fresh report either", held, []Part{ended(time.Minute), one, two,
			StaleReport("worker-1"), StaleReport("worker-2")}},
		{"no report has it, and only another node has no fresh report", held, []Part{ended(time.Minute), one, two,
			FreshReport("worker-1"), StaleReport("worker-2")}},
		{"no report has it, and only its own node has no fresh report", released, []Part{ended(time.Minute), one, two,
			StaleReport("worker-1"), FreshReport("worker-2")}},
		{"its sandbox was not ready and open after the containers stopped", held, []Part{ended(time.Hour), one,
			StaleReport("worker-1", Sandbox("box-1", UsualUID, NotReady(Open)))}},
		{"the report did not change since, and was renewed after the containers stopped", held,
			[]Part{ended(time.Hour), one, StaleReport("worker-1", box1, ObservedAgo(2*time.Hour))}},
		{"the report was renewed before the containers stopped, by whatever clock it was observed", released,
			[]Part{ended(time.Minute), one, StaleReport("worker-1", box1, ObservedAgo(-time.Hour))}},
	})
}

// Two rows hold with the same reason, and name different causes.
func TestTheRowNamesTheCauseWhereSeveralHoldForOneReason(t *testing.T) {
	gone := All(UsualPool, ReportingWorker(gone1))
	elsewhere := All(gone, Node("worker-2"), StaleReport("worker-2", box1))
	for row, parts := range map[string]Part{
		"not-ready-elsewhere": elsewhere,
		"not-ready":           All(UsualPool, ReportingWorker(Sandbox("box-1", UsualUID, NotReady(nil)))),
		"claimed-unread": All(UsualPool, Node("worker-1"), FreshReport("worker-1", gone1,
			Sandbox("box-9", "uid-9", OfPod("web-1"), Unread))),
		"claimed": All(UsualPool, Node("worker-1"), FreshReport("worker-1", gone1, Sandbox("box-9", "uid-9",
			OfPod("web-1"), with5))),
	} {
		if it := usualIn(t, parts); it.RuleID() != row {
			t.Errorf("row %s holds it, want %s: %s", it.RuleID(), row, it.Message())
		}
	}
}

func TestAReportOfAnotherMachineSaysWhatItListsAndNoMore(t *testing.T) {
	for says, c := range map[string]struct {
		report Part
		want   judge.Verdict
	}{
		"nothing":         {FreshReport("worker-1"), judge.Held},
		"that it is gone": {FreshReport("worker-1", gone1), judge.Stale},
	} {
		j := Judged(Observe(UsualPool, Node("worker-1", OnMachine(MachineOf("another"))), c.report), facts.Policy{})
		if len(j.Allocations) != 1 || j.Allocations[0].Verdict != c.want {
			t.Errorf("it says %s: %v, want one that is %s", says, Describe(j.Judgement), c.want)
		}
	}
}

// A machine ID that the Node or the report lacks is unknown, and not equal. Real nodes always have a boot ID, and some
// platforms have no system UUID.
func TestAReportOfAnUnknownMachineProvesNoAbsence(t *testing.T) {
	full := MachineOf("worker-1")
	disk := v1alpha1.Machine{MachineID: full.MachineID}
	otherBoard := v1alpha1.Machine{SystemUUID: "another board"}
	for says, c := range map[string]struct {
		node, report v1alpha1.Machine
		nodeBoot     string
		reportBoot   string
		want         bool // it proves absence
	}{
		"both ids are equal, after a boot":             {full, full, "boot-2", "boot-1", true},
		"both ids are equal, and no boot id is known":  {full, full, "", "", true},
		"the report has none":                          {full, v1alpha1.Machine{}, "boot-1", "", false},
		"the Node has none":                            {v1alpha1.Machine{}, full, "", "boot-1", false},
		"neither has one":                              {v1alpha1.Machine{}, v1alpha1.Machine{}, "", "", false},
		"neither has one, and the boot is the same":    {v1alpha1.Machine{}, v1alpha1.Machine{}, "boot-1", "boot-1", true},
		"neither has one, and the boot differs":        {v1alpha1.Machine{}, v1alpha1.Machine{}, "boot-2", "boot-1", false},
		"both have only one, and the boot is the same": {disk, disk, "boot-1", "boot-1", true},
		"both have only one, as clones of a disk have": {disk, disk, "boot-2", "boot-1", false},
		"the Node lacks one, and the boot is the same": {disk, full, "boot-1", "boot-1", true},
		"the one that both have differs":               {otherBoard, full, "boot-2", "boot-1", false},
	} {
		t.Run(says, func(t *testing.T) {
			of := func(r *podstate.Report) { r.BootID, r.Machine = c.reportBoot, c.report }
			node := Node("worker-1", Booted(c.nodeBoot), OnMachine(c.node))
			j := Judged(Observe(UsualPool, node, FreshReport("worker-1", of)), facts.Policy{})
			it := AllocationOf(t, j, "10.0.0.5")
			if (it.Verdict == judge.Stale) != c.want {
				t.Error(Wrong(it, fmt.Sprint("stale: ", c.want)))
			}
			if says := strings.Contains(fmt.Sprint(j.Notes()), "worker-1 may be of another machine"); says == c.want {
				t.Errorf("notes: %v", j.Notes())
			}
			t.Run("and lists it as running", func(t *testing.T) {
				expectKept(t, UsualPool, node, UsualPod(), FreshReport("worker-1", of, box1))
			})
		})
	}
}

func TestWithoutNodeObjectsNoReportProvesAbsence(t *testing.T) {
	j := Judged(Observe(UsualPool, FreshReport("worker-1")), facts.Policy{})
	it := AllocationOf(t, j, "10.0.0.5")
	if it.Verdict != judge.Held || !strings.Contains(fmt.Sprint(j.Notes()), "the list of nodes is empty") {
		t.Errorf("%v, notes %v", RulingOf(it), j.Notes())
	}
}

// No report has the sandbox: the new machine may run it, and its agent does not report.
func TestAMachineThatReplacedAnotherMayRunWhatNoReportHas(t *testing.T) {
	for says, pod := range map[string]Part{
		"no pod":                           Nothing,
		"a pod that ends there":            UsualPod(OnNode("worker-2"), DeletedAgo(-time.Minute), Carrying("10.0.0.5")),
		"a pod of another name was there":  afterPassOver(UsualPool, Pod("web-1", OnNode("worker-2"), Carrying("10.0.0.5"))),
		"a pod that was seen there before": afterPassOver(UsualPool, UsualPod(OnNode("worker-2"), Carrying("10.0.0.5"))),
	} {
		t.Run(says, func(t *testing.T) { expectKept(t, UsualPool, ReplacedMachine(), pod) })
	}
}

// As for allocations: the sandbox may be one of the new machine.
func TestAMachineThatReplacedAnotherMayRunWhatAReservationAloneIsFor(t *testing.T) {
	j := Judged(Observe(empty, Reservation("10.0.0.5", "default/web-0", time.Hour), ReplacedMachine()), facts.Policy{})
	if it := ReservationOf(t, j, "10.0.0.5"); it.Verdict == judge.Stale {
		t.Error(Wrong(it, "in use or held"))
	}
}

// The machine id can be recreated while all runs on; a boot id is of one boot of one machine only.
func TestANodeOfTheSameBootIsTheSameMachineWhateverItsIDsAre(t *testing.T) {
	expectKept(t, UsualPool, Node("worker-2"), FreshReport("worker-2"),
		Node("worker-1", OnMachine(v1alpha1.Machine{SystemUUID: MachineOf("worker-1").SystemUUID, MachineID: "recreated"})),
		StaleReport("worker-1", box1, RenewedAt(Now.Add(-time.Hour))))
}

// What a tenant's pod reports of itself, on a node without an agent, must not hold for ever
// what the sandbox's own node says has ended.
func TestAPodThatClaimedTheAddressAndIsGoneDoesNotHoldWhatHasEnded(t *testing.T) {
	base := All(UsualPool, Node("worker-1"), Node("win", Label("kubernetes.io/os", "windows")), FreshReport("worker-1",
		gone1))
	it := usualIn(t, base, afterPassOver(base, Pod("tenant", UID("uid-9"), OnNode("win"), Carrying("10.0.0.5"))))
	if it.Verdict != judge.Stale {
		t.Error(Wrong(it, judge.Stale))
	}
}

// Nobody would ever write that report again.
func TestTheClaimsOfAMissingNodeEndWhenNodeMissingIsConfirmed(t *testing.T) {
	claims := Sandbox("box-2", "uid-9", OfPod("web-1"), with5)
	// and waits to be confirmed for as long as NodeMissing at the least
	ends := Want(judge.Stale, judge.PodGone, false, judge.Gone)
	threeHoursAgo := RenewedAt(Now.Add(-3 * time.Hour))
	gone := StaleReport("worker-2", claims, threeHoursAgo)
	expectRulings(t, UsualSandboxGone, []rulingCase{
		{"at the first pass, soon after its last report", claimed, []Part{StaleReport("worker-2", claims)}},
		{"at the first pass, hours after its last report", ends, []Part{gone}},
		{"missing for two hours", ends, []Part{gone, afterPassesOver(2*time.Hour, UsualSandboxGone, gone)}},
		{"missing for two hours with an attachment", ends, func() []Part {
			r := StaleReport("worker-2", Attachment("box-2", "uid-9", time.Minute, Open, Address("10.0.0.5", "")), threeHoursAgo)
			return []Part{r, afterPassesOver(2*time.Hour, UsualSandboxGone, r)}
		}()},
		{"missing for two hours, and its report is fresh", claimed,
			[]Part{FreshReport("worker-2", claims), afterPassesOver(2*time.Hour, UsualSandboxGone, gone)}},
		{"its report expired hours ago, and the Node exists", claimed, []Part{Node("worker-2"), gone,
			afterPassesOver(2*time.Hour, UsualSandboxGone, Node("worker-2"), gone)}},
		{"there a moment ago", ends, []Part{gone, afterPassesOver(2*time.Hour, UsualSandboxGone, Node("worker-2"), gone)}},
		{"missing, where nothing is known of nodes", claimed, []Part{gone, NodesUnknown}},
	})
}
