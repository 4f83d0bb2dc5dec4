package judge_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

var (
	claimed  = Want(judge.Held, judge.ClaimedByOther, false, judge.Gone)
	released = Want(judge.Stale, judge.PodGone, true, judge.Gone)
)

func TestAnotherPodCarriesTheAddress(t *testing.T) {
	other := func(edits ...PodEdit) Part { return Pod("web-1", append([]PodEdit{UID("uid-9")}, edits...)...) }
	expectRulings(t, UsualSandboxGone, []rulingCase{
		{"no other pod carries it", released, []Part{wb, other()}},
		{"its definition is of the pool", claimed, []Part{wb, other(Carrying("10.0.0.5"))}},
		{"its definition is gone", claimed, []Part{other(Carrying("10.0.0.5"))}},
		{"its definition cannot be read", claimed, []Part{NAD("wb", "{"), other(Carrying("10.0.0.5"))}},
		{"its definition is configured on the nodes", claimed, []Part{NAD("wb", ""), other(Carrying("10.0.0.5"))}},
		{"its network is the default one", claimed,
			[]Part{other(NetworkStatus(`[{"name":"cbr0","interface":"eth0","ips":["10.0.0.5"],"default":true}]`))}},
		{"its definition is of another network", released, []Part{NAD("wb", WhereaboutsConfig("10.0.0.0/24", "red")),
			other(Carrying("10.0.0.5"))}},
		{"its definition uses another IPAM", released, []Part{NAD("wb", `{"type":"macvlan","ipam":{"type":"static"}}`),
			other(Carrying("10.0.0.5"))}},
		{"its definition is of the same network with another range", claimed,
			[]Part{NAD("wb", WhereaboutsConfig("10.0.0.0/16", "")), other(Carrying("10.0.0.5"))}},
		{"it is Pending", claimed, []Part{wb, other(Carrying("10.0.0.5"), Phase("Pending"))}},
		{"it is terminating, long overdue", claimed, []Part{wb, other(Carrying("10.0.0.5"), DeletedAgo(time.Hour))}},
		{"it is finished", released, []Part{wb, other(Carrying("10.0.0.5"), Phase("Succeeded"))}},
		{"only its podIPs have it", released, []Part{wb, other(PodIPs("10.0.0.5"))}},
		{"it is of the same name in another namespace", claimed,
			[]Part{wb, UsualPod(InNamespace("blue"), Carrying("10.0.0.5"))}},
		{"the rest of its status cannot be read", claimed,
			[]Part{wb, other(NetworkStatus(`[{"name":"default/wb","interface":"net1","ips":["10.0.0.5","x"]}]`))}},
		{"it carries another address", released, []Part{wb, other(Carrying("10.0.0.6"))}},
	})
}

