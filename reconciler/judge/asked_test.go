package judge_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// The address of a pod that is starting, ending or just deleted is on no pod, so
// that asking the right nodes is all that protects it.
func TestThePodsOwnNodeIsAlwaysAsked(t *testing.T) {
	noFreshReport := Want(judge.Held, judge.NoFreshReportReason, false, judge.NoFreshReport)
	there, selected := OnNode("worker-2"), All(Node("worker-1"), FreshReport("worker-1"))
	nodes := All(selected, Node("worker-2", WithoutAgent))
	for _, c := range []struct {
		says  string
		want  Outcome
		parts []Part
	}{
		{"a Pending pod on a node that no selector selects", Want(judge.InUse, judge.PodPending, false, judge.NoFreshReport), []Part{nodes, UsualPod(Phase("Pending"), there)}},
		{"a live pod whose status does not have the address yet", noFreshReport, []Part{nodes, UsualPod(there)}},
		{"a live pod without a status", noFreshReport, []Part{nodes, UsualPod(there, NoNetworkStatus)}},
		{"a terminating pod", noFreshReport, []Part{nodes, UsualPod(there, DeletedAgo(0))}},
		{"a finished pod that kubelet did not report stopped", noFreshReport, []Part{nodes, UsualPod(there, Phase("Failed"))}},
		{"a pod that was just deleted and seen carrying the address", noFreshReport, []Part{nodes, afterPassOver(UsualPool, nodes, UsualPod(there, Carrying("10.0.0.5")))}},
		{"a pod that was just deleted, on a node of which there is an old report", noFreshReport, []Part{nodes, StaleReport("worker-2")}},
		{"a node of which there is an old report, and that no selector selects", noFreshReport, []Part{nodes, StaleReport("worker-2"), UsualPod(DeletedAgo(0))}},
		{"a node where another pod carries the address that is gone by now", noFreshReport,
			[]Part{nodes, afterPassOver(UsualPool, nodes, Pod("web-1", UID("uid-9"), there, Carrying("10.0.0.5")))}},
		{"the terminating pod's node, although a node that is heard was seen with it", noFreshReport,
			[]Part{nodes, afterPassOver(UsualPool, nodes, UsualPod(Carrying("10.0.0.5"))), UsualPod(there, UID("uid-9"), DeletedAgo(0))}},
		{"every node, although the pod was seen carrying the address on one that is heard", noFreshReport,
			[]Part{selected, Node("worker-2"), afterPassOver(UsualPool, selected, UsualPod(Carrying("10.0.0.5")))}},
		{"the pod's node, although a dead one had the sandbox", noFreshReport,
			[]Part{Node("worker-1", NotReadyFor(time.Hour), OutOfService), StaleReport("worker-1", Sandbox("box-1", NoUID)), Node("worker-2"), UsualPod(there, DeletedAgo(0))}},
		{"the pod's node, although one that is missing had the sandbox", noFreshReport,
			[]Part{StaleReport("worker-1", Sandbox("box-1", NoUID)), Node("worker-2"), UsualPod(there, DeletedAgo(0))}},
	} {
		t.Run(c.says, func(t *testing.T) {
			Expect(t, c.want, append([]Part{UsualPool}, c.parts...)...)
			if got := nodesIn(t, append([]Part{UsualPool}, c.parts...)...); !slices.Contains(got, "worker-2") {
				t.Errorf("worker-2 is not asked, only %v", got)
			}
		})
	}
	t.Run("what a dead node had is not proven where the pod's node could run it too", func(t *testing.T) {
		Expect(t, Want(judge.Stale, judge.NodeDeadReason, false, judge.NodeDead), UsualPool, Node("worker-1", NotReadyFor(time.Hour), OutOfService),
			StaleReport("worker-1", Sandbox("box-1", NoUID)), Node("worker-2"), FreshReport("worker-2"), UsualPod(there, DeletedAgo(0)))
	})
}

// network_name "worker-1" and the slice of worker-1 give a pool the same name.
func TestANameNeverNarrows(t *testing.T) {
	held := Want(judge.Held, judge.NoFreshReportReason, false, judge.NoFreshReport)
	heard := All(threeNodes, FreshReport("worker-1"), StaleReport("worker-2"), StaleReport("worker-3"))
	for _, name := range []string{"worker-1-10.0.0.0-28", "red-worker-1-10.0.0.0-28"} {
		pool := Pool(name, "10.0.0.0/28", UsualAllocation)
		t.Run(name+": its name alone", func(t *testing.T) {
			Expect(t, held, pool, heard)
			if got := nodesIn(t, pool, heard); !slices.Equal(got, []string{"worker-1", "worker-2", "worker-3"}) {
				t.Errorf("asked are %v", got)
			}
		})
		t.Run(name+": a definition without slices", func(t *testing.T) {
			Expect(t, held, pool, heard, NAD("wb", WhereaboutsConfig("10.0.0.0/28", "worker-1")))
		})
		t.Run(name+": without agents, a node that is not Ready counts", func(t *testing.T) {
			Expect(t, Want(judge.Held, judge.NodeUnreachable, false, judge.NoSource), pool, Node("worker-1"), Node("worker-2", NotReadyFor(time.Hour)))
		})
	}
	slice, sliced := Pool("worker-1-10.0.0.0-28", "10.0.0.0/28", UsualAllocation), NAD("wb", WhereaboutsConfig("10.0.0.0/24", "", `"node_slice_size":"/28"`))
	t.Run("a definition that cuts slices does", func(t *testing.T) {
		Expect(t, Want(judge.Stale, judge.PodGone, false, judge.Absent), slice, sliced, heard)
	})
	t.Run("but not beside the pod's own node", func(t *testing.T) {
		Expect(t, held, slice, sliced, heard, UsualPod(OnNode("worker-2"), DeletedAgo(0)))
		if got := nodesIn(t, slice, sliced, heard, UsualPod(OnNode("worker-2"), DeletedAgo(0))); !slices.Equal(got, []string{"worker-1", "worker-2"}) {
			t.Errorf("asked are %v", got)
		}
	})
	t.Run("and not where its slices are of another size", func(t *testing.T) {
		Expect(t, held, slice, heard, NAD("wb", WhereaboutsConfig("10.0.0.0/24", "", `"node_slice_size":"/27"`)))
	})
	t.Run("and not where it cuts another range", func(t *testing.T) {
		Expect(t, held, slice, heard, NAD("wb", WhereaboutsConfig("10.9.0.0/24", "", `"node_slice_size":"/28"`)))
	})
}

