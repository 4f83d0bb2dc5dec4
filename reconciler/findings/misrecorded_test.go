package findings_test

import (
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// The usual entry is of default/web-0, sandbox box-1 on worker-1. Here box-7 of
// default/web-7 runs on worker-2 with its address.
func TestMisrecorded(t *testing.T) {
	runs, its7 := FreshReport("worker-2", web7), Alloc("5", "default/web-7", "box-7", "net1")
	quiet := FreshReport("worker-1")
	expectFindings(t, findings.Misrecorded, []findingCase{
		{"the allocation's sandbox is known to no node", 1, []Part{UsualPool, nodes, runner, runs, quiet}},
		{"its pod of the past is live in the API, with the address", 1, []Part{UsualPool, nodes, carrier, runner, runs,
			quiet}},
		{"its pod of the past is Pending", 1, []Part{UsualPool, nodes, UsualPod(Phase("Pending")), runner, runs, quiet}},
		{"its sandbox has gone", 1, []Part{UsualPool, nodes, runner, runs, FreshReport("worker-1", Gone("box-1", UsualUID))}},
		{"its sandbox has stopped", 1, []Part{UsualPool, nodes, runner, runs, FreshReport("worker-1",
			Sandbox("box-1", UsualUID, NotReady(Closed)))}},
		{"its node is out of service", 1, []Part{UsualPool, Node("worker-1", NotReadyFor(time.Hour), OutOfService),
			Node("worker-2"), UsualPod(), runner, runs}},
		{"the API does not have the pod that runs", 1, []Part{UsualPool, nodes, runs, quiet}},
		{"a StatefulSet's successor carries its predecessor's address", 1, []Part{UsualPool, nodes, UsualPod(UID("uid-2")),
			FreshReport("worker-1", Sandbox("box-2", "uid-2", with5), Gone("box-1", UsualUID)), FreshReport("worker-2")}},
		{"a slice's allocation: the range that is cached is the whole one", 1, []Part{
			sliceOf("worker-2", UsualAllocation), nodes, runner, runs, quiet}},
		{"slices were assigned again, and both have a stale allocation: that of its own node's is meant", 1, []Part{
			sliceOf("worker-1", UsualAllocation), sliceOf("worker-2", UsualAllocation), Sliced(""), nodes, runner, runs, quiet}},
		{"slices were assigned again, and only another node's has a stale allocation", 0, []Part{
			sliceOf("worker-1", UsualAllocation), sliceOf("worker-2"), Sliced(""), nodes, runner, runs, quiet}},

		{"the address is of another network, whose slice of that range may have a longer name", 0, []Part{
			Pool("red-worker-1-10.0.0.0-28", "10.0.0.0/28", UsualAllocation), sliceOf("worker-2", its7),
			Sliced(""), Sliced("red"), nodes, runner, runs, quiet}},
		{"the same, and the definition of that slice is gone: its own allocation is in its own pool", 0, []Part{
			Pool("red-worker-1-10.0.0.0-28", "10.0.0.0/28", UsualAllocation), sliceOf("worker-2", its7),
			Sliced(""), nodes, runner, runs, quiet}},
		{"the allocation names the one that runs", 0, []Part{UsualPool, nodes, UsualPod(), FreshReport("worker-1", box1),
			FreshReport("worker-2")}},
		{"both run: a Conflict", 0, []Part{UsualPool, nodes, runner, runs, FreshReport("worker-1", box1)}},
		{"the allocation's sandbox runs, and no report has its addresses", 0, []Part{UsualPool, nodes, runner, runs,
			FreshReport("worker-1", Sandbox("box-1", UsualUID))}},
		{"two others run with it: a Conflict", 0, []Part{UsualPool, nodes, runs, FreshReport("worker-1",
			Sandbox("box-8", "uid-8", with5))}},
		{"a node that could run the allocation's sandbox has no fresh report", 1, []Part{UsualPool, nodes, runner, runs,
			StaleReport("worker-1")}},
		{"the allocation's sandbox is being set up", 0, []Part{UsualPool, nodes, runner, runs, FreshReport("worker-1",
			Attachment("box-1", UsualUID, time.Minute, Open))}},
		{"its network may still be there", 0, []Part{UsualPool, nodes, runner, runs, FreshReport("worker-1",
			Sandbox("box-1", UsualUID, NotReady(nil)))}},
		{"its Node object is gone", 0, []Part{UsualPool, Node("worker-2"), UsualPod(), runner, runs}},
		{"one node says that it has gone, another that it runs", 0, []Part{UsualPool, nodes, runner, runs, quiet,
			Node("worker-3"), FreshReport("worker-3", Gone("box-1", UsualUID)), ReportRenewed("worker-1", 10*time.Minute,
				Sandbox("box-1", UsualUID))}},
		{"the one that carries it is no longer ready", 0, []Part{UsualPool, nodes, runner, quiet,
			FreshReport("worker-2", Sandbox("box-7", "uid-7", OfPod("web-7"), with5, NotReady(nil)))}},
		{"it is an attachment that carries it", 0, []Part{UsualPool, nodes, runner, quiet, FreshReport("worker-2",
			Attachment("box-7", "uid-7", time.Minute, Open, Address("10.0.0.5", "")))}},
		{"it is a minute old at most", 0, []Part{UsualPool, nodes, runner, quiet,
			FreshReport("worker-2", Sandbox("box-7", "uid-7", OfPod("web-7"), with5, CreatedAgo(time.Minute)))}},
		{"the report of the one that carries it is stale", 1, []Part{UsualPool, nodes, runner, quiet,
			StaleReport("worker-2", web7)}},
		{"it carries the address in another network", 0, []Part{UsualPool, nodes, runner, quiet,
			FreshReport("worker-2", Sandbox("box-7", "uid-7", OfPod("web-7"), WithAddress("10.0.0.5", "red")))}},
		{"only a pod's annotation has the address", 0, []Part{UsualPool, nodes, here, quiet, FreshReport("worker-2"),
			Pod("web-7", UID("uid-7"), OnNode("worker-2"), Carrying("10.0.0.5"))}},
		{"the allocation cannot be read", 0, []Part{Pool("10.0.0.0-24", "10.0.0.0/24",
			Alloc("5", "nonsense", "box-1", "net1")), nodes, runner, runs, quiet}},
		{"two allocations stand for the address", 0, []Part{Pool("10.0.0.0-24", "10.0.0.0/24", UsualAllocation,
			Alloc("05", "default/x", "box-x", "net1")), nodes, runner, runs, quiet}},
		{"there are no agents", 0, []Part{UsualPool, nodes, runner}},
	})
}

func TestWhatARepairRewrites(t *testing.T) {
	runs := FreshReport("worker-2", web7)
	for says, c := range map[string]struct {
		pods   Part
		podRef string
	}{
		"to a pod that is known":        {runner, "default/web-7"},
		"to a phantom":                  {Nothing, "default/web-7_uid-7"},
		"to a phantom with a successor": {Pod("web-7", UID("uid-8"), OnNode("worker-2")), "default/web-7_uid-7"},
		"to a sandbox that another node has of a live pod": {Pod("web-7", UID("uid-7"), OnNode("worker-1")),
			"default/web-7_uid-7"},
	} {
		t.Run(says, func(t *testing.T) {
			r := repairOf(t, findings.Misrecorded, UsualPool, nodes, runs, FreshReport("worker-1"), c.pods)
			if r.Key != "5" || r.ContainerID != "box-7" || r.IfName != "net1" || r.PodRef != c.podRef || r.Previous == nil ||
				r.Previous.ContainerID != "box-1" {
				t.Errorf("got %+v", r)
			}
		})
	}
}

// Behind the fence no ADD or DEL is half done, so that what a report says that was renewed since needs no more time.
func TestBehindTheFenceFindingsRestOnReportsOfAfterItStood(t *testing.T) {
	young := Sandbox("box-7", "uid-7", OfPod("web-7"), with5, CreatedAgo(5*time.Second))
	reported := func(node string, secondsAgo time.Duration, c ...ReportEdit) Part {
		renewed := func(r *podstate.Report) { r.ConfirmedAt = Now.Add(-secondsAgo * time.Second) }
		return FreshReport(node, append(c, renewed)...)
	}
	fence := func(secondsAgo time.Duration) Part {
		return func(o *Observed) { o.FencedSince = Now.Add(-secondsAgo * time.Second) }
	}
	// Its DEL waits for the fence, and the address is on the wire meanwhile.
	stopping := func(closed *bool) ReportEdit {
		return Sandbox("box-7", "uid-7", OfPod("web-7"), with5, NotReady(closed))
	}
	for _, c := range []struct {
		says  string
		kind  findings.Kind
		want  int
		parts []Part
	}{
		{"without a fence a young sandbox waits", findings.Unrecorded, 0, []Part{empty, reported("worker-2", 0, young)}},
		{"the report was renewed since", findings.Unrecorded, 1, []Part{empty, fence(2), reported("worker-2", 1, young)}},
		{"the report was renewed before", findings.Unrecorded, 0, []Part{empty, fence(2), reported("worker-2", 3, young)}},
		{"a sandbox that is stopped and has its network", findings.Unrecorded, 1, []Part{empty, fence(2),
			reported("worker-2", 1, stopping(Open))}},
		{"a sandbox that is stopped, and no report tells whether its network is closed", findings.Unrecorded, 1,
			[]Part{empty, fence(2), reported("worker-2", 1, stopping(nil))}},
		{"a sandbox without its network", findings.Unrecorded, 0, []Part{empty, fence(2),
			reported("worker-2", 1, stopping(Closed))}},
		{"without a fence a sandbox that is stopped has a DEL to come", findings.Unrecorded, 0,
			[]Part{empty, reported("worker-2", 1, stopping(Open))}},
		{"one that is being set up", findings.Unrecorded, 1, []Part{empty, fence(2),
			reported("worker-2", 1, Attachment("box-7", "uid-7", time.Second, nil, Address("10.0.0.5", "")))}},
		{"a sandbox that is stopped, instead of one of the past", findings.Misrecorded, 1,
			[]Part{UsualPool, fence(12), reported("worker-2", 1, stopping(Open)), reported("worker-1", 2)}},
		{"one that is READY goes before one that is stopped", findings.Misrecorded, 1, []Part{UsualPool,
			fence(12), reported("worker-2", 1, young,
				Sandbox("box-8", "uid-8", OfPod("web-8"), with5, NotReady(nil))), reported("worker-1", 2)}},
		{"all reports were renewed 10 s after it stood", findings.Misrecorded, 1, []Part{UsualPool, fence(12),
			reported("worker-2", 1, young), reported("worker-1", 2)}},
		{"the one that carries it was reported too early", findings.Misrecorded, 0, []Part{UsualPool, fence(12),
			reported("worker-2", 3, young), reported("worker-1", 1)}},
	} {
		t.Run(c.says, func(t *testing.T) {
			found := FindingsOf(c.kind, append(c.parts, nodes)...)
			if len(found) != c.want {
				t.Fatalf("got %+v", found)
			}
			if len(found) > 0 && (found[0].Repair == nil || !found[0].Repair.IsFenced) {
				t.Errorf("it would wait: %+v", found[0].Repair)
			}
		})
	}
	t.Run("the end of the allocation's sandbox was reported too early: it is found, and waits", func(t *testing.T) {
		r := repairOf(t, findings.Misrecorded, UsualPool, nodes, fence(12), reported("worker-2", 1, web7),
			reported("worker-1", 3, Gone("box-1", UsualUID)))
		if r.IsFenced {
			t.Errorf("got %+v", r)
		}
	})
}