func TestAnotherSandboxRecordsTheAddress(t *testing.T) {
	other := func(edits ...SandboxEdit) ReportEdit {
		return Sandbox("box-2", "uid-9", append([]SandboxEdit{OfPod("web-1"), with5}, edits...)...)
	}
	hidden := func(age time.Duration, closed *bool, network string) ReportEdit {
		return Attachment("box-2", "uid-9", age, closed, Address("10.0.0.5", network))
	}
	second := Node("worker-2")
	expectRulings(t, UsualSandboxGone, []rulingCase{
		{"READY", claimed, []Part{second, FreshReport("worker-2", other())}},
		{"READY in a stale report", claimed, []Part{second, StaleReport("worker-2", other())}},
		{"READY in a report that no Lease ever had the hash of", claimed, []Part{second, StaleReport("worker-2", other(),
			WithoutMatchingLease)}},
		{"not ready, its network open", claimed, []Part{second, FreshReport("worker-2", other(NotReady(Open)))}},
		{"not ready, nothing known of its network", claimed, []Part{second, FreshReport("worker-2", other(NotReady(nil)))}},
		{"not ready, its network closed", released, []Part{second, FreshReport("worker-2", other(NotReady(Closed)))}},
		{"not ready, its network closed, in a stale report", released,
			[]Part{second, StaleReport("worker-2", other(NotReady(Closed)))}},
		{"attached, its network there", claimed, []Part{second, FreshReport("worker-2", hidden(time.Hour, Open, ""))}},
		{"attached a minute ago, nothing known of its network", claimed,
			[]Part{second, FreshReport("worker-2", hidden(time.Minute, nil, ""))}},
		{"attached a minute ago, in a stale report", claimed,
			[]Part{second, StaleReport("worker-2", hidden(time.Minute, nil, ""))}},
		{"attached, its network closed", released, []Part{second, FreshReport("worker-2", hidden(time.Minute, Closed, ""))}},
		{"attached long ago, nothing known of its network", claimed,
			[]Part{second, FreshReport("worker-2", hidden(2000*time.Hour, nil, ""))}},
		{"attached long ago, its network closed", released,
			[]Part{second, FreshReport("worker-2", hidden(time.Hour, Closed, ""))}},
		{"attached in another network", released, []Part{second, FreshReport("worker-2", hidden(time.Minute, nil, "red"))}},
		{"another address", released, []Part{second, FreshReport("worker-2", Sandbox("box-2", "uid-9", with6))}},
		{"in the same network by another range", claimed, []Part{second, FreshReport("worker-2",
			Sandbox("box-2", "uid-9", AddressIn("10.0.0.5", "net1", "10.0.0.0/16", "")))}},
		{"written with a prefix length", claimed, []Part{second, FreshReport("worker-2", Sandbox("box-2", "uid-9",
			WithAddress("10.0.0.5/24", "")))}},
		{"of a dead node", released, []Part{dead2, StaleReport("worker-2", other())}},
		{"of a node that is out of service and Ready", claimed, []Part{Node("worker-2", OutOfService), StaleReport("worker-2",
			other())}},
		{"of a node that is out of service and has a fresh report", claimed, []Part{dead2, FreshReport("worker-2", other())}},
		{"of a node that was rebooted since", claimed, []Part{Node("worker-2", Booted("boot-2")), StaleReport("worker-2",
			other())}},
		{"of a node that was rebooted and reports it", claimed, []Part{Node("worker-2", Booted("boot-2")),
			FreshReport("worker-2", other())}},
		{"of a later sandbox of the same pod", claimed,
			[]Part{second, FreshReport("worker-2", Sandbox("box-2", UsualUID, with5))}},
	})
	t.Run("the allocation's own sandbox is no claimant", func(t *testing.T) {
		Expect(t, Want(judge.Stale, judge.NodeMissingReason, false, judge.NodeMissing), UsualPool, Node("worker-2"),
			FreshReport("worker-2"), StaleReport("worker-1", Sandbox("box-1", UsualUID, with5)))
	})
}

// A pool is of a network by its name; where that admits several, each counts.
func TestWhichNetworkAPoolIsOf(t *testing.T) {
	pool := func(name string) Part { return Pool(name, "10.0.0.0/24", UsualAllocation) }
	seen := func(network string) Part {
		return All(Node("worker-1"), Node("worker-2"), FreshReport("worker-1", gone1),
			FreshReport("worker-2", Sandbox("box-2", "uid-9", WithAddress("10.0.0.5", network))))
	}
	for _, c := range []struct {
		pool, network string
		want          Ruling
	}{
		{"10.0.0.0-24", "", claimed}, {"10.0.0.0-24", "red", released},
		{"red-10.0.0.0-24", "red", claimed}, {"red-10.0.0.0-24", "", released},
		{"worker-1-10.0.0.0-24", "", claimed}, {"worker-1-10.0.0.0-24", "worker-1", claimed}, {"worker-1-10.0.0.0-24", "red",
			released},
		{"a-name-of-its-own", "", claimed}, {"a-name-of-its-own", "red", claimed}, // the name says nothing
	} {
		t.Run(c.pool+" and network "+c.network, func(t *testing.T) { Expect(t, c.want, pool(c.pool), seen(c.network)) })
	}
}