// What was seen with the address of a reservation may be anybody's.
func TestAReservationThatStandsAloneIsNeverNarrowedByStrangers(t *testing.T) {
	pool, res := Pool("10.0.0.0-24", "10.0.0.0/24"), Reservation("10.0.0.5", "default/web-0", LongAgo)
	noFreshReport := All(Node("worker-1"), StaleReport("worker-1"), Node("worker-2"))
	heard := All(Node("worker-1"), FreshReport("worker-1"), Node("worker-2"))
	stranger := func(edits ...SandboxEdit) ReportEdit {
		return Sandbox("box-7", "uid-9", append([]SandboxEdit{OfPod("web-9"), WithAddress("10.0.0.5", "")}, edits...)...)
	}
	leftover := Attachment("box-7", "uid-9", time.Hour, nil, Address("10.0.0.5", ""))
	closedLeftover := Attachment("box-7", "uid-9", time.Minute, Closed, Address("10.0.0.5", ""))
	held := decision{judge.Held, judge.NoFreshReportReason, false}
	for _, c := range []struct {
		says  string
		want  decision
		parts []Part
	}{
		{"a leftover in a cache, while another node is not heard", held, []Part{noFreshReport, FreshReport("worker-2", leftover)}},
		{"a closed leftover in a cache, while another node is not heard", held, []Part{noFreshReport, FreshReport("worker-2", closedLeftover)}},
		{"a stopped sandbox, while another node is not heard", held, []Part{noFreshReport, FreshReport("worker-2", stranger(NotReady(Closed)))}},
		{"a stopped sandbox, while the terminating pod's node is not heard", held,
			[]Part{noFreshReport, FreshReport("worker-2", stranger(NotReady(Closed))), UsualPod(DeletedAgo(0))}},
		{"a stopped sandbox, while the live pod's status is not there", decision{judge.Held, judge.NetworkStatusMissing, false},
			[]Part{heard, FreshReport("worker-2", stranger(NotReady(Closed))), UsualPod(NoNetworkStatus)}},
		{"a stopped sandbox, while the pod is Pending and its node not heard", decision{judge.InUse, judge.PodPending, false},
			[]Part{noFreshReport, FreshReport("worker-2", stranger(NotReady(Closed))), UsualPod(Phase("Pending"))}},
		{"a leftover in a cache, and all nodes are heard", decision{judge.Stale, judge.PodGone, false}, []Part{heard, FreshReport("worker-2", leftover)}},
		{"a running sandbox is evidence of use", decision{judge.Held, judge.PhantomPod, false}, []Part{noFreshReport, FreshReport("worker-2", stranger())}},
		{"a sandbox that is not known to be closed is evidence of use", decision{judge.Held, judge.SandboxNotReady, false}, []Part{noFreshReport, FreshReport("worker-2", stranger(NotReady(nil)))}},
	} {
		t.Run(c.says, func(t *testing.T) { expectReservation(t, "10.0.0.5", c.want, append([]Part{pool, res}, c.parts...)...) })
	}
	t.Run("a stopped sandbox is no evidence", func(t *testing.T) {
		it := expectReservation(t, "10.0.0.5", decision{judge.Stale, judge.AddressNotOnPod, false}, pool, res, heard, FreshReport("worker-2", stranger(NotReady(Closed))), UsualPod())
		if got := it.Evidence().Sandbox; got != judge.Absent {
			t.Errorf("its sandbox is %s", got)
		}
	})
}

// Its sandbox may be the one of any of them, and one node's word of its end is not
// that of the others.
func TestTheNodesOfAllEarlierPodsOfTheNameAreAsked(t *testing.T) {
	nodes := All(Node("worker-1"), Node("worker-2"), Node("worker-3"), FreshReport("worker-2"))
	ended := All(UsualPool, nodes, FreshReport("worker-3", Gone("box-1", UsualUID)))
	seen := func(o *Observed) {
		h := reconciler.NewHistory()
		for i, node := range []string{"worker-1", "worker-2"} {
			before := Observe(At(Now.Add(time.Duration(i-2)*time.Minute)), UsualPool, nodes, UsualPod(OnNode(node), UID(fmt.Sprint("uid-", i))))
			before.Past = h
			h.Remember(Judged(before, judge.Policy{}))
		}
		o.Past = h
	}
	expectVerdict(t, decision{judge.Held, judge.NoFreshReportReason, false}, ended, seen)
	expectVerdict(t, decision{judge.Stale, judge.PodGone, false}, ended, FreshReport("worker-1"), seen)
}
