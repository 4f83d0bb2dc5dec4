package reconciler

import (
	"slices"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Which nodes could run the sandbox: those must have a fresh report.

func nodesIn(t *testing.T, parts ...part) []string {
	t.Helper()
	return allocation(t, judged(observe(parts...), judge.Policy{}), "10.0.0.5").Evidence().Nodes
}

// seenWhile puts what an earlier pass, an hour ago, saw into the past.
func seenWhile(parts ...part) part {
	return func(o *observed) {
		before := observe(append([]part{at(now.Add(-time.Hour))}, parts...)...)
		h := NewHistory()
		h.Remember(judged(before, judge.Policy{}))
		o.past = h
	}
}

// sliced is the definition of a network that is cut into slices.
func sliced(network string) part {
	return aNAD("sliced"+network, whereabouts("10.0.0.0/24", network, `"node_slice_size":"/28"`))
}

var three = all(aNode("worker-1"), aNode("worker-2"), aNode("worker-3"))

func TestTheNodeThatCouldRunIt(t *testing.T) {
	slice := func(name string) part { return aPool(name, "10.0.0.0/28", usual) }
	windows := aNode("win", label("kubernetes.io/os", "windows"))
	for _, c := range []struct {
		says  string
		want  []string
		parts []part
	}{
		{"the one whose last report has the id, a stale one included", []string{"worker-2"},
			[]part{usualPool, three, freshReport("worker-1"), staleReport("worker-2", box("box-1", its1)), freshReport("worker-3")}},
		{"that one, even where the pool is another node's slice", []string{"worker-2"},
			[]part{slice("worker-1-10.0.0.0-28"), three, freshReport("worker-1"), staleReport("worker-2", box("box-1", its1))}},
		{"that one, and where the pod carries the address", []string{"worker-1", "worker-2"},
			[]part{usualPool, web(carrying("10.0.0.5")), three, staleReport("worker-2", box("box-1", its1)), freshReport("worker-1")}},
		{"the node of the slice, by a definition", []string{"worker-2"}, []part{slice("worker-2-10.0.0.0-28"), sliced(""), three, freshReport("worker-1")}},
		{"every node, where only the pool's name looks like a slice's", []string{"worker-1", "worker-2", "worker-3"}, []part{slice("worker-2-10.0.0.0-28"), three, freshReport("worker-1")}},
		{"every node, where the definition is of another network", []string{"worker-1", "worker-2", "worker-3"}, []part{slice("worker-2-10.0.0.0-28"), sliced("red"), three, freshReport("worker-1")}},
		{"the node of the slice of a named network", []string{"worker-2"}, []part{slice("red-worker-2-10.0.0.0-28"), sliced("red"), three, freshReport("worker-1")}},
		{"every node whose name fits the slice's, by two definitions", []string{"a-b", "b"},
			[]part{slice("a-b-10.0.0.0-28"), sliced(""), sliced("a"), aNode("a-b"), aNode("b"), aNode("c"), freshReport("c")}},
		{"the node of the slice, and where the pod carries the address", []string{"worker-1", "worker-2"},
			[]part{slice("worker-2-10.0.0.0-28"), sliced(""), web(carrying("10.0.0.5")), three, freshReport("worker-1")}},
		{"every node, where the slice's has no Node object any more", []string{"worker-1", "worker-2", "worker-3"},
			[]part{slice("worker-9-10.0.0.0-28"), sliced(""), three, freshReport("worker-1")}},
		{"the slice's node by its report, where there are no Node objects", []string{"worker-2"},
			[]part{slice("worker-2-10.0.0.0-28"), sliced(""), freshReport("worker-1"), staleReport("worker-2")}},
		{"every node, and that of the pod that carries the address", []string{"win", "worker-1", "worker-2", "worker-3"},
			[]part{usualPool, web(onNode("win"), deletedAgo(0), carrying("10.0.0.5")), three, windows, freshReport("worker-1")}},
		{"every node, and that of the pod by that name, Pending", []string{"win", "worker-1", "worker-2", "worker-3"},
			[]part{usualPool, web(onNode("win"), phaseIs("Pending")), three, windows, freshReport("worker-1")}},
		{"every node, and that of another pod that carries the address", []string{"win", "worker-1", "worker-2", "worker-3"},
			[]part{usualPool, aPod("web-1", onNode("win"), carrying("10.0.0.5")), three, windows, freshReport("worker-1")}},
		{"every node, and that of the pod that was there", []string{"win", "worker-1", "worker-2", "worker-3"},
			[]part{usualPool, seenWhile(usualPool, web(onNode("win"))), three, windows, freshReport("worker-1")}},
		{"every node, and that of the pod that was seen carrying the address", []string{"win", "worker-1", "worker-2", "worker-3"},
			[]part{usualPool, seenWhile(usualPool, all(three, freshReport("worker-1")), aPod("web-1", onNode("win"), carrying("10.0.0.5"))), three, windows, freshReport("worker-1")}},
		{"every node, where what was seen was another entry", []string{"worker-1", "worker-2", "worker-3"},
			[]part{usualPool, seenWhile(aPool("10.0.0.0-24", "10.0.0.0/24", alloc{"5", "default/web-0", "box-0", "net1"}), web(onNode("win"), carrying("10.0.0.5"))),
				three, windows, freshReport("worker-1")}},
		{"every node, one with a report though no agent is meant to be there", []string{"win", "worker-1", "worker-2", "worker-3"},
			[]part{usualPool, three, windows, staleReport("win")}},
		{"every node, where the pod is finished: its addresses are never read", []string{"worker-1", "worker-2", "worker-3"},
			[]part{usualPool, web(phaseIs("Failed"), carrying("10.0.0.5")), three, freshReport("worker-1")}},
		{"every node but the dead and those with no agent", []string{"worker-1"},
			[]part{usualPool, aNode("worker-1"), aNode("dead", notReadyFor(time.Hour), outOfService), aNode("win", label("kubernetes.io/os", "windows")), freshReport("worker-1")}},
		{"no node that is missing, though its last report is there", []string{"worker-1"},
			[]part{usualPool, aNode("worker-1"), freshReport("worker-1"), staleReport("worker-9")}},
		{"not the one that names the id as gone in a stale report", []string{"worker-1", "worker-2", "worker-3"},
			[]part{usualPool, three, staleReport("worker-2", gone("box-1", its1)), freshReport("worker-1")}},
		{"without reports, the pod's own", []string{"worker-2"}, []part{usualPool, three, web(onNode("worker-2"), deletedAgo(0))}},
		{"without reports, the finished pod's own", []string{"worker-2"}, []part{usualPool, three, web(onNode("worker-2"), phaseIs("Failed"))}},
		{"without reports and pod, the slice's", []string{"worker-3"}, []part{slice("worker-3-10.0.0.0-28"), sliced(""), three}},
		{"without reports and pod, every node", []string{"worker-1", "worker-2", "worker-3"}, []part{usualPool, three}},
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
	slice := all(aPool("a-b-10.0.0.0-28", "10.0.0.0/28", usual), sliced(""), sliced("a")) // a-b's, or b's in network "a"
	dead := func(name string) part { return aNode(name, notReadyFor(time.Hour), outOfService) }
	for _, c := range []stateCase{
		{"both are heard", judge.Absent, []part{aNode("a-b"), aNode("b"), freshReport("a-b"), freshReport("b")}},
		{"one is not heard", judge.NoFreshReport, []part{aNode("a-b"), aNode("b"), freshReport("a-b"), staleReport("b")}},
		{"both are dead", judge.NodeDead, []part{dead("a-b"), dead("b"), staleReport("a-b")}},
		{"one is dead, the other heard", judge.NodeDead, []part{dead("a-b"), aNode("b"), freshReport("b")}},
		{"one is dead, the other not heard", judge.NoFreshReport, []part{dead("a-b"), aNode("b"), staleReport("b")}},
	} {
		t.Run(c.says+": "+c.want.String(), func(t *testing.T) {
			it := allocation(t, judged(observe(append([]part{slice}, c.parts...)...), judge.Policy{}), "10.0.0.5")
			if it.Evidence().Sandbox != c.want {
				t.Errorf("got %s", it.Evidence().Sandbox)
			}
		})
	}
	t.Run("one unheard node that is not Ready and one that is: NoFreshReport", func(t *testing.T) {
		expect(t, outcome{judge.Held, judge.NoFreshReportReason, false, judge.NoFreshReport}, usualPool, aNode("worker-1", notReadyFor(time.Hour)), aNode("worker-2"), staleReport("worker-1"))
	})
	t.Run("one unheard node that is not Ready and one that is heard: NodeUnreachable", func(t *testing.T) {
		expect(t, outcome{judge.Held, judge.NodeUnreachable, false, judge.NoFreshReport}, usualPool,
			aNode("worker-1", notReadyFor(time.Hour)), aNode("worker-2"), staleReport("worker-1"), freshReport("worker-2"))
	})
	t.Run("every node is dead, so that none could run it: NoFreshReport", func(t *testing.T) {
		expect(t, outcome{judge.Held, judge.NoFreshReportReason, false, judge.NoFreshReport}, usualPool, dead("worker-1"), staleReport("worker-1"))
	})
	t.Run("no node at all is not unreachable", func(t *testing.T) {
		expect(t, outcome{judge.Held, judge.NoFreshReportReason, false, judge.NoFreshReport}, usualPool, func(o *observed) { o.ReportsUnreadable = true })
	})
}

// Without agents, one node that is not Ready and could run it is enough.
func TestNoPodAndNoAgents(t *testing.T) {
	stale, held := outcome{judge.Stale, judge.PodGone, false, judge.NoSource}, outcome{judge.Held, judge.NodeUnreachable, false, judge.NoSource}
	for says, c := range map[string]struct {
		want  outcome
		parts []part
	}{
		"all nodes are Ready":                           {stale, []part{three}},
		"one of them is not Ready":                      {held, []part{three, aNode("worker-4", notReadyFor(time.Minute))}},
		"the one that is not Ready is proven dead":      {stale, []part{three, aNode("worker-4", notReadyFor(time.Hour), outOfService)}},
		"the one that is not Ready runs no agent":       {stale, []part{three, aNode("win", notReadyFor(time.Hour), label("kubernetes.io/os", "windows"))}},
		"nodes may not be listed":                       {stale, nil},
		"the pod was seen on another node that is":      {held, []part{three, aNode("worker-4", notReadyFor(time.Hour)), seenWhile(usualPool, web(onNode("worker-2"), carrying("10.0.0.5")))}},
		"the pod was seen on the node that is not":      {held, []part{three, aNode("worker-4", notReadyFor(time.Hour)), seenWhile(usualPool, web(onNode("worker-4"), carrying("10.0.0.5")))}},
		"the pod was seen on a node that has gone away": {stale, []part{three, seenWhile(usualPool, web(onNode("worker-9"), carrying("10.0.0.5")))}},
	} {
		t.Run(says, func(t *testing.T) { expect(t, c.want, append([]part{usualPool}, c.parts...)...) })
	}
}