// Only a release is overruled; the reason of the rest says more.
func TestAClaimOverrulesOnlyStale(t *testing.T) {
	claimant := All(Node("worker-2"), FreshReport("worker-2", Sandbox("box-2", "uid-9", OfPod("web-1"), with5)))
	for _, r := range tableRows() {
		for _, p := range r.pods {
			for _, b := range r.sandboxes {
				if b.state == judge.NoSource { // with the claimant's report there would be agents
					continue
				}
				it := usualIn(t, UsualPool, p.pod, b.parts, claimant)
				if it.Verdict == judge.Stale {
					t.Errorf("%s whose sandbox %s: stale (%s) although another sandbox has the address", p.says, b.says, it.Reason)
				}
				if r.verdict != judge.Stale && r.reason != judge.ClaimedByOther && it.Reason == judge.ClaimedByOther &&
					it.Evidence().Sandbox == b.state {
					t.Errorf("%s whose sandbox %s: its own reason is %s", p.says, b.says, r.reason)
				}
			}
		}
	}
}

// What a repair wrote for a phantom names no pod: the successor of that name is
// somebody else, and nothing that it is or does makes the allocation its own.
func TestAnEntryWrittenForAPhantom(t *testing.T) {
	pool := Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/web-0_uid-0", "box-1", "net1"))
	expectRulings(t, pool, []rulingCase{
		{"its sandbox runs", Want(judge.Held, judge.PhantomPod, false, judge.Ready), []Part{UsualPod(Carrying("10.0.0.6")),
			ReportingWorker(Sandbox("box-1", OtherUID))}},
		{"its sandbox runs, and a pod of that name and UID is there again", Want(judge.Held, judge.PhantomPod, false,
			judge.Ready), []Part{UsualPod(UID(OtherUID)), ReportingWorker(Sandbox("box-1", OtherUID))}},
		{"its sandbox has gone", released, []Part{UsualPod(Carrying("10.0.0.6")), ReportingWorker(Gone("box-1", OtherUID))}},
		{"its sandbox has gone, and the successor is Pending", released,
			[]Part{pending.pod, ReportingWorker(Gone("box-1", OtherUID))}},
		{"its sandbox has gone, and the successor carries the address", claimed, []Part{UsualPod(Carrying("10.0.0.5")),
			ReportingWorker(Gone("box-1", OtherUID))}},
		{"its node has no fresh report", unreported,
			[]Part{Node("worker-1"), StaleReport("worker-1", Sandbox("box-1", OtherUID))}},
		{"no report has it", Want(judge.Stale, judge.PodGone, false, judge.Absent), []Part{ReportingWorker()}},
	})
}

// ADD reuses the allocation of a pod of the same name before it writes its own id there, and what a successor carries
// is in use. TestVerdictTable has a terminating one, on the node where the sandbox was.
func TestTheAddressIsOnASuccessor(t *testing.T) {
	held := decision{judge.Held, judge.ClaimedByOther, false}
	carries, starts, ends := Carrying("10.0.0.5"), Phase("Pending"), DeletedAgo(-30*time.Second)
	elsewhere := All(Node("worker-1"), Node("worker-2"), FreshReport("worker-2"))
	expectVerdicts(t, UsualPool, []decisionCase{
		{"Pending, the sandbox was another pod's and is gone", held, []Part{UsualPod(starts, carries),
			ReportingWorker(Gone("box-1", OtherUID))}},
		{"Pending, the sandbox was another pod's and has stopped", held, []Part{UsualPod(starts, carries),
			ReportingWorker(Sandbox("box-1", OtherUID, NotReady(Closed)))}},
		{"Pending, the sandbox was another pod's on a dead node", held, []Part{UsualPod(starts, carries, OnNode("worker-2")),
			diedWithNode(OtherUID).parts, Node("worker-2"), FreshReport("worker-2")}},
		{"Pending, and no report has the sandbox", held, []Part{UsualPod(starts, carries), ReportingWorker()}},
		{"Pending, the address among the podIPs", held, []Part{UsualPod(starts, PodIPs("10.0.0.5")),
			ReportingWorker(Gone("box-1", OtherUID))}},
		{"terminating on another node than the one where the sandbox is gone", held,
			[]Part{UsualPod(ends, carries, OnNode("worker-2")), elsewhere, FreshReport("worker-1", gone1)}},
		{"Pending and never bound to a node", decision{judge.Stale, judge.PodReplaced, false},
			[]Part{UsualPod(starts, carries, OnNode("")), ReportingWorker()}},
		{"terminating and never bound to a node", decision{judge.Stale, judge.SandboxStopped, true},
			[]Part{UsualPod(ends, carries, OnNode("")), ReportingWorker(Gone("box-1", OtherUID))}},
	})
}

