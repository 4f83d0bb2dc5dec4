package findings_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

func TestUnrecorded(t *testing.T) {
	worker := Node("worker-1")
	runs := FreshReport("worker-1", box1)
	runsWith := func(edits ...SandboxEdit) Part { return FreshReport("worker-1", Sandbox("box-1", UsualUID, edits...)) }
	expectFindings(t, findings.Unrecorded, []findingCase{
		{"a live pod carries an address that the pool has no entry for", 1, []Part{empty, here, carrier}},
		{"a running sandbox has one", 1, []Part{empty, worker, UsualPod(), runs}},
		{"a phantom's sandbox has one", 1, []Part{empty, worker, runs}},
		{"a terminating pod's running sandbox has one", 1, []Part{empty, worker, terminating, runs}},
		{"the pod and its sandbox both have it: one finding", 1, []Part{empty, here, worker, carrier, runs}},
		{"the pool has the allocation", 0, []Part{UsualPool, here, worker, carrier, runs}},
		{"the pool has the allocation under a key with zeros", 0,
			[]Part{Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("005", "default/web-0", "box-1", "net1")), here, carrier}},
		{"the pool has an allocation of another pod", 0, []Part{Pool("10.0.0.0-24", "10.0.0.0/24",
			Alloc("5", "default/x", "box-x", "net1")), here, carrier}},
		{"the pool has an allocation that cannot be read", 0,
			[]Part{Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "", "box-x", "net1")), here, carrier}},
		{"the pool itself cannot be read", 0, []Part{Pool("10.0.0.0-24", "10.0.0.0"), here, carrier}},
		{"only the podIPs have it", 0, []Part{empty, here, UsualPod(PodIPs("10.0.0.5"))}},
		{"the definition cannot be read", 0, []Part{empty, NAD("wb", "{"), carrier}},
		{"the definition is gone", 0, []Part{empty, carrier}},
		{"the definition is of another network, whose pool does not exist", 1, []Part{empty, NAD("wb",
			WhereaboutsConfig("10.0.0.0/24", "red")), carrier}},
		{"the definition is of another network, of which no pool can exist", 0, []Part{empty, NAD("wb",
			WhereaboutsConfig("10.0.0.0/24", "red/../blue")), carrier}},
		{"the definition is of another range, whose pool does not exist", 1, []Part{empty, NAD("wb",
			WhereaboutsConfig("10.0.0.0/16", "")), carrier}},
		{"the pod is Pending", 0, []Part{empty, here, UsualPod(Phase("Pending"), Carrying("10.0.0.5"))}},
		{"the pod is terminating", 0, []Part{empty, here, terminatingCarrier}},
		{"the pod is finished", 0, []Part{empty, here, UsualPod(Phase("Succeeded"), Carrying("10.0.0.5"))}},
		{"the sandbox is not ready", 0, []Part{empty, worker, runsWith(with5, NotReady(nil))}},
		{"the report is stale", 1, []Part{empty, worker, StaleReport("worker-1", box1)}},
		{"the sandbox's address is of another network", 0, []Part{empty, worker, runsWith(WithAddress("10.0.0.5", "red"))}},
		{"the sandbox's address is of another range", 0, []Part{empty, worker, runsWith(AddressIn("10.0.0.5", "net1",
			"10.0.0.0/16", ""))}},
		{"an attachment", 0, []Part{empty, worker, FreshReport("worker-1", Attachment("box-1", UsualUID, time.Minute, Open,
			Address("10.0.0.5", "")))}},
		{"the node's slice has no entry: the range that is cached is the whole one", 1, []Part{
			sliceOf("worker-1"), worker, UsualPod(), runs}},
	})
}

// An address that another plugin may have assigned is in use, and no pool needs an entry for it.
func TestAnUnattributedAddressIsClaimedAndNeverRecorded(t *testing.T) {
	other := func(b *v1alpha1.Sandbox) { b.Addresses[0].Unattributed = true }
	cluster := All(here, Node("worker-1"), Pod("static", UID("uid-9")), FreshReport("worker-1", Gone("box-1", UsualUID),
		Sandbox("box-9", "uid-9", OfPod("static"), with5, other)))
	for _, kind := range []findings.Kind{findings.Unrecorded, findings.Misrecorded} {
		for says, pool := range map[string]Part{
			"an empty pool": empty, "another's entry": UsualPool,
		} {
			if found := FindingsOf(kind, pool, cluster); len(found) > 0 {
				t.Errorf("%s: %+v", says, found)
			}
		}
	}
	Expect(t, Want(judge.Held, judge.ClaimedByOther, false, judge.Gone), UsualPool, cluster)
}

