package reconciler

import (
	"slices"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// The address of a pod that is starting, ending or just deleted is on no pod, so
// that asking the right nodes is all that protects it.
func TestThePodsOwnNodeIsAlwaysAsked(t *testing.T) {
	unheard := outcome{judge.Held, judge.NoFreshReportReason, false, judge.NoFreshReport}
	there, selected := onNode("worker-2"), all(aNode("worker-1"), freshReport("worker-1"))
	nodes := all(selected, aNode("worker-2", noAgentRuns))
	for _, c := range []struct {
		says  string
		want  outcome
		parts []part
	}{
		{"a Pending pod on a node that no selector selects", outcome{judge.InUse, judge.PodPending, false, judge.NoFreshReport}, []part{nodes, web(phaseIs("Pending"), there)}},
		{"a live pod whose status does not have the address yet", unheard, []part{nodes, web(there)}},
		{"a live pod without a status", unheard, []part{nodes, web(there, noStatusAtAll)}},
		{"a terminating pod", unheard, []part{nodes, web(there, deletedAgo(0))}},
		{"a finished pod that kubelet did not report stopped", unheard, []part{nodes, web(there, phaseIs("Failed"))}},
		{"a pod that was just deleted and seen carrying the address", unheard, []part{nodes, seenWhile(usualPool, nodes, web(there, carrying("10.0.0.5")))}},
		{"a pod that was just deleted, on a node of which there is an old report", unheard, []part{nodes, staleReport("worker-2")}},
		{"a node of which there is an old report, and that no selector selects", unheard, []part{nodes, staleReport("worker-2"), web(deletedAgo(0))}},
		{"a node where another pod carries the address that is gone by now", unheard,
			[]part{nodes, seenWhile(usualPool, nodes, aPod("web-1", uid("uid-9"), there, carrying("10.0.0.5")))}},
		{"the terminating pod's node, although a node that is heard was seen with it", unheard,
			[]part{nodes, seenWhile(usualPool, nodes, web(carrying("10.0.0.5"))), web(there, uid("uid-9"), deletedAgo(0))}},
		{"every node, although the pod was seen carrying the address on one that is heard", unheard,
			[]part{selected, aNode("worker-2"), seenWhile(usualPool, selected, web(carrying("10.0.0.5")))}},
		{"the pod's node, although a dead one had the sandbox", unheard,
			[]part{aNode("worker-1", notReadyFor(time.Hour), outOfService), staleReport("worker-1", box("box-1", unsaid)), aNode("worker-2"), web(there, deletedAgo(0))}},
		{"the pod's node, although one that is missing had the sandbox", unheard,
			[]part{staleReport("worker-1", box("box-1", unsaid)), aNode("worker-2"), web(there, deletedAgo(0))}},
	} {
		t.Run(c.says, func(t *testing.T) {
			expect(t, c.want, append([]part{usualPool}, c.parts...)...)
			if got := nodesIn(t, append([]part{usualPool}, c.parts...)...); !slices.Contains(got, "worker-2") {
				t.Errorf("worker-2 is not asked, only %v", got)
			}
		})
	}
	t.Run("what a dead node had is not proven where the pod's node could run it too", func(t *testing.T) {
		expect(t, outcome{judge.Stale, judge.NodeDeadReason, false, judge.NodeDead}, usualPool, aNode("worker-1", notReadyFor(time.Hour), outOfService),
			staleReport("worker-1", box("box-1", unsaid)), aNode("worker-2"), freshReport("worker-2"), web(there, deletedAgo(0)))
	})
}

// network_name "worker-1" and the slice of worker-1 give a pool the same name.
func TestANameNeverNarrows(t *testing.T) {
	held := outcome{judge.Held, judge.NoFreshReportReason, false, judge.NoFreshReport}
	heard := all(three, freshReport("worker-1"), staleReport("worker-2"), staleReport("worker-3"))
	for _, name := range []string{"worker-1-10.0.0.0-28", "red-worker-1-10.0.0.0-28"} {
		pool := aPool(name, "10.0.0.0/28", usual)
		t.Run(name+": its name alone", func(t *testing.T) {
			expect(t, held, pool, heard)
			if got := nodesIn(t, pool, heard); !slices.Equal(got, []string{"worker-1", "worker-2", "worker-3"}) {
				t.Errorf("asked are %v", got)
			}
		})
		t.Run(name+": a definition without slices", func(t *testing.T) {
			expect(t, held, pool, heard, aNAD("wb", whereabouts("10.0.0.0/28", "worker-1")))
		})
		t.Run(name+": without agents, a node that is not Ready counts", func(t *testing.T) {
			expect(t, outcome{judge.Held, judge.NodeUnreachable, false, judge.NoSource}, pool, aNode("worker-1"), aNode("worker-2", notReadyFor(time.Hour)))
		})
	}
	slice, sliced := aPool("worker-1-10.0.0.0-28", "10.0.0.0/28", usual), aNAD("wb", whereabouts("10.0.0.0/24", "", `"node_slice_size":"/28"`))
	t.Run("a definition that cuts slices does", func(t *testing.T) {
		expect(t, outcome{judge.Stale, judge.PodGone, false, judge.Absent}, slice, sliced, heard)
	})
	t.Run("but not beside the pod's own node", func(t *testing.T) {
		expect(t, held, slice, sliced, heard, web(onNode("worker-2"), deletedAgo(0)))
		if got := nodesIn(t, slice, sliced, heard, web(onNode("worker-2"), deletedAgo(0))); !slices.Equal(got, []string{"worker-1", "worker-2"}) {
			t.Errorf("asked are %v", got)
		}
	})
	t.Run("and not where it cuts another range", func(t *testing.T) {
		expect(t, held, slice, heard, aNAD("wb", whereabouts("10.9.0.0/24", "", `"node_slice_size":"/28"`)))
	})
}

// What was seen with the address of a reservation may be anybody's.
func TestAReservationThatStandsAloneIsNeverNarrowedByStrangers(t *testing.T) {
	pool, res := aPool("10.0.0.0-24", "10.0.0.0/24"), aReservation("10.0.0.5", "default/web-0", old)
	unheard := all(aNode("worker-1"), staleReport("worker-1"), aNode("worker-2"))
	heard := all(aNode("worker-1"), freshReport("worker-1"), aNode("worker-2"))
	stranger := func(edits ...boxEdit) content {
		return box("box-7", "uid-9", append([]boxEdit{of("web-9"), holding("10.0.0.5", "")}, edits...)...)
	}
	leftover := attachment("box-7", "uid-9", time.Hour, nil, address("10.0.0.5", ""))
	closedLeftover := attachment("box-7", "uid-9", time.Minute, closed, address("10.0.0.5", ""))
	held := resOutcome{judge.Held, judge.NoFreshReportReason, false}
	for _, c := range []struct {
		says  string
		want  resOutcome
		parts []part
	}{
		{"a leftover in a cache, while another node is not heard", held, []part{unheard, freshReport("worker-2", leftover)}},
		{"a closed leftover in a cache, while another node is not heard", held, []part{unheard, freshReport("worker-2", closedLeftover)}},
		{"a stopped sandbox, while another node is not heard", held, []part{unheard, freshReport("worker-2", stranger(notReady(closed)))}},
		{"a stopped sandbox, while the terminating pod's node is not heard", held,
			[]part{unheard, freshReport("worker-2", stranger(notReady(closed))), web(deletedAgo(0))}},
		{"a stopped sandbox, while the live pod's status is not there", resOutcome{judge.Held, judge.NetworkStatusMissing, false},
			[]part{heard, freshReport("worker-2", stranger(notReady(closed))), web(noStatusAtAll)}},
		{"a stopped sandbox, while the pod is Pending and its node not heard", resOutcome{judge.InUse, judge.PodPending, false},
			[]part{unheard, freshReport("worker-2", stranger(notReady(closed))), web(phaseIs("Pending"))}},
		{"a leftover in a cache, and all nodes are heard", resOutcome{judge.Stale, judge.PodGone, false}, []part{heard, freshReport("worker-2", leftover)}},
		{"a running sandbox is evidence of use", resOutcome{judge.Held, judge.PhantomPod, false}, []part{unheard, freshReport("worker-2", stranger())}},
		{"a sandbox that is not known to be closed is evidence of use", resOutcome{judge.Held, judge.SandboxNotReady, false}, []part{unheard, freshReport("worker-2", stranger(notReady(nil)))}},
	} {
		t.Run(c.says, func(t *testing.T) { expectReservation(t, "10.0.0.5", c.want, append([]part{pool, res}, c.parts...)...) })
	}
	t.Run("a stopped sandbox is no evidence", func(t *testing.T) {
		it := expectReservation(t, "10.0.0.5", resOutcome{judge.Stale, judge.AddressNotOnPod, false}, pool, res, heard, freshReport("worker-2", stranger(notReady(closed))), web())
		if got := it.Evidence().Sandbox; got != judge.Absent {
			t.Errorf("its sandbox is %s", got)
		}
	})
}