// In the first minute the agent may have inspected the node last before the successor's ADD.
func TestASuccessorThatIsPendingIsNotProvenWithinItsFirstMinute(t *testing.T) {
	for _, c := range []sandboxCase{hasStopped(OtherUID), isGone(OtherUID), diedWithNode(OtherUID)} {
		young := UsualPod(Phase("Pending"), MadeAgo(30*time.Second))
		t.Run("whose sandbox "+c.says, func(t *testing.T) {
			it := usualIn(t, UsualPool, young, c.parts)
			if it.Proven {
				t.Error(Wrong(it, "unconfirmed"))
			}
			expectVerdict(t, decision{judge.Stale, judge.PodReplaced, true}, UsualPool, pending.pod, c.parts,
				afterPassesOver(20*time.Minute, UsualPool, pending.pod, c.parts))
			expectVerdict(t, decision{judge.Stale, judge.PodReplaced, false}, UsualPool, pending.pod, c.parts,
				afterPassesOver(59*time.Second, UsualPool, pending.pod, c.parts))
		})
	}
}

// Its network does not matter: containers run in it.
func TestAReadySandboxAlwaysHoldsItsAddresses(t *testing.T) {
	ready := func(r *v1alpha1.Sandbox) { r.NetworkClosed = Closed }
	other := Sandbox("box-2", "uid-9", OfPod("web-1"), with5, ready)
	Expect(t, claimed, UsualSandboxGone, Node("worker-2"), FreshReport("worker-2", other))
	Expect(t, claimed, UsualSandboxGone, Node("worker-2"), StaleReport("worker-2", other))
	expectReservation(t, "10.0.0.5", decision{judge.Held, judge.PhantomPod, false}, empty,
		reserved, ReportingWorker(other))
}

// One pod that waits for a node for ever must not keep a whole range.
func TestAPodThatWasNeverBoundToANodeClaimsNothing(t *testing.T) {
	carries := []PodEdit{UID("uid-9"), Phase("Pending"), Carrying("10.0.0.5")}
	Expect(t, released, UsualSandboxGone, Pod("web-1", append(carries, OnNode(""))...))
	Expect(t, claimed, UsualSandboxGone, Pod("web-1", append(carries, OnNode("worker-2"))...))
	expectReservation(t, "10.0.0.5", decision{judge.Stale, judge.PodGone, false}, empty,
		reserved, ReportingWorker(), Pod("web-1", append(carries, OnNode(""))...))
}

// What a sandbox really has says more than what anybody may write at its pod.
func TestWhereThePodsSandboxIsListedItsAddressesCountAndNotTheAnnotation(t *testing.T) {
	pod := Pod("web-1", UID("uid-9"), OnNode("worker-2"), Carrying("10.0.0.5"))
	its := func(uid string, edits ...SandboxEdit) ReportEdit {
		return Sandbox("box-2", uid, append([]SandboxEdit{OfPod("web-1")}, edits...)...)
	}
	for _, c := range []struct {
		says   string
		want   Ruling
		report Part
	}{
		{"it has another address", released, FreshReport("worker-2", its("uid-9", with6))},
		{"it has this address too", claimed, FreshReport("worker-2", its("uid-9", with6, with5))},
		{"its addresses are not reported", claimed, FreshReport("worker-2", its("uid-9"))},
		{"the report is old", claimed, StaleReport("worker-2", its("uid-9", with6))},
		{"the sandbox is of another pod of that name", claimed, FreshReport("worker-2", its("uid-8", with6))},
		{"the sandbox is on another node", claimed, All(Node("worker-3"), StaleReport("worker-2"), FreshReport("worker-3",
			its("uid-9", with6)))},
		{"nothing is listed", claimed, FreshReport("worker-2")},
	} {
		t.Run(c.says, func(t *testing.T) { Expect(t, c.want, UsualSandboxGone, Node("worker-2"), pod, c.report) })
	}
}