// repairOf is what a repair writes for the only finding.
func repairOf(t *testing.T, kind findings.Kind, parts ...Part) *findings.Repair {
	t.Helper()
	found := FindingsOf(kind, parts...)
	if len(found) != 1 || found[0].Repair == nil {
		t.Fatalf("got %+v", found)
	}
	return found[0].Repair
}

// What --repair would write for it.
func TestWhatARepairWrites(t *testing.T) {
	worker := Node("worker-1")
	runsWith := FreshReport("worker-1", box1)
	for says, c := range map[string]struct {
		pods   Part
		podRef string
	}{
		"a pod that is known":                      {UsualPod(), "default/web-0"},
		"a phantom: a podref that no pod can have": {Nothing, "default/web-0_uid-1"},
		"a phantom with a successor of its name":   {UsualPod(UID("uid-2")), "default/web-0_uid-1"},
		"a mirror pod":                             {UsualPod(UID("uid-2"), MirrorOf(UsualUID)), "default/web-0"},
	} {
		t.Run(says, func(t *testing.T) {
			r := repairOf(t, findings.Unrecorded, empty, worker, runsWith, c.pods)
			if r.Pool.Name != "10.0.0.0-24" || r.Key != "5" || r.ContainerID != "box-1" || r.IfName != "net1" ||
				r.PodRef != c.podRef {
				t.Errorf("got %+v", r)
			}
		})
	}
	t.Run("a pod alone: its sandbox is not known, and nothing is written", func(t *testing.T) {
		found := FindingsOf(findings.Unrecorded, empty, here, carrier)
		if len(found) != 1 || found[0].Repair != nil {
			t.Errorf("got %+v", found)
		}
	})
	t.Run("what is read back of a phantom's is held while it runs", func(t *testing.T) {
		pool := Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/web-0_uid-1", "box-1", "net1"))
		Expect(t, Want(judge.Held, judge.PhantomPod, false, judge.Ready), pool, worker, runsWith)
		if n := len(FindingsOf(findings.Unrecorded, pool, worker, runsWith)); n > 0 {
			t.Errorf("%d Unrecorded findings after the repair", n)
		}
	})
	t.Run("a reservation is written for its allocation", func(t *testing.T) {
		r := repairOf(t, findings.MissingReservation, UsualPool, carrier, ReportingWorker(), here)
		if r.Key != "" || r.Network != "" || r.Address.String() != "10.0.0.5" || r.PodRef != "default/web-0" ||
			r.IfName != "net1" {
			t.Errorf("got %+v", r)
		}
	})
}

func poolIn(ns string, part Part) Part {
	return func(o *Observed) {
		part(o)
		o.Pools[len(o.Pools)-1].Namespace = ns
	}
}

// What one pool records for the very interface no other lacks.
func TestWhatIsRecordedAnywhereIsNotUnrecorded(t *testing.T) {
	reporting := ReportingWorker(box1)
	both := ReportingWorker(Sandbox("box-1", UsualUID, AddressIn("10.0.0.5", "net1", "10.0.0.0/24", "red"),
		AddressIn("10.0.0.5", "net2", "10.0.0.0/24", "blue")))
	carrier2 := UsualPod(Carrying("10.0.0.5"), OnNode("worker-2"))
	runs2 := FreshReport("worker-2", box1)
	for name, c := range map[string]struct {
		found   int
		cluster []Part
	}{
		"whereabouts was moved to another namespace": {0, []Part{UsualPool, poolIn("whereabouts-old", empty), here, carrier,
			reporting}},
		"the slice was another node's before": {0, []Part{Pool("worker-1-10.0.0.0-26", "10.0.0.0/26"),
			Pool("worker-2-10.0.0.0-26", "10.0.0.0/26", UsualAllocation),
			NAD("wb", WhereaboutsConfig("10.0.0.0/24", "", `"node_slice_size":"/26"`)), nodes, FreshReport("worker-1"),
			carrier2, runs2}},
		"the network's name is in whereabouts.conf alone": {0, []Part{Pool("red-10.0.0.0-24", "10.0.0.0/24", UsualAllocation),
			empty, carrier, reporting}},
		"another interface has the address in another network": {1, []Part{Pool("red-10.0.0.0-24", "10.0.0.0/24",
			UsualAllocation), Pool("blue-10.0.0.0-24", "10.0.0.0/24"), carrier, both}},
		"its own slice lacks it, and another node's has been of that range since": {1, []Part{sliceOf("worker-1"),
			sliceOf("worker-2"), Sliced(""), ThreeNodes(), carrier2, runs2}},
		"its own slice lacks it, and another node's records it": {1, []Part{sliceOf("worker-1", UsualAllocation),
			sliceOf("worker-2"), Sliced(""), ThreeNodes(), carrier2, FreshReport("worker-1"), runs2}},
		"its own slice lacks it, another node's records it, and its node has no Node object": {1, []Part{
			sliceOf("worker-1", UsualAllocation), sliceOf("worker-2"), Sliced(""), ReportingWorker(), carrier2, runs2}},
		"its own slice lacks it, another node's records it, and that has no Node object": {1, []Part{
			sliceOf("worker-1", UsualAllocation), sliceOf("worker-2"), Sliced(""), Node("worker-2"), carrier2, runs2}},
		"its own slice has an allocation for it, and another node's has been of that range since": {0, []Part{
			sliceOf("worker-1"), sliceOf("worker-2", Alloc("5", "default/web-0", "box-0", "net1")), Sliced(""), ThreeNodes(),
			carrier2, runs2}},
		"nowhere": {1, []Part{empty, carrier, reporting}},
	} {
		if found := FindingsOf(findings.Unrecorded, c.cluster...); len(found) != c.found {
			t.Errorf("%s: %d findings, want %d: %+v", name, len(found), c.found, found)
		}
	}
}

