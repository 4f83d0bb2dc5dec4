package reconciler

import (
	"fmt"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// B: what upstream's reconciler left behind, or failed or took too long on.

func TestDefectsThatLeftThingsBehind(t *testing.T) {
	node := Node("worker-1")
	leak := func(pool, cidr, key string) Part {
		return Pool(pool, cidr, Alloc(key, "default/web-9", "box-9", "net1"))
	}
	for _, s := range []situation{
		{id: "B1", says: "a pool whose range has no length, before a good one", parts: []Part{Pool("a", "10.1.0.0", UsualAllocation), leak("10.0.0.0-24", "10.0.0.0/24", "5"), node},
			ip: "10.0.0.5", want: judge.Stale, reason: judge.PodGone},
		{id: "B1", says: "a pool with an empty range, before a good one", parts: []Part{Pool("a", "", UsualAllocation), leak("10.0.0.0-24", "10.0.0.0/24", "5"), node},
			ip: "10.0.0.5", want: judge.Stale, reason: judge.PodGone},
		{id: "B2", says: "a pool beside one that is busy", parts: []Part{
			Pool("10.1.0.0-24", "10.1.0.0/24", Alloc("1", "default/web-0", "box-1", "net1")), leak("10.0.0.0-24", "10.0.0.0/24", "5"), node, UsualPod(Phase("Pending"))},
			ip: "10.0.0.5", want: judge.Stale, reason: judge.PodGone},
		{id: "B3", says: "a stale entry beside one with the key -1 and no podref", parts: []Part{
			Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("-1", "", "box-1", "net1"), Alloc("5", "default/web-9", "box-9", "net1")), node},
			ip: "10.0.0.5", want: judge.Stale, reason: judge.PodGone},
		{id: "B4", says: "an entry without podref is held", parts: []Part{Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "", "box-1", "net1")), node},
			ip: "10.0.0.5", want: judge.Held, reason: judge.Malformed},
		{id: "B5", says: "a finished pod that still lists the address", parts: []Part{UsualPool, node, UsualPod(Phase("Succeeded"), Carrying("10.0.0.5"), StoppedByKubelet(time.Hour))},
			ip: "10.0.0.5", want: judge.Stale, reason: judge.PodFinished},
		{id: "B5", says: "a failed pod that still lists the address, its sandbox gone", parts: []Part{UsualPool, UsualPod(Phase("Failed"), Carrying("10.0.0.5")), ReportingWorker(Gone("box-1", UsualUID))},
			ip: "10.0.0.5", want: judge.Stale, reason: judge.PodFinished},
	} {
		s.check(t)
	}
	t.Run("B4 an entry without podref is a finding", func(t *testing.T) {
		if n := len(FindingsOf(judge.MalformedFinding, Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "", "box-1", "net1")), node)); n != 1 {
			t.Errorf("%d findings", n)
		}
	})
}

// B6: the same address in two networks is two addresses, and a pod that has it
// in one of them does not keep the other's, where agents tell the two apart.
func TestDefectB6AnAddressInTwoNetworks(t *testing.T) {
	blue := Pool("blue-10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/web-0", "box-1", "net1"))
	red := Pool("red-10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/web-0", "box-0", "net1"))
	pod := UsualPod(CarryingOn("default/blue", "net1", "10.0.0.5"))
	j := Judged(Observe(blue, red, pod, ReportingWorker(), NAD("blue", WhereaboutsConfig("10.0.0.0/24", "blue")), NAD("red", WhereaboutsConfig("10.0.0.0/24", "red")),
		Reservation("blue-10.0.0.5", "default/web-0", LongAgo), Reservation("red-10.0.0.5", "default/web-0", LongAgo)), judge.Policy{})
	want := map[string]judge.Reason{"kube-system/blue-10.0.0.0-24": judge.AddressOnPod, "kube-system/red-10.0.0.0-24": judge.AddressNotOnPod}
	for _, it := range j.Allocations {
		if it.Reason != want[it.Object()] {
			t.Errorf("%s: %v, want %s", it.Object(), OutcomeOf(it), want[it.Object()])
		}
	}
	if it := ReservationOf(t, j, "blue-10.0.0.5"); it.Verdict != judge.InUse {
		t.Errorf("blue's reservation: %+v", it.Judged)
	}
	if it := ReservationOf(t, j, "red-10.0.0.5"); it.Verdict != judge.Stale || it.Proven {
		t.Errorf("red's reservation: %+v", it.Judged)
	}
}

// B8: a thousand Pending pods are judged in one pass at one time, and the next
// pass over the same objects says the same.
func TestDefectB8PendingPodsAreNotWaitedFor(t *testing.T) {
	var allocs []Allocation
	parts := []Part{Node("worker-1")}
	for i := range 1000 {
		name := fmt.Sprint("web-", i)
		allocs = append(allocs, Alloc(fmt.Sprint(i), "default/"+name, "box-"+name, "net1"))
		parts = append(parts, Pod(name, Phase("Pending"), NoNetworkStatus))
	}
	p := newProcess(t, quarter)
	plan := p.pass(0, append(parts, Pool("10.0.0.0-16", "10.0.0.0/16", allocs...))...)
	if len(plan.Release) > 0 || len(plan.Refused) > 0 || !plan.Until.IsZero() {
		t.Errorf("releases %d, refuses %d, waits until %v", len(plan.Release), len(plan.Refused), plan.Until)
	}
	for _, it := range Judged(p.next, judge.Policy{}).Allocations {
		if it.Reason != judge.PodPending {
			t.Fatalf("%s: %v", it.PodRef(), OutcomeOf(it))
		}
	}
}
