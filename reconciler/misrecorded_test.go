package reconciler

import (
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// The usual entry is of default/web-0, sandbox box-1 on worker-1. Here box-7 of
// default/web-7 runs on worker-2 with its address.
func TestMisrecorded(t *testing.T) {
	nodes := all(aNode("worker-1"), aNode("worker-2"))
	runs := freshReport("worker-2", box("box-7", "uid-7", of("web-7"), holding("10.0.0.5", "")))
	runner := aPod("web-7", uid("uid-7"), onNode("worker-2"))
	quiet := freshReport("worker-1")
	expectFindings(t, judge.Misrecorded, []findingCase{
		{"the entry's sandbox is known to no node", 1, []part{usualPool, nodes, runner, runs, quiet}},
		{"its pod of the past is live in the API, with the address", 1, []part{usualPool, nodes, web(carrying("10.0.0.5")), runner, runs, quiet}},
		{"its pod of the past is Pending", 1, []part{usualPool, nodes, web(phaseIs("Pending")), runner, runs, quiet}},
		{"its sandbox has gone", 1, []part{usualPool, nodes, runner, runs, freshReport("worker-1", gone("box-1", its1))}},
		{"its sandbox has stopped", 1, []part{usualPool, nodes, runner, runs, freshReport("worker-1", box("box-1", its1, notReady(closed)))}},
		{"its node is out of service", 1, []part{usualPool, aNode("worker-1", notReadyFor(time.Hour), outOfService), aNode("worker-2"), web(), runner, runs}},
		{"the API does not have the pod that runs", 1, []part{usualPool, nodes, runs, quiet}},
		{"a StatefulSet's successor carries its predecessor's address", 1, []part{usualPool, nodes, web(uid("uid-2")),
			freshReport("worker-1", box("box-2", "uid-2", holding("10.0.0.5", "")), gone("box-1", its1)), freshReport("worker-2")}},
		{"a slice's entry: the range that is cached is the whole one", 1, []part{
			aPool("worker-2-10.0.0.0-28", "10.0.0.0/28", usual), nodes, runner, runs, quiet}},

		{"the entry names the one that runs", 0, []part{usualPool, nodes, web(), freshReport("worker-1", box("box-1", its1, holding("10.0.0.5", ""))), freshReport("worker-2")}},
		{"both run: a Conflict", 0, []part{usualPool, nodes, runner, runs, freshReport("worker-1", box("box-1", its1, holding("10.0.0.5", "")))}},
		{"the entry's sandbox runs, and nothing tells its addresses", 0, []part{usualPool, nodes, runner, runs, freshReport("worker-1", box("box-1", its1))}},
		{"two others run with it: a Conflict", 0, []part{usualPool, nodes, runs, freshReport("worker-1", box("box-8", "uid-8", holding("10.0.0.5", "")))}},
		{"a node that could run the entry's sandbox is not heard", 0, []part{usualPool, nodes, runner, runs, staleReport("worker-1")}},
		{"the entry's sandbox is being set up", 0, []part{usualPool, nodes, runner, runs, freshReport("worker-1", attachment("box-1", its1, time.Minute, open))}},
		{"its network may still be there", 0, []part{usualPool, nodes, runner, runs, freshReport("worker-1", box("box-1", its1, notReady(nil)))}},
		{"its Node object is gone", 0, []part{usualPool, aNode("worker-2"), web(), runner, runs}},
		{"one node says that it has gone, another that it runs", 0, []part{usualPool, nodes, runner, runs, quiet, aNode("worker-3"),
			freshReport("worker-3", gone("box-1", its1)), reportFrom("worker-1", 10*time.Minute, box("box-1", its1))}},
		{"the one that carries it is no longer ready", 0, []part{usualPool, nodes, runner, quiet,
			freshReport("worker-2", box("box-7", "uid-7", of("web-7"), holding("10.0.0.5", ""), notReady(nil)))}},
		{"it is an attachment that carries it", 0, []part{usualPool, nodes, runner, quiet, freshReport("worker-2", attachment("box-7", "uid-7", time.Minute, open, address("10.0.0.5", "")))}},
		{"it is a minute old at most", 0, []part{usualPool, nodes, runner, quiet,
			freshReport("worker-2", box("box-7", "uid-7", of("web-7"), holding("10.0.0.5", ""), createdAgo(time.Minute)))}},
		{"the report of the one that carries it is stale", 0, []part{usualPool, nodes, runner, quiet,
			staleReport("worker-2", box("box-7", "uid-7", of("web-7"), holding("10.0.0.5", "")))}},
		{"it carries the address in another network", 0, []part{usualPool, nodes, runner, quiet,
			freshReport("worker-2", box("box-7", "uid-7", of("web-7"), holding("10.0.0.5", "red")))}},
		{"only a pod's annotation has the address", 0, []part{usualPool, nodes, aNAD("wb", whereabouts("10.0.0.0/24", "")), quiet, freshReport("worker-2"),
			aPod("web-7", uid("uid-7"), onNode("worker-2"), carrying("10.0.0.5"))}},
		{"the entry cannot be read", 0, []part{aPool("10.0.0.0-24", "10.0.0.0/24", alloc{"5", "nonsense", "box-1", "net1"}), nodes, runner, runs, quiet}},
		{"two entries stand for the address", 0, []part{aPool("10.0.0.0-24", "10.0.0.0/24", usual, alloc{"05", "default/x", "box-x", "net1"}), nodes, runner, runs, quiet}},
		{"there are no agents", 0, []part{usualPool, nodes, runner}},
	})
}

// Who carries an address that is recorded for somebody else keeps it: nothing of it is
// released, whatever is known of the entry's own pod and sandbox.
func TestWhatIsMisrecordedIsNeverStale(t *testing.T) {
	runs := freshReport("worker-2", box("box-7", "uid-7", of("web-7"), holding("10.0.0.5", "")))
	for says, parts := range map[string][]part{
		"its sandbox has gone":               {freshReport("worker-1", gone("box-1", its1))},
		"its pod has finished":               {freshReport("worker-1"), web(phaseIs("Failed"), stoppedByKubelet(time.Hour))},
		"its pod was replaced":               {freshReport("worker-1", gone("box-1", its1)), web(uid("uid-2"))},
		"its pod is live, with no addresses": {freshReport("worker-1"), web()},
	} {
		t.Run(says, func(t *testing.T) {
			o := observe(append(parts, usualPool, aNode("worker-1"), aNode("worker-2"), runs, aReservation("10.0.0.5", "default/web-0", time.Hour))...)
			j := judged(o, judge.Policy{})
			if it := allocation(t, j, "10.0.0.5"); it.Verdict == judge.Stale || len(j.StaleItems()) > 0 {
				t.Errorf("%v: %s", outcomeOf(it), it.Message())
			}
			if n := len(findingsOf(j, judge.Misrecorded)); n != 1 {
				t.Errorf("%d findings", n)
			}
		})
	}
}

func findingsOf(j *judge.Judgement, kind judge.Kind) (found []judge.Finding) {
	for _, f := range j.Findings {
		if f.Kind == kind {
			found = append(found, f)
		}
	}
	return found
}

func TestWhatARepairRewrites(t *testing.T) {
	nodes := all(aNode("worker-1"), aNode("worker-2"))
	runs := freshReport("worker-2", box("box-7", "uid-7", of("web-7"), holding("10.0.0.5", "")))
	for says, c := range map[string]struct {
		pods   part
		podRef string
	}{
		"to a pod that is known":                           {aPod("web-7", uid("uid-7"), onNode("worker-2")), "default/web-7"},
		"to a phantom":                                     {nothing, "default/web-7_uid-7"},
		"to a phantom with a successor":                    {aPod("web-7", uid("uid-8"), onNode("worker-2")), "default/web-7_uid-7"},
		"to a sandbox that another node has of a live pod": {aPod("web-7", uid("uid-7"), onNode("worker-1")), "default/web-7_uid-7"},
	} {
		t.Run(says, func(t *testing.T) {
			found := findingsIn(judge.Misrecorded, usualPool, nodes, runs, freshReport("worker-1"), c.pods)
			if len(found) != 1 || found[0].Repair == nil {
				t.Fatalf("got %+v", found)
			}
			r := found[0].Repair
			if r.Key != "5" || r.ContainerID != "box-7" || r.IfName != "net1" || r.PodRef != c.podRef || r.Instead == nil || r.Instead.ContainerID != "box-1" {
				t.Errorf("got %+v", r)
			}
		})
	}
}

// Behind the fence no ADD or DEL is half done, so that what a report says that was
// renewed since needs no more time.
func TestBehindTheFenceFindingsRestOnReportsOfAfterItStood(t *testing.T) {
	young := box("box-7", "uid-7", of("web-7"), holding("10.0.0.5", ""), createdAgo(5*time.Second))
	renewed := func(ago time.Duration) content {
		return func(r *podstate.Report) { r.Renewed = now.Add(-ago) }
	}
	fence := func(ago time.Duration) part { return func(o *observed) { o.Fenced = now.Add(-ago) } }
	nodes := all(aNode("worker-1"), aNode("worker-2"))
	empty := aPool("10.0.0.0-24", "10.0.0.0/24")
	// Its DEL waits for the fence, and the address is on the wire meanwhile.
	stopping := func(closed *bool) content {
		return box("box-7", "uid-7", of("web-7"), holding("10.0.0.5", ""), notReady(closed))
	}
	ip := v1alpha1.Address{IP: "10.0.0.5", IfName: "net1", Network: "wb", Range: "10.0.0.0/24"}
	for _, c := range []struct {
		says  string
		kind  judge.Kind
		want  int
		parts []part
	}{
		{"without a fence a young sandbox waits", judge.Unrecorded, 0, []part{empty, freshReport("worker-2", young, renewed(0))}},
		{"the report was renewed since", judge.Unrecorded, 1, []part{empty, fence(2 * time.Second), freshReport("worker-2", young, renewed(time.Second))}},
		{"the report was renewed before", judge.Unrecorded, 0, []part{empty, fence(2 * time.Second), freshReport("worker-2", young, renewed(3*time.Second))}},
		{"a sandbox that is stopped and has its network", judge.Unrecorded, 1, []part{empty, fence(2 * time.Second), freshReport("worker-2", stopping(ptr.To(false)), renewed(time.Second))}},
		{"a sandbox that is stopped, and nothing tells of its network", judge.Unrecorded, 1, []part{empty, fence(2 * time.Second), freshReport("worker-2", stopping(nil), renewed(time.Second))}},
		{"a sandbox without its network", judge.Unrecorded, 0, []part{empty, fence(2 * time.Second), freshReport("worker-2", stopping(ptr.To(true)), renewed(time.Second))}},
		{"without a fence a sandbox that is stopped has a DEL to come", judge.Unrecorded, 0, []part{empty, freshReport("worker-2", stopping(ptr.To(false)), renewed(time.Second))}},
		{"one that is being set up", judge.Unrecorded, 1, []part{empty, fence(2 * time.Second), freshReport("worker-2", attachment("box-7", "uid-7", time.Second, nil, ip), renewed(time.Second))}},
		{"a sandbox that is stopped, instead of one of the past", judge.Misrecorded, 1, []part{usualPool, fence(12 * time.Second),
			freshReport("worker-2", stopping(ptr.To(false)), renewed(time.Second)), freshReport("worker-1", renewed(2*time.Second))}},
		{"one that is READY goes before one that is stopped", judge.Misrecorded, 1, []part{usualPool, fence(12 * time.Second),
			freshReport("worker-2", young, box("box-8", "uid-8", of("web-8"), holding("10.0.0.5", ""), notReady(nil)), renewed(time.Second)), freshReport("worker-1", renewed(2*time.Second))}},
		{"all reports were renewed 10 s after it stood", judge.Misrecorded, 1, []part{usualPool, fence(12 * time.Second),
			freshReport("worker-2", young, renewed(time.Second)), freshReport("worker-1", renewed(2*time.Second))}},
		{"the one that carries it was told of too early", judge.Misrecorded, 0, []part{usualPool, fence(12 * time.Second),
			freshReport("worker-2", young, renewed(3*time.Second)), freshReport("worker-1", renewed(time.Second))}},
	} {
		t.Run(c.says, func(t *testing.T) {
			found := findingsIn(c.kind, append(c.parts, nodes)...)
			if len(found) != c.want {
				t.Fatalf("got %+v", found)
			}
			if len(found) > 0 && (found[0].Repair == nil || !found[0].Repair.Fenced) {
				t.Errorf("it would wait: %+v", found[0].Repair)
			}
		})
	}
	t.Run("the end of the entry's sandbox was told too early: it is found, and waits", func(t *testing.T) {
		old := box("box-7", "uid-7", of("web-7"), holding("10.0.0.5", ""))
		found := findingsIn(judge.Misrecorded, usualPool, nodes, fence(12*time.Second),
			freshReport("worker-2", old, renewed(time.Second)), freshReport("worker-1", renewed(3*time.Second), gone("box-1", its1)))
		if len(found) != 1 || found[0].Repair == nil || found[0].Repair.Fenced {
			t.Errorf("got %+v", found)
		}
	})
}
