package judge_test

import (
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

func TestUnrecorded(t *testing.T) {
	empty := Pool("10.0.0.0-24", "10.0.0.0/24")
	here := NAD("wb", WhereaboutsConfig("10.0.0.0/24", ""))
	worker := Node("worker-1")
	runsWith := func(edits ...SandboxEdit) Part { return FreshReport("worker-1", Sandbox("box-1", UsualUID, edits...)) }
	expectFindings(t, judge.Unrecorded, []findingCase{
		{"a live pod carries an address that the pool has no entry for", 1, []Part{empty, here, carrier.pod}},
		{"a running sandbox has one", 1, []Part{empty, worker, UsualPod(), runsWith(WithAddress("10.0.0.5", ""))}},
		{"a phantom's sandbox has one", 1, []Part{empty, worker, runsWith(WithAddress("10.0.0.5", ""))}},
		{"a terminating pod's running sandbox has one", 1, []Part{empty, worker, terminating.pod, runsWith(WithAddress("10.0.0.5", ""))}},
		{"the pod and its sandbox both have it: one finding", 1, []Part{empty, here, worker, carrier.pod, runsWith(WithAddress("10.0.0.5", ""))}},
		{"a pod of phase Unknown carries one", 1, []Part{empty, here, unknownCarrier.pod}},
		{"the pool has the entry", 0, []Part{UsualPool, here, worker, carrier.pod, runsWith(WithAddress("10.0.0.5", ""))}},
		{"the pool has the entry under a key with zeros", 0, []Part{Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("005", "default/web-0", "box-1", "net1")), here, carrier.pod}},
		{"the pool has an entry of another pod", 0, []Part{Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/x", "box-x", "net1")), here, carrier.pod}},
		{"the pool has an entry that cannot be read", 0, []Part{Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "", "box-x", "net1")), here, carrier.pod}},
		{"the pool itself cannot be read", 0, []Part{Pool("10.0.0.0-24", "10.0.0.0"), here, carrier.pod}},
		{"only the podIPs have it", 0, []Part{empty, here, UsualPod(PodIPs("10.0.0.5"))}},
		{"the definition cannot be read", 0, []Part{empty, NAD("wb", "{"), carrier.pod}},
		{"the definition is gone", 0, []Part{empty, carrier.pod}},
		{"the definition is of another network", 0, []Part{empty, NAD("wb", WhereaboutsConfig("10.0.0.0/24", "red")), carrier.pod}},
		{"the definition is of another range", 0, []Part{empty, NAD("wb", WhereaboutsConfig("10.0.0.0/16", "")), carrier.pod}},
		{"the pod is Pending", 0, []Part{empty, here, UsualPod(Phase("Pending"), Carrying("10.0.0.5"))}},
		{"the pod is terminating", 0, []Part{empty, here, terminatingCarrier.pod}},
		{"the pod is finished", 0, []Part{empty, here, UsualPod(Phase("Succeeded"), Carrying("10.0.0.5"))}},
		{"the sandbox is not ready", 0, []Part{empty, worker, runsWith(WithAddress("10.0.0.5", ""), NotReady(nil))}},
		{"the report is stale", 0, []Part{empty, worker, StaleReport("worker-1", Sandbox("box-1", UsualUID, WithAddress("10.0.0.5", "")))}},
		{"the sandbox's address is of another network", 0, []Part{empty, worker, runsWith(WithAddress("10.0.0.5", "red"))}},
		{"the sandbox's address is of another range", 0, []Part{empty, worker, runsWith(func(b *v1alpha1.Sandbox) {
			a := Address("10.0.0.5", "")
			a.Range = "10.0.0.0/16"
			b.Addresses = append(b.Addresses, a)
		})}},
		{"an attachment", 0, []Part{empty, worker, FreshReport("worker-1", Attachment("box-1", UsualUID, time.Minute, Open, Address("10.0.0.5", "")))}},
		{"the node's slice has no entry: the range that is cached is the whole one", 1, []Part{
			Pool("worker-1-10.0.0.0-28", "10.0.0.0/28"), worker, UsualPod(), runsWith(WithAddress("10.0.0.5", ""))}},
	})
}

// What --repair would write for it.
func TestWhatARepairWrites(t *testing.T) {
	empty, worker := Pool("10.0.0.0-24", "10.0.0.0/24"), Node("worker-1")
	runsWith := FreshReport("worker-1", Sandbox("box-1", UsualUID, WithAddress("10.0.0.5", "")))
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
			found := FindingsOf(judge.Unrecorded, empty, worker, runsWith, c.pods)
			if len(found) != 1 || found[0].Repair == nil {
				t.Fatalf("got %+v", found)
			}
			r := found[0].Repair
			if r.Pool.Name != "10.0.0.0-24" || r.Key != "5" || r.ContainerID != "box-1" || r.IfName != "net1" || r.PodRef != c.podRef {
				t.Errorf("got %+v", r)
			}
		})
	}
	t.Run("a pod alone: its sandbox is not known, and nothing is written", func(t *testing.T) {
		found := FindingsOf(judge.Unrecorded, empty, NAD("wb", WhereaboutsConfig("10.0.0.0/24", "")), carrier.pod)
		if len(found) != 1 || found[0].Repair != nil {
			t.Errorf("got %+v", found)
		}
	})
	t.Run("what is read back of a phantom's is held while it runs", func(t *testing.T) {
		pool := Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/web-0_uid-1", "box-1", "net1"))
		Expect(t, Want(judge.Held, judge.PhantomPod, false, judge.Ready), pool, worker, runsWith)
		if n := len(FindingsOf(judge.Unrecorded, pool, worker, runsWith)); n > 0 {
			t.Errorf("%d Unrecorded findings after the repair", n)
		}
	})
	t.Run("a reservation is written for its allocation", func(t *testing.T) {
		found := FindingsOf(judge.MissingReservation, UsualPool, carrier.pod, ReportingWorker(), NAD("wb", WhereaboutsConfig("10.0.0.0/24", "")))
		if len(found) != 1 || found[0].Repair == nil {
			t.Fatalf("got %+v", found)
		}
		r := found[0].Repair
		if r.Key != "" || r.Network != "" || r.Address.String() != "10.0.0.5" || r.PodRef != "default/web-0" || r.IfName != "net1" {
			t.Errorf("got %+v", r)
		}
	})
}
