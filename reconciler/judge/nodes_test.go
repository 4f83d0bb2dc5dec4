package judge_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// Which nodes could run the sandbox: those must have a fresh report.

func nodesIn(t *testing.T, parts ...Part) []string {
	t.Helper()
	return usualIn(t, parts...).Evidence().Nodes
}

// afterPassOver puts what an earlier pass, an hour ago, saw into the past.
func afterPassOver(parts ...Part) Part {
	return func(o *Observed) {
		before := Observe(append([]Part{At(Now.Add(-time.Hour))}, parts...)...)
		o.Past = reconciler.Known{}.After(Judged(before, facts.Policy{}).Judgement)
	}
}

func TestTheNodeThatCouldRunIt(t *testing.T) {
	slice := func(name string) Part { return Pool(name, "10.0.0.0/28", UsualAllocation) }
	windows := Node("win", Label("kubernetes.io/os", "windows"))
	for _, c := range []struct {
		says  string
		want  []string
		parts []Part
	}{
		{"the one whose last report has the id, a stale one included", []string{"worker-2"},
			[]Part{UsualPool, ThreeNodes(), FreshReport("worker-1"), StaleReport("worker-2", box1), FreshReport("worker-3")}},
		{"that one, even where the pool is another node's slice", []string{"worker-2"},
			[]Part{slice("worker-1-10.0.0.0-28"), ThreeNodes(), FreshReport("worker-1"), StaleReport("worker-2", box1)}},
		{"that one, and where the pod carries the address", []string{"worker-1", "worker-2"},
			[]Part{UsualPool, UsualPod(Carrying("10.0.0.5")), ThreeNodes(), StaleReport("worker-2", box1),
				FreshReport("worker-1")}},
		{"the node of the slice, by a definition", []string{"worker-2"}, []Part{slice("worker-2-10.0.0.0-28"), Sliced(""),
			ThreeNodes(), FreshReport("worker-1")}},
		{"every node, where only the pool's name looks like a slice's", []string{"worker-1", "worker-2", "worker-3"},
			[]Part{slice("worker-2-10.0.0.0-28"), ThreeNodes(), FreshReport("worker-1")}},
		{"every node, where the definition is of another network", []string{"worker-1", "worker-2", "worker-3"},
			[]Part{slice("worker-2-10.0.0.0-28"), Sliced("red"), ThreeNodes(), FreshReport("worker-1")}},
		{"the node of the slice of a named network", []string{"worker-2"}, []Part{slice("red-worker-2-10.0.0.0-28"),
			Sliced("red"), ThreeNodes(), FreshReport("worker-1")}},
		{"every node whose name fits the slice's, by two definitions", []string{"a-b", "b"},
			[]Part{slice("a-b-10.0.0.0-28"), Sliced(""), Sliced("a"), Node("a-b"), Node("b"), Node("c"), FreshReport("c")}},
		{"the node of the slice, and where the pod carries the address", []string{"worker-1", "worker-2"},
			[]Part{slice("worker-2-10.0.0.0-28"), Sliced(""), UsualPod(Carrying("10.0.0.5")), ThreeNodes(),
				FreshReport("worker-1")}},
		{"every node, and the slice's, where that has no Node object any more", []string{"worker-1", "worker-2", "worker-3",
			"worker-9"}, []Part{slice("worker-9-10.0.0.0-28"), Sliced(""), ThreeNodes(), FreshReport("worker-1")}},
		{"the slice's node by its report, where there are no Node objects", []string{"worker-2"},
			[]Part{slice("worker-2-10.0.0.0-28"), Sliced(""), FreshReport("worker-1"), StaleReport("worker-2"), NodesUnknown}},
		{"every node, and that of the pod that carries the address", []string{"win", "worker-1", "worker-2", "worker-3"},
			[]Part{UsualPool, UsualPod(OnNode("win"), DeletedAgo(0), Carrying("10.0.0.5")), ThreeNodes(), windows,
				FreshReport("worker-1")}},
		{"every node, and that of the pod by that name, Pending", []string{"win", "worker-1", "worker-2", "worker-3"},
			[]Part{UsualPool, UsualPod(OnNode("win"), Phase("Pending")), ThreeNodes(), windows, FreshReport("worker-1")}},
		{"every node, and that of another pod that carries the address", []string{"win", "worker-1", "worker-2", "worker-3"},
			[]Part{UsualPool, Pod("web-1", OnNode("win"), Carrying("10.0.0.5")), ThreeNodes(), windows,
				FreshReport("worker-1")}},
		{"every node, and that of the pod that was there", []string{"win", "worker-1", "worker-2", "worker-3"},
			[]Part{UsualPool, afterPassOver(UsualPool, UsualPod(OnNode("win"))), ThreeNodes(), windows,
				FreshReport("worker-1")}},
		{"every node, and that of the pod that was seen carrying the address", []string{"win", "worker-1", "worker-2",
			"worker-3"}, []Part{UsualPool, afterPassOver(UsualPool, All(ThreeNodes(), windows, FreshReport("worker-1")),
			Pod("web-1", OnNode("win"), Carrying("10.0.0.5"))), ThreeNodes(), windows, FreshReport("worker-1")}},
		{"every node, where what was seen was another allocation", []string{"worker-1", "worker-2", "worker-3"},
			[]Part{UsualPool, afterPassOver(Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/web-0", "box-0", "net1")),
				UsualPod(OnNode("win"), Carrying("10.0.0.5"))), ThreeNodes(), windows, FreshReport("worker-1")}},
		{"every node, one with a report though no agent is meant to be there", []string{"win", "worker-1", "worker-2",
			"worker-3"}, []Part{UsualPool, ThreeNodes(), windows, StaleReport("win")}},
		{"every node, where the pod is finished: its addresses are never read", []string{"worker-1", "worker-2", "worker-3"},
			[]Part{UsualPool, UsualPod(Phase("Failed"), Carrying("10.0.0.5")), ThreeNodes(), FreshReport("worker-1")}},
		{"every node but the dead and those with no agent", []string{"worker-1"},
			[]Part{UsualPool, Node("worker-1"), Node("dead", NotReadyFor(time.Hour), OutOfService),
				Node("win", Label("kubernetes.io/os", "windows")), FreshReport("worker-1")}},
		{"no node that is missing, though its last report is there", []string{"worker-1"},
			[]Part{UsualPool, Node("worker-1"), FreshReport("worker-1"), StaleReport("worker-9")}},
		{"not the one that names the id as gone in a stale report", []string{"worker-1", "worker-2", "worker-3"},
			[]Part{UsualPool, ThreeNodes(), StaleReport("worker-2", gone1), FreshReport("worker-1")}},
		{"without reports, the pod's own", []string{"worker-2"}, []Part{UsualPool, ThreeNodes(), UsualPod(OnNode("worker-2"),
			DeletedAgo(0))}},
		{"without reports, the finished pod's own", []string{"worker-2"}, []Part{UsualPool, ThreeNodes(),
			UsualPod(OnNode("worker-2"), Phase("Failed"))}},
		{"without reports and pod, the slice's", []string{"worker-3"}, []Part{slice("worker-3-10.0.0.0-28"), Sliced(""),
			ThreeNodes()}},
		{"without reports and pod, every node", []string{"worker-1", "worker-2", "worker-3"},
			[]Part{UsualPool, ThreeNodes()}},
	} {
		t.Run(c.says, func(t *testing.T) {
			if got := nodesIn(t, c.parts...); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// What several nodes together prove: all of them must be known.
func TestSeveralNodesThatCouldRunIt(t *testing.T) {
	// a-b's, or b's in network "a"
	slice := All(Pool("a-b-10.0.0.0-28", "10.0.0.0/28", UsualAllocation), Sliced(""), Sliced("a"))
	dead := func(name string) Part { return Node(name, NotReadyFor(time.Hour), OutOfService) }
	for _, c := range []stateCase{
		{"both have fresh reports", judge.Absent, []Part{Node("a-b"), Node("b"), FreshReport("a-b"), FreshReport("b")}},
		{"one is expired", judge.NoFreshReport, []Part{Node("a-b"), Node("b"), FreshReport("a-b"), StaleReport("b")}},
		{"both are dead", judge.NodeDead, []Part{dead("a-b"), dead("b"), StaleReport("a-b")}},
		{"one is dead, the other has a fresh report", judge.NodeDead, []Part{dead("a-b"), Node("b"), FreshReport("b")}},
		{"one is dead, the other has no fresh report", judge.NoFreshReport, []Part{dead("a-b"), Node("b"), StaleReport("b")}},
		{"one has no Node object, the other has a fresh report", judge.NodeMissing, []Part{Node("b"), FreshReport("b")}},
		{"one has no Node object, and a node that has no slice has no fresh report", judge.NodeMissing,
			[]Part{Node("b"), FreshReport("b"), Node("c"), StaleReport("c")}},
		{"none has a Node object, and of the others one has no fresh report", judge.NoFreshReport,
			[]Part{FreshReport("b"), Node("c"), StaleReport("c")}},
		{"one has no Node object, the other is dead", judge.NodeMissing, []Part{dead("b"), StaleReport("b")}},
	} {
		t.Run(c.says+": "+c.want.String(), func(t *testing.T) {
			if got := usualIn(t, append([]Part{slice}, c.parts...)...).Evidence().Sandbox; got != c.want {
				t.Errorf("got %s", got)
			}
		})
	}
	t.Run("one is expired, and the definition of its slice was deleted: NoFreshReport", func(t *testing.T) {
		pool := Pool("a-b-10.0.0.0-28", "10.0.0.0/28", UsualAllocation)
		for node, c := range map[string][]Part{
			"b":   {Sliced(""), FreshReport("a-b"), StaleReport("b")},
			"a-b": {Sliced("a"), FreshReport("b"), StaleReport("a-b")},
		} {
			it := usualIn(t, append(c, pool, Node("a-b"), Node("b"))...)
			if e := it.Evidence(); e.Sandbox != judge.NoFreshReport || !slices.Equal(e.WithoutReport, []string{node}) {
				t.Errorf("%s: got %s without a report of %v", node, e.Sandbox, e.WithoutReport)
			}
		}
	})
	down := Node("worker-1", NotReadyFor(time.Hour))
	expectRulings(t, UsualPool, []rulingCase{
		{"two nodes without a fresh report, one of them not Ready: NoFreshReport", unreported,
			[]Part{down, Node("worker-2"), StaleReport("worker-1")}},
		{"one node without a fresh report, not Ready, and one with: NodeUnreachable",
			Want(judge.Held, judge.NodeUnreachable, false, judge.NoFreshReport),
			[]Part{down, Node("worker-2"), StaleReport("worker-1"), FreshReport("worker-2")}},
		{"every node is dead, so that none could run it: NoFreshReport", unreported, []Part{dead1, StaleReport("worker-1")}},
		{"no node at all is not unreachable", unreported, []Part{ReportsUnknown("forbidden")}},
	})
}

// Without agents, one node that is not Ready and could run it is enough.
func TestNoPodAndNoAgents(t *testing.T) {
	stale := Want(judge.Stale, judge.PodGone, false, judge.NoSource)
	held := Want(judge.Held, judge.NodeUnreachable, false, judge.NoSource)
	down, lost := Node("worker-4", NotReadyFor(time.Hour)), Node("worker-4", NotReadyFor(time.Hour), OutOfService)
	expectRulings(t, All(UsualPool, ThreeNodes()), []rulingCase{
		{"all nodes are Ready", stale, nil},
		{"one of them is not Ready", held, []Part{Node("worker-4", NotReadyFor(time.Minute))}},
		{"the one that is not Ready is proven dead", stale, []Part{lost}},
		{"the one that is not Ready runs no agent", stale, []Part{Node("win", NotReadyFor(time.Hour),
			Label("kubernetes.io/os", "windows"))}},
		{"the pod was seen on another node that is", held, []Part{down,
			afterPassOver(UsualPool, UsualPod(OnNode("worker-2"), Carrying("10.0.0.5")))}},
		{"the pod was seen on the node that is not", held, []Part{down,
			afterPassOver(UsualPool, UsualPod(OnNode("worker-4"), Carrying("10.0.0.5")))}},
		{"the pod was seen on a node that is proven dead", stale, // as for a process that has just started
			[]Part{lost, afterPassOver(UsualPool, UsualPod(OnNode("worker-4"), Carrying("10.0.0.5")))}},
		{"the pod was seen on a node that has gone away", stale,
			[]Part{afterPassOver(UsualPool, UsualPod(OnNode("worker-9"), Carrying("10.0.0.5")))}},
	})
}

// The address of a pod that is starting, ending or just deleted is on no pod, so
// that asking the right nodes is all that protects it.
func TestThePodsOwnNodeIsAlwaysAsked(t *testing.T) {
	there, selected := OnNode("worker-2"), All(Node("worker-1"), FreshReport("worker-1"))
	nodes := All(selected, Node("worker-2", WithoutAgent))
	for _, c := range []rulingCase{
		{"a Pending pod on a node that no selector selects", Want(judge.InUse, judge.PodPending, false, judge.NoFreshReport),
			[]Part{nodes, UsualPod(Phase("Pending"), there)}},
		{"a live pod whose status does not have the address yet", unreported, []Part{nodes, UsualPod(there)}},
		{"a live pod without a status", unreported, []Part{nodes, UsualPod(there, NoNetworkStatus)}},
		{"a terminating pod", unreported, []Part{nodes, UsualPod(there, DeletedAgo(0))}},
		{"a finished pod that kubelet did not report stopped", unreported, []Part{nodes, UsualPod(there, Phase("Failed"))}},
		{"a pod that was just deleted and seen carrying the address", unreported,
			[]Part{nodes, afterPassOver(UsualPool, nodes, UsualPod(there, Carrying("10.0.0.5")))}},
		{"a pod that was just deleted, on a node of which there is an old report", unreported,
			[]Part{nodes, StaleReport("worker-2")}},
		{"a node of which there is an old report, and that no selector selects", unreported,
			[]Part{nodes, StaleReport("worker-2"), UsualPod(DeletedAgo(0))}},
		{"a node where another pod carries the address that is gone by now", unreported,
			[]Part{nodes, afterPassOver(UsualPool, nodes, Pod("web-1", UID("uid-9"), there, Carrying("10.0.0.5")))}},
		{"the terminating pod's node, although a node with a fresh report was seen with it", unreported,
			[]Part{nodes, afterPassOver(UsualPool, nodes, UsualPod(Carrying("10.0.0.5"))), UsualPod(there, UID("uid-9"),
				DeletedAgo(0))}},
		{"every node, although the pod was seen carrying the address on one with a fresh report", unreported,
			[]Part{selected, Node("worker-2"), afterPassOver(UsualPool, selected, UsualPod(Carrying("10.0.0.5")))}},
		{"the pod's node, although a dead one had the sandbox", unreported, []Part{dead1,
			StaleReport("worker-1", Sandbox("box-1", NoUID)), Node("worker-2"), UsualPod(there, DeletedAgo(0))}},
		{"the pod's node, although one that is missing had the sandbox", unreported,
			[]Part{StaleReport("worker-1", Sandbox("box-1", NoUID)), Node("worker-2"), UsualPod(there, DeletedAgo(0))}},
	} {
		t.Run(c.says, func(t *testing.T) {
			Expect(t, c.want, append([]Part{UsualPool}, c.parts...)...)
			if got := nodesIn(t, append([]Part{UsualPool}, c.parts...)...); !slices.Contains(got, "worker-2") {
				t.Errorf("worker-2 need not report, only %v", got)
			}
		})
	}
	t.Run("what a dead node had is not proven where the pod's node could run it too", func(t *testing.T) {
		Expect(t, Want(judge.Stale, judge.NodeDeadReason, false, judge.NodeDead), UsualPool,
			dead1, StaleReport("worker-1", Sandbox("box-1", NoUID)),
			Node("worker-2"), FreshReport("worker-2"), UsualPod(there, DeletedAgo(0)))
	})
}

// network_name "worker-1" and the slice of worker-1 give a pool the same name.
func TestANameNeverNarrows(t *testing.T) {
	oneReports := All(ThreeNodes(), FreshReport("worker-1"), StaleReport("worker-2"), StaleReport("worker-3"))
	for _, name := range []string{"worker-1-10.0.0.0-28", "red-worker-1-10.0.0.0-28"} {
		pool := Pool(name, "10.0.0.0/28", UsualAllocation)
		t.Run(name+": its name alone", func(t *testing.T) {
			Expect(t, unreported, pool, oneReports)
			if got := nodesIn(t, pool, oneReports); !slices.Equal(got, []string{"worker-1", "worker-2", "worker-3"}) {
				t.Errorf("the nodes that must report are %v", got)
			}
		})
		expectRulings(t, pool, []rulingCase{
			{name + ": a definition without slices", unreported,
				[]Part{oneReports, NAD("wb", WhereaboutsConfig("10.0.0.0/28", "worker-1"))}},
			{name + ": without agents, a node that is not Ready counts", Want(judge.Held, judge.NodeUnreachable, false,
				judge.NoSource), []Part{Node("worker-1"), Node("worker-2", NotReadyFor(time.Hour))}},
		})
	}
	slice := All(Pool("worker-1-10.0.0.0-28", "10.0.0.0/28", UsualAllocation), oneReports)
	ends := UsualPod(OnNode("worker-2"), DeletedAgo(0))
	expectRulings(t, slice, []rulingCase{
		{"a definition that cuts slices does", Want(judge.Stale, judge.PodGone, false, judge.Absent), []Part{Sliced("")}},
		{"but not beside the pod's own node", unreported, []Part{Sliced(""), ends}},
		{"and not where its slices are of another size", unreported,
			[]Part{NAD("wb", WhereaboutsConfig("10.0.0.0/24", "", `"node_slice_size":"/27"`))}},
		{"and not where it cuts another range", unreported,
			[]Part{NAD("wb", WhereaboutsConfig("10.9.0.0/24", "", `"node_slice_size":"/28"`))}},
	})
	if got := nodesIn(t, slice, Sliced(""), ends); !slices.Equal(got, []string{"worker-1", "worker-2"}) {
		t.Errorf("beside the pod's own node the nodes that must report are %v", got)
	}
}

// The node of a slice may run on without its Node object, so what only it could run has the rules of a missing node.
func TestNodeSlice_OfANodeWithoutNodeObject(t *testing.T) {
	slice := All(Pool("worker-9-10.0.0.0-28", "10.0.0.0/28", UsualAllocation), Sliced(""))
	others := All(Node("worker-1"), FreshReport("worker-1"))
	missing := Want(judge.Stale, judge.NodeMissingReason, false, judge.NodeMissing)
	t.Run("no report has the sandbox", func(t *testing.T) {
		Expect(t, missing, slice, others)
		if usualIn(t, slice, others).Evidence().OnlyOthersMissing {
			t.Error("the node that could run it counts as another")
		}
	})
	t.Run("another node reports its end", func(t *testing.T) {
		it := usualIn(t, slice, ReportingWorker(gone1))
		if e := it.Evidence(); it.Proven || !e.MissingNode || !e.Unproven {
			t.Errorf("%v, by %+v", RulingOf(it), e)
		}
	})
	t.Run("its definition is missing, and its expired report lacks the sandbox", func(t *testing.T) {
		parts := All(Pool("worker-9-10.0.0.0-28", "10.0.0.0/28", UsualAllocation), others,
			StaleReport("worker-9", RenewedAt(Now.Add(-time.Hour))))
		Expect(t, missing, parts)
		if usualIn(t, parts).Evidence().OnlyOthersMissing {
			t.Error("the node that could run it counts as another")
		}
	})
	t.Run("nodes are unknown", func(t *testing.T) {
		Expect(t, Want(judge.Held, judge.NodesUnknown, false, judge.NoFreshReport), slice, FreshReport("worker-1"),
			NodesUnknown)
	})
	t.Run("without agents", func(t *testing.T) {
		if it := usualIn(t, slice, Node("worker-1")); !it.Evidence().MissingNode {
			t.Errorf("%v, by %+v", RulingOf(it), it.Evidence())
		}
	})
}

// What was seen with the address of a reservation may be anybody's.
func TestAReservationThatStandsAloneIsNeverNarrowedByStrangers(t *testing.T) {
	noFreshReport := All(Node("worker-1"), StaleReport("worker-1"), Node("worker-2"))
	oneReports := All(Node("worker-1"), FreshReport("worker-1"), Node("worker-2"))
	stranger := func(edits ...SandboxEdit) ReportEdit {
		return Sandbox("box-7", "uid-9", append([]SandboxEdit{OfPod("web-9"), with5}, edits...)...)
	}
	leftover := Attachment("box-7", "uid-9", time.Hour, nil, Address("10.0.0.5", ""))
	closedLeftover := Attachment("box-7", "uid-9", time.Minute, Closed, Address("10.0.0.5", ""))
	held := decision{judge.Held, judge.NoFreshReportReason, false}
	expectReservations(t, All(empty, reserved), []decisionCase{
		{"a leftover in a cache, while another node has no fresh report", decision{judge.Held, judge.AttachedReason, false},
			[]Part{noFreshReport, FreshReport("worker-2", leftover)}},
		{"a closed leftover in a cache; another node has no fresh report", held, []Part{noFreshReport, FreshReport("worker-2",
			closedLeftover)}},
		{"a stopped sandbox, while another node has no fresh report", held, []Part{noFreshReport, FreshReport("worker-2",
			stranger(NotReady(Closed)))}},
		{"a stopped sandbox, while the terminating pod's node has no fresh report", held,
			[]Part{noFreshReport, FreshReport("worker-2", stranger(NotReady(Closed))), UsualPod(DeletedAgo(0))}},
		{"a stopped sandbox, while the live pod's status is not there", decision{judge.Held, judge.NetworkStatusMissing,
			false}, []Part{oneReports, FreshReport("worker-2", stranger(NotReady(Closed))), UsualPod(NoNetworkStatus)}},
		{"a stopped sandbox, the pod is Pending, and its node has no fresh report",
			decision{judge.InUse, judge.PodPending, false},
			[]Part{noFreshReport, FreshReport("worker-2", stranger(NotReady(Closed))), UsualPod(Phase("Pending"))}},
		{"a closed leftover in a cache, and all nodes have fresh reports", decision{judge.Stale, judge.PodGone, false},
			[]Part{oneReports, FreshReport("worker-2", closedLeftover)}},
		{"a leftover in a cache, and all nodes have fresh reports", decision{judge.Held, judge.AttachedReason, false},
			[]Part{oneReports, FreshReport("worker-2", leftover)}},
		{"a running sandbox is evidence of use", decision{judge.Held, judge.PhantomPod, false},
			[]Part{noFreshReport, FreshReport("worker-2", stranger())}},
		{"a sandbox that is not known to be closed is evidence of use", decision{judge.Held, judge.SandboxNotReady, false},
			[]Part{noFreshReport, FreshReport("worker-2", stranger(NotReady(nil)))}},
	})
	t.Run("a stopped sandbox is no evidence", func(t *testing.T) {
		it := expectReservation(t, "10.0.0.5", decision{judge.Stale, judge.AddressNotOnPod, false}, empty, reserved,
			oneReports, FreshReport("worker-2", stranger(NotReady(Closed))), UsualPod())
		if got := it.Evidence().Sandbox; got != judge.Absent {
			t.Errorf("its sandbox is %s", got)
		}
	})
}

// Its sandbox may be the one of any of them, and one node's report of its end does not speak for the others.
func TestTheNodesOfAllEarlierPodsOfTheNameAreAsked(t *testing.T) {
	nodes := All(Node("worker-1"), Node("worker-2"), Node("worker-3"), FreshReport("worker-2"))
	ended := All(UsualPool, nodes, FreshReport("worker-3", gone1))
	seen := func(o *Observed) {
		var known reconciler.Known
		for i, node := range []string{"worker-1", "worker-2"} {
			before := Observe(At(Now.Add(time.Duration(i-2)*time.Minute)), UsualPool, nodes, UsualPod(OnNode(node),
				UID(fmt.Sprint("uid-", i))))
			before.Past = known
			known = known.After(Judged(before, facts.Policy{}).Judgement)
		}
		o.Past = known
	}
	expectVerdict(t, decision{judge.Held, judge.NoFreshReportReason, false}, ended, seen)
	expectVerdict(t, decision{judge.Stale, judge.PodGone, false}, ended, FreshReport("worker-1"), seen)
}