// A closed network carries nothing, so the network-status that a terminating pod keeps counts no more.
func TestATerminatingPodWhoseSandboxesHaveEndedCarriesNothing(t *testing.T) {
	its := func(id, uid string, edits ...SandboxEdit) ReportEdit {
		return Sandbox(id, uid, append([]SandboxEdit{OfPod("web-1"), with5}, edits...)...)
	}
	ofPod := func(r *podstate.Report) { r.Attachments[0].Name = "web-1" }
	attached := func(age time.Duration, closed *bool) Part {
		return FreshReport("worker-2", its("box-2", "uid-9", NotReady(Closed)), Attachment("box-3", "uid-9", age, closed),
			ofPod)
	}
	running := Pod("web-2", UID("uid-8"), OnNode("worker-3"), Carrying("10.0.0.5"))
	for _, c := range []struct {
		says    string
		carries bool
		phase   PodEdit
		report  Part
	}{
		{"its sandbox has stopped", false, nil, FreshReport("worker-2", its("box-2", "uid-9", NotReady(Closed)))},
		{"its sandbox is gone", false, nil, FreshReport("worker-2", Gone("box-2", "uid-9"))},
		{"a closed attachment is there, too", false, nil, attached(time.Hour, Closed)},
		{"an old attachment is there, too, and its network is unknown", true, nil, attached(time.Hour, nil)},
		{"its sandbox is not ready, and its network may be open", true, nil,
			FreshReport("worker-2", its("box-2", "uid-9", NotReady(nil)))},
		{"another sandbox may run, and no report has its addresses", true, nil, FreshReport("worker-2",
			its("box-2", "uid-9", NotReady(Closed)), Sandbox("box-3", "uid-9", OfPod("web-1"), NotReady(Open)))},
		{"another sandbox may run", true, nil, FreshReport("worker-2", its("box-2", "uid-9", NotReady(Closed)),
			its("box-3", "uid-9", NotReady(Open)))},
		{"another sandbox may be its own", true, nil, FreshReport("worker-2", its("box-2", "uid-9", NotReady(Closed)),
			its("box-3", NoUID, NotReady(Open)))},
		{"a CNI cache has another sandbox", true, nil, attached(time.Minute, nil)},
		{"the sandbox that has stopped is an earlier pod's", true, nil,
			FreshReport("worker-2", its("box-2", "uid-7", NotReady(Closed)))},
		{"no report has its sandbox", true, nil, FreshReport("worker-2")},
		{"the report is expired", true, nil, StaleReport("worker-2", its("box-2", "uid-9", NotReady(Closed)))},
		{"another node reports it", true, nil, All(StaleReport("worker-2"), Node("worker-3"),
			FreshReport("worker-3", its("box-2", "uid-9", NotReady(Closed))))},
		{"it is not terminating", true, func(*corev1.Pod) {},
			FreshReport("worker-2", its("box-2", "uid-9", NotReady(Closed)))},
	} {
		t.Run(c.says, func(t *testing.T) {
			phase := DeletedAgo(time.Hour)
			if c.phase != nil {
				phase = c.phase
			}
			pod := Pod("web-1", UID("uid-9"), OnNode("worker-2"), Carrying("10.0.0.5"), CreatedLongAgo, phase)
			cluster := All(wb, UsualSandboxGone, Node("worker-2"), pod, c.report)
			want := released
			if c.carries {
				want = claimed
			}
			Expect(t, want, cluster)
			if found := FindingsOf(findings.Conflict, cluster, running); !c.carries && len(found) != 0 {
				t.Errorf("got %+v", found)
			}
		})
	}
}
