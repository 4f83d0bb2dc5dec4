package judge_test

import (
	"slices"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// Which nodes could run the sandbox: those must have a fresh report.

func nodesIn(t *testing.T, parts ...Part) []string {
	t.Helper()
	return AllocationOf(t, Judged(Observe(parts...), judge.Policy{}), "10.0.0.5").Evidence().Nodes
}

// afterPassOver puts what an earlier pass, an hour ago, saw into the past.
func afterPassOver(parts ...Part) Part {
	return func(o *Observed) {
		before := Observe(append([]Part{At(Now.Add(-time.Hour))}, parts...)...)
		h := reconciler.NewHistory()
		h.Remember(Judged(before, judge.Policy{}))
		o.Past = h
	}
}

// sliced is the definition of a network that is cut into slices.
func sliced(network string) Part {
	return NAD("sliced"+network, WhereaboutsConfig("10.0.0.0/24", network, `"node_slice_size":"/28"`))
}

var threeNodes = All(Node("worker-1"), Node("worker-2"), Node("worker-3"))

func TestTheNodeThatCouldRunIt(t *testing.T) {
	slice := func(name string) Part { return Pool(name, "10.0.0.0/28", UsualAllocation) }
	windows := Node("win", Label("kubernetes.io/os", "windows"))
	for _, c := range []struct {
		says  string
		want  []string
		parts []Part
	}{
		{"the one whose last report has the id, a stale one included", []string{"worker-2"},
			[]Part{UsualPool, threeNodes, FreshReport("worker-1"), StaleReport("worker-2", Sandbox("box-1", UsualUID)), FreshReport("worker-3")}},
		{"that one, even where the pool is another node's slice", []string{"worker-2"},
			[]Part{slice("worker-1-10.0.0.0-28"), threeNodes, FreshReport("worker-1"), StaleReport("worker-2", Sandbox("box-1", UsualUID))}},
		{"that one, and where the pod carries the address", []string{"worker-1", "worker-2"},
			[]Part{UsualPool, UsualPod(Carrying("10.0.0.5")), threeNodes, StaleReport("worker-2", Sandbox("box-1", UsualUID)), FreshReport("worker-1")}},
		{"the node of the slice, by a definition", []string{"worker-2"}, []Part{slice("worker-2-10.0.0.0-28"), sliced(""), threeNodes, FreshReport("worker-1")}},
		{"every node, where only the pool's name looks like a slice's", []string{"worker-1", "worker-2", "worker-3"}, []Part{slice("worker-2-10.0.0.0-28"), threeNodes, FreshReport("worker-1")}},
		{"every node, where the definition is of another network", []string{"worker-1", "worker-2", "worker-3"}, []Part{slice("worker-2-10.0.0.0-28"), sliced("red"), threeNodes, FreshReport("worker-1")}},
		{"the node of the slice of a named network", []string{"worker-2"}, []Part{slice("red-worker-2-10.0.0.0-28"), sliced("red"), threeNodes, FreshReport("worker-1")}},
		{"every node whose name fits the slice's, by two definitions", []string{"a-b", "b"},
			[]Part{slice("a-b-10.0.0.0-28"), sliced(""), sliced("a"), Node("a-b"), Node("b"), Node("c"), FreshReport("c")}},
		{"the node of the slice, and where the pod carries the address", []string{"worker-1", "worker-2"},
			[]Part{slice("worker-2-10.0.0.0-28"), sliced(""), UsualPod(Carrying("10.0.0.5")), threeNodes, FreshReport("worker-1")}},
		{"every node, where the slice's has no Node object any more", []string{"worker-1", "worker-2", "worker-3"},
			[]Part{slice("worker-9-10.0.0.0-28"), sliced(""), threeNodes, FreshReport("worker-1")}},
		{"the slice's node by its report, where there are no Node objects", []string{"worker-2"},
			[]Part{slice("worker-2-10.0.0.0-28"), sliced(""), FreshReport("worker-1"), StaleReport("worker-2")}},
		{"every node, and that of the pod that carries the address", []string{"win", "worker-1", "worker-2", "worker-3"},
			[]Part{UsualPool, UsualPod(OnNode("win"), DeletedAgo(0), Carrying("10.0.0.5")), threeNodes, windows, FreshReport("worker-1")}},
		{"every node, and that of the pod by that name, Pending", []string{"win", "worker-1", "worker-2", "worker-3"},
			[]Part{UsualPool, UsualPod(OnNode("win"), Phase("Pending")), threeNodes, windows, FreshReport("worker-1")}},
		{"every node, and that of another pod that carries the address", []string{"win", "worker-1", "worker-2", "worker-3"},
			[]Part{UsualPool, Pod("web-1", OnNode("win"), Carrying("10.0.0.5")), threeNodes, windows, FreshReport("worker-1")}},
		{"every node, and that of the pod that was there", []string{"win", "worker-1", "worker-2", "worker-3"},
			[]Part{UsualPool, afterPassOver(UsualPool, UsualPod(OnNode("win"))), threeNodes, windows, FreshReport("worker-1")}},
		{"every node, and that of the pod that was seen carrying the address", []string{"win", "worker-1", "worker-2", "worker-3"},
			[]Part{UsualPool, afterPassOver(UsualPool, All(threeNodes, FreshReport("worker-1")), Pod("web-1", OnNode("win"), Carrying("10.0.0.5"))), threeNodes, windows, FreshReport("worker-1")}},
		{"every node, where what was seen was another entry", []string{"worker-1", "worker-2", "worker-3"},
			[]Part{UsualPool, afterPassOver(Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/web-0", "box-0", "net1")), UsualPod(OnNode("win"), Carrying("10.0.0.5"))),
				threeNodes, windows, FreshReport("worker-1")}},
		{"every node, one with a report though no agent is meant to be there", []string{"win", "worker-1", "worker-2", "worker-3"},
			[]Part{UsualPool, threeNodes, windows, StaleReport("win")}},
		{"every node, where the pod is finished: its addresses are never read", []string{"worker-1", "worker-2", "worker-3"},
			[]Part{UsualPool, UsualPod(Phase("Failed"), Carrying("10.0.0.5")), threeNodes, FreshReport("worker-1")}},
		{"every node but the dead and those with no agent", []string{"worker-1"},
			[]Part{UsualPool, Node("worker-1"), Node("dead", NotReadyFor(time.Hour), OutOfService), Node("win", Label("kubernetes.io/os", "windows")), FreshReport("worker-1")}},
		{"no node that is missing, though its last report is there", []string{"worker-1"},
			[]Part{UsualPool, Node("worker-1"), FreshReport("worker-1"), StaleReport("worker-9")}},
		{"not the one that names the id as gone in a stale report", []string{"worker-1", "worker-2", "worker-3"},
			[]Part{UsualPool, threeNodes, StaleReport("worker-2", Gone("box-1", UsualUID)), FreshReport("worker-1")}},
		{"without reports, the pod's own", []string{"worker-2"}, []Part{UsualPool, threeNodes, UsualPod(OnNode("worker-2"), DeletedAgo(0))}},
		{"without reports, the finished pod's own", []string{"worker-2"}, []Part{UsualPool, threeNodes, UsualPod(OnNode("worker-2"), Phase("Failed"))}},
		{"without reports and pod, the slice's", []string{"worker-3"}, []Part{slice("worker-3-10.0.0.0-28"), sliced(""), threeNodes}},
		{"without reports and pod, every node", []string{"worker-1", "worker-2", "worker-3"}, []Part{UsualPool, threeNodes}},
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
	slice := All(Pool("a-b-10.0.0.0-28", "10.0.0.0/28", UsualAllocation), sliced(""), sliced("a")) // a-b's, or b's in network "a"
	dead := func(name string) Part { return Node(name, NotReadyFor(time.Hour), OutOfService) }
	for _, c := range []stateCase{
		{"both are heard", judge.Absent, []Part{Node("a-b"), Node("b"), FreshReport("a-b"), FreshReport("b")}},
		{"one is not heard", judge.NoFreshReport, []Part{Node("a-b"), Node("b"), FreshReport("a-b"), StaleReport("b")}},
		{"both are dead", judge.NodeDead, []Part{dead("a-b"), dead("b"), StaleReport("a-b")}},
		{"one is dead, the other heard", judge.NodeDead, []Part{dead("a-b"), Node("b"), FreshReport("b")}},
		{"one is dead, the other not heard", judge.NoFreshReport, []Part{dead("a-b"), Node("b"), StaleReport("b")}},
	} {
		t.Run(c.says+": "+c.want.String(), func(t *testing.T) {
			it := AllocationOf(t, Judged(Observe(append([]Part{slice}, c.parts...)...), judge.Policy{}), "10.0.0.5")
			if it.Evidence().Sandbox != c.want {
				t.Errorf("got %s", it.Evidence().Sandbox)
			}
		})
	}
	t.Run("two nodes without a fresh report, one of them not Ready: NoFreshReport", func(t *testing.T) {
		Expect(t, Want(judge.Held, judge.NoFreshReportReason, false, judge.NoFreshReport), UsualPool, Node("worker-1", NotReadyFor(time.Hour)), Node("worker-2"), StaleReport("worker-1"))
	})
	t.Run("one node without a fresh report, not Ready, and one with: NodeUnreachable", func(t *testing.T) {
		Expect(t, Want(judge.Held, judge.NodeUnreachable, false, judge.NoFreshReport), UsualPool,
			Node("worker-1", NotReadyFor(time.Hour)), Node("worker-2"), StaleReport("worker-1"), FreshReport("worker-2"))
	})
	t.Run("every node is dead, so that none could run it: NoFreshReport", func(t *testing.T) {
		Expect(t, Want(judge.Held, judge.NoFreshReportReason, false, judge.NoFreshReport), UsualPool, dead("worker-1"), StaleReport("worker-1"))
	})
	t.Run("no node at all is not unreachable", func(t *testing.T) {
		Expect(t, Want(judge.Held, judge.NoFreshReportReason, false, judge.NoFreshReport), UsualPool, func(o *Observed) { o.ReportsUnreadable = true })
	})
}

// Without agents, one node that is not Ready and could run it is enough.
func TestNoPodAndNoAgents(t *testing.T) {
	stale, held := Want(judge.Stale, judge.PodGone, false, judge.NoSource), Want(judge.Held, judge.NodeUnreachable, false, judge.NoSource)
	for says, c := range map[string]struct {
		want  Outcome
		parts []Part
	}{
		"all nodes are Ready":                           {stale, []Part{threeNodes}},
		"one of them is not Ready":                      {held, []Part{threeNodes, Node("worker-4", NotReadyFor(time.Minute))}},
		"the one that is not Ready is proven dead":      {stale, []Part{threeNodes, Node("worker-4", NotReadyFor(time.Hour), OutOfService)}},
		"the one that is not Ready runs no agent":       {stale, []Part{threeNodes, Node("win", NotReadyFor(time.Hour), Label("kubernetes.io/os", "windows"))}},
		"nodes may not be listed":                       {stale, nil},
		"the pod was seen on another node that is":      {held, []Part{threeNodes, Node("worker-4", NotReadyFor(time.Hour)), afterPassOver(UsualPool, UsualPod(OnNode("worker-2"), Carrying("10.0.0.5")))}},
		"the pod was seen on the node that is not":      {held, []Part{threeNodes, Node("worker-4", NotReadyFor(time.Hour)), afterPassOver(UsualPool, UsualPod(OnNode("worker-4"), Carrying("10.0.0.5")))}},
		"the pod was seen on a node that has gone away": {stale, []Part{threeNodes, afterPassOver(UsualPool, UsualPod(OnNode("worker-9"), Carrying("10.0.0.5")))}},
	} {
		t.Run(says, func(t *testing.T) { Expect(t, c.want, append([]Part{UsualPool}, c.parts...)...) })
	}
}