// A pool is lost with a restore of etcd from before its first ADD, or by somebody who
// deletes it. The next ADD recreates it and begins with its first address.
func TestAnAddressOfAPoolThatIsNotThereIsUnrecorded(t *testing.T) {
	red := Pool("red-10.1.0.0-24", "10.1.0.0/24")
	worker := Node("worker-1")
	runs := FreshReport("worker-1", box1)
	elsewhere := func(o *Observed) {
		o.Pools = append(o.Pools, ippool.NewPool("another-namespace", "green", ippool.NewPool("", "",
			o.Pools[0].Range.Prefix()).Range.Prefix()))
	}
	reservationElsewhere := func(o *Observed) {
		r := *o.Reservations.Or(nil)[0]
		r.Namespace = "another-namespace"
		o.AddReservations(&r)
	}
	expectFindings(t, findings.Unrecorded, []findingCase{
		{"another pool tells the namespace", 1, []Part{red, here, worker, UsualPod(), runs}},
		{"a reservation tells the namespace", 1, []Part{Reservation("10.0.0.5", "default/web-0", time.Hour), here, worker,
			UsualPod(), runs}},
		{"of a phantom", 1, []Part{red, here, worker, runs}},
		{"the pod and its sandbox both have it: one finding", 1, []Part{red, here, worker, carrier, runs}},
		{"a pool of another network has the address", 1, []Part{Pool("red-10.0.0.0-24", "10.0.0.0/24"), here, worker,
			UsualPod(), runs}},
		{"the definition writes its first address into the range", 1,
			[]Part{red, NAD("wb", WhereaboutsConfig("10.0.0.4-10.0.0.0/24", "")), worker, UsualPod(), runs}},
		{"nothing tells the namespace", 1, []Part{here, worker, UsualPod(), runs}},
		{"pools are in two namespaces", 1, []Part{red, elsewhere, here, worker, UsualPod(), runs}},
		{"the pool cannot be read", 0, []Part{red, Pool("10.0.0.0-24", "10.0.0.0"), here, worker, UsualPod(), runs}},
		{"a pool of the network with a wider range has the address", 1, []Part{Pool("10.0.0.0-16", "10.0.0.0/16"), here,
			worker, UsualPod(), runs}},
		{"a pool of another network records it for this sandbox: the nodes name the network", 0,
			[]Part{Pool("red-10.0.0.0-24", "10.0.0.0/24", UsualAllocation), here, worker, UsualPod(), runs}},
		{"another interface has the address in another network", 1, []Part{Pool("red-10.0.0.0-24", "10.0.0.0/24",
			Alloc("5", "default/web-0", "box-1", "net2")), here, worker, UsualPod(), FreshReport("worker-1", Sandbox("box-1",
			UsualUID, with5, AddressIn("10.0.0.5", "net2", "10.0.0.0/24", "red")))}},
		{"one definition cuts the range into slices, another does not", 1,
			[]Part{red, here, NAD("sliced", WhereaboutsConfig("10.0.0.0/24", "", `"node_slice_size":"/28"`)), worker, UsualPod(),
				runs}},
		{"a pool and a reservation are in two namespaces", 1, []Part{red, Reservation("10.1.0.9", "default/x", time.Hour),
			reservationElsewhere, here, worker, UsualPod(), runs}},
		{"the address is outside of its range", 0, []Part{red, here, worker, UsualPod(), FreshReport("worker-1",
			Sandbox("box-1", UsualUID, WithAddress("10.0.7.5", "")))}},
		{"a pool whose name tells no network has the address", 0, []Part{Pool("made-by-hand", "10.0.0.0/24", UsualAllocation),
			here, worker, UsualPod(), runs}},
		{"no definition has the range: no ADD makes the pool", 0, []Part{red, worker, UsualPod(), runs}},
		{"the definition cannot be read", 0, []Part{red, NAD("wb", "{"), worker, UsualPod(), runs}},
		{"the definition is of another network", 0, []Part{red, NAD("wb", WhereaboutsConfig("10.0.0.0/24", "blue")), worker,
			UsualPod(), runs}},
		{"the definition cuts the range into slices: which one is the node's is not known", 1,
			[]Part{red, NAD("wb", WhereaboutsConfig("10.0.0.0/24", "", `"node_slice_size":"/28"`)), worker, UsualPod(), runs}},
		{"the sandbox is not ready", 0, []Part{red, here, worker, FreshReport("worker-1", Sandbox("box-1", UsualUID,
			with5, NotReady(nil)))}},
		{"the report is stale", 1, []Part{red, here, worker, UsualPod(), StaleReport("worker-1", box1)}},
		{"only the pod says so", 1, []Part{red, here, carrier}},
	})
	t.Run("where its name is unknown, the finding has no pool and no repair, and says why", func(t *testing.T) {
		for why, parts := range map[string][]Part{
			"the namespace of the pool is unknown": {red, elsewhere, here, worker, UsualPod(), runs},
			"the range is cut into slices": {red, NAD("wb", WhereaboutsConfig("10.0.0.0/24", "", `"node_slice_size":"/28"`)),
				worker, UsualPod(), runs},
			"its sandbox is unknown": {red, elsewhere, here, carrier},
		} {
			f := FindingsOf(findings.Unrecorded, parts...)
			if len(f) != 1 || f[0].Pool != "" || f[0].Repair != nil || !strings.Contains(f[0].Message, why) ||
				!strings.Contains(f[0].Message, "10.0.0.0/24 has no pool") {
				t.Errorf("%s: got %+v", why, f)
			}
		}
	})
	t.Run("what is written for it", func(t *testing.T) {
		found := FindingsOf(findings.Unrecorded, red, here, worker, UsualPod(), FreshReport("worker-1", box1,
			Sandbox("box-2", OtherUID, OfPod("other"), WithAddress("10.0.0.6", ""))))
		if len(found) != 2 || found[0].Repair == nil || found[1].Repair == nil {
			t.Fatalf("got %+v", found)
		}
		r := found[0].Repair
		if !r.NewPool || r.Pool.Ref() != "kube-system/10.0.0.0-24" || r.Key != "5" || r.PodRef != "default/web-0" ||
			!r.Overlapping {
			t.Errorf("got %+v", r)
		}
		if r.Pool != found[1].Repair.Pool {
			t.Error("the pool of two addresses is created twice")
		}
		if !strings.Contains(found[0].Message, "pool kube-system/10.0.0.0-24 does not exist") ||
			found[0].Pool != "kube-system/10.0.0.0-24" {
			t.Errorf("it says of %s: %s", found[0].Pool, found[0].Message)
		}
	})
	t.Run("a conflict names it, and the same pool", func(t *testing.T) {
		found := FindingsOf(findings.Conflict, red, here, worker, UsualPod(), Pod("other", UID(OtherUID)),
			FreshReport("worker-1", box1, Sandbox("box-2", OtherUID, OfPod("other"), with5)))
		if len(found) == 0 || found[0].Pool != "kube-system/10.0.0.0-24" {
			t.Errorf("got %+v", found)
		}
	})
	t.Run("it is bounded as that of any other pool is", func(t *testing.T) {
		o := Observe(red, here, worker, Node("worker-2"), FreshReport("worker-2"), runs)
		if why := plan.RepairLimit(Judged(o, facts.Policy{}).Facts(), plan.NodePool{Node: "worker-1",
			Pool: "kube-system/10.0.0.0-24"}, false, 128, 100, 128); why == "" {
			t.Error("one node may fill more than half of it")
		}
	})
}

// docs/operate/conflicts.md writes the missing allocation before it ends anybody who carries the address.
func TestUnrecorded_WrittenDuringAConflict(t *testing.T) {
	carried := []Part{empty, Node("worker-1"), UsualPod(), FreshReport("worker-1",
		Sandbox("box-2", OtherUID, OfPod("ghost"), with5), box1)}
	if found := FindingsOf(findings.Conflict, carried...); len(found) != 1 {
		t.Errorf("the conflicts are %+v", found)
	}
	var written []string
	for _, f := range FindingsOf(findings.Unrecorded, carried...) {
		if f.CanRepair() {
			written = append(written, f.Repair.ContainerID)
		}
	}
	if len(written) != 1 {
		t.Errorf("allocations are written for the sandboxes %v, want one", written)
	}
}
