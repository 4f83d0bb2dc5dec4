package judge_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// A pool is lost with a restore of etcd from before its first ADD, or by somebody who
// deletes it. The next ADD makes it again and begins with its first address.
func TestAnAddressOfAPoolThatIsNotThereIsUnrecorded(t *testing.T) {
	red := Pool("red-10.1.0.0-24", "10.1.0.0/24")
	here := NAD("wb", WhereaboutsConfig("10.0.0.0/24", ""))
	worker := Node("worker-1")
	runs := FreshReport("worker-1", Sandbox("box-1", UsualUID, WithAddress("10.0.0.5", "")))
	elsewhere := func(o *Observed) {
		o.Pools = append(o.Pools, ippool.NewPool("another-namespace", "green", ippool.NewPool("", "", o.Pools[0].Range.Prefix()).Range.Prefix()))
	}
	reservationElsewhere := func(o *Observed) {
		r := *o.Reservations[0]
		r.Namespace = "another-namespace"
		o.Reservations = append(o.Reservations, &r)
	}
	expectFindings(t, judge.Unrecorded, []findingCase{
		{"another pool tells the namespace", 1, []Part{red, here, worker, UsualPod(), runs}},
		{"a reservation tells the namespace", 1, []Part{Reservation("10.0.0.5", "default/web-0", time.Hour), here, worker, UsualPod(), runs}},
		{"of a phantom", 1, []Part{red, here, worker, runs}},
		{"the pod and its sandbox both have it: one finding", 1, []Part{red, here, worker, carrier.pod, runs}},
		{"a pool of another network has the address", 1, []Part{Pool("red-10.0.0.0-24", "10.0.0.0/24"), here, worker, UsualPod(), runs}},
		{"the definition writes its first address into the range", 1, []Part{red, NAD("wb", WhereaboutsConfig("10.0.0.4-10.0.0.0/24", "")), worker, UsualPod(), runs}},
		{"nothing tells the namespace", 0, []Part{here, worker, UsualPod(), runs}},
		{"pools are in two namespaces", 0, []Part{red, elsewhere, here, worker, UsualPod(), runs}},
		{"the pool cannot be read", 0, []Part{red, Pool("10.0.0.0-24", "10.0.0.0"), here, worker, UsualPod(), runs}},
		{"a pool of the network with a wider range has the address", 1, []Part{Pool("10.0.0.0-16", "10.0.0.0/16"), here, worker, UsualPod(), runs}},
		{"a pool of another network records it for this sandbox: the nodes name the network", 0, []Part{Pool("red-10.0.0.0-24", "10.0.0.0/24", UsualAllocation), here, worker, UsualPod(), runs}},
		{"one definition cuts the range into slices, another does not", 0, []Part{red, here, NAD("sliced", WhereaboutsConfig("10.0.0.0/24", "", `"node_slice_size":"/28"`)), worker, UsualPod(), runs}},
		{"a pool and a reservation are in two namespaces", 0, []Part{red, Reservation("10.1.0.9", "default/x", time.Hour), reservationElsewhere, here, worker, UsualPod(), runs}},
		{"the address is outside of its range", 0, []Part{red, here, worker, UsualPod(), FreshReport("worker-1", Sandbox("box-1", UsualUID, WithAddress("10.0.7.5", "")))}},
		{"a pool whose name tells no network has the address", 0, []Part{Pool("made-by-hand", "10.0.0.0/24", UsualAllocation), here, worker, UsualPod(), runs}},
		{"no definition has the range: no ADD makes the pool", 0, []Part{red, worker, UsualPod(), runs}},
		{"the definition cannot be read", 0, []Part{red, NAD("wb", "{"), worker, UsualPod(), runs}},
		{"the definition is of another network", 0, []Part{red, NAD("wb", WhereaboutsConfig("10.0.0.0/24", "blue")), worker, UsualPod(), runs}},
		{"the definition cuts the range into slices: which one is the node's is not known", 0, []Part{red, NAD("wb", WhereaboutsConfig("10.0.0.0/24", "", `"node_slice_size":"/28"`)), worker, UsualPod(), runs}},
		{"the sandbox is not ready", 0, []Part{red, here, worker, FreshReport("worker-1", Sandbox("box-1", UsualUID, WithAddress("10.0.0.5", ""), NotReady(nil)))}},
		{"the report is stale", 0, []Part{red, here, worker, UsualPod(), StaleReport("worker-1", Sandbox("box-1", UsualUID, WithAddress("10.0.0.5", "")))}},
		{"only the pod says so", 0, []Part{red, here, carrier.pod}},
	})
	t.Run("what is written for it", func(t *testing.T) {
		found := FindingsOf(judge.Unrecorded, red, here, worker, UsualPod(),
			FreshReport("worker-1", Sandbox("box-1", UsualUID, WithAddress("10.0.0.5", "")), Sandbox("box-2", OtherUID, OfPod("other"), WithAddress("10.0.0.6", ""))))
		if len(found) != 2 || found[0].Repair == nil || found[1].Repair == nil {
			t.Fatalf("got %+v", found)
		}
		r := found[0].Repair
		if !r.NewPool || r.Pool.Ref() != "kube-system/10.0.0.0-24" || r.Key != "5" || r.PodRef != "default/web-0" || !r.Overlapping {
			t.Errorf("got %+v", r)
		}
		if r.Pool != found[1].Repair.Pool {
			t.Error("the pool of two addresses is to be made twice")
		}
		if !strings.Contains(found[0].Message, "pool kube-system/10.0.0.0-24 is not there") || found[0].Pool != "kube-system/10.0.0.0-24" {
			t.Errorf("it says of %s: %s", found[0].Pool, found[0].Message)
		}
	})
	t.Run("a conflict names it, and the same pool", func(t *testing.T) {
		found := FindingsOf(judge.Conflict, red, here, worker, UsualPod(), Pod("other", UID(OtherUID)),
			FreshReport("worker-1", Sandbox("box-1", UsualUID, WithAddress("10.0.0.5", "")), Sandbox("box-2", OtherUID, OfPod("other"), WithAddress("10.0.0.5", ""))))
		if len(found) == 0 || found[0].Pool != "kube-system/10.0.0.0-24" {
			t.Errorf("got %+v", found)
		}
	})
	t.Run("it is bounded as that of any other pool is", func(t *testing.T) {
		o := Observe(red, here, worker, Node("worker-2"), FreshReport("worker-2"), runs)
		if why := Judged(o, judge.Policy{}).Index().RepairLimit(judge.NodePool{Node: "worker-1", Pool: "kube-system/10.0.0.0-24"}, false, 128, 100, 128); why == "" {
			t.Error("one node may fill more than half of it")
		}
	})
}
