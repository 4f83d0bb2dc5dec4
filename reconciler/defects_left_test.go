package reconciler

import (
	"fmt"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// B: what upstream's reconciler left behind, or failed or took too long on.

func TestDefectsThatLeftThingsBehind(t *testing.T) {
	node := aNode("worker-1")
	leak := func(pool, cidr, key string) part {
		return aPool(pool, cidr, alloc{key, "default/web-9", "box-9", "net1"})
	}
	for _, s := range []situation{
		{id: "B1", says: "a pool whose range has no length, before a good one", parts: []part{aPool("a", "10.1.0.0", usual), leak("10.0.0.0-24", "10.0.0.0/24", "5"), node},
			ip: "10.0.0.5", want: judge.Stale, reason: judge.PodGone},
		{id: "B1", says: "a pool with an empty range, before a good one", parts: []part{aPool("a", "", usual), leak("10.0.0.0-24", "10.0.0.0/24", "5"), node},
			ip: "10.0.0.5", want: judge.Stale, reason: judge.PodGone},
		{id: "B2", says: "a pool beside one that is busy", parts: []part{
			aPool("10.1.0.0-24", "10.1.0.0/24", alloc{"1", "default/web-0", "box-1", "net1"}), leak("10.0.0.0-24", "10.0.0.0/24", "5"), node, web(phaseIs("Pending"))},
			ip: "10.0.0.5", want: judge.Stale, reason: judge.PodGone},
		{id: "B3", says: "a stale entry beside one with the key -1 and no podref", parts: []part{
			aPool("10.0.0.0-24", "10.0.0.0/24", alloc{"-1", "", "box-1", "net1"}, alloc{"5", "default/web-9", "box-9", "net1"}), node},
			ip: "10.0.0.5", want: judge.Stale, reason: judge.PodGone},
		{id: "B4", says: "an entry without podref is held", parts: []part{aPool("10.0.0.0-24", "10.0.0.0/24", alloc{"5", "", "box-1", "net1"}), node},
			ip: "10.0.0.5", want: judge.Held, reason: judge.Malformed},
		{id: "B5", says: "a finished pod that still lists the address", parts: []part{usualPool, node, web(phaseIs("Succeeded"), carrying("10.0.0.5"), stoppedByKubelet(time.Hour))},
			ip: "10.0.0.5", want: judge.Stale, reason: judge.PodFinished},
		{id: "B5", says: "a failed pod that still lists the address, its sandbox gone", parts: []part{usualPool, web(phaseIs("Failed"), carrying("10.0.0.5")), onWorker(gone("box-1", its1))},
			ip: "10.0.0.5", want: judge.Stale, reason: judge.PodFinished},
	} {
		s.check(t)
	}
	t.Run("B4 an entry without podref is a finding", func(t *testing.T) {
		if n := len(findingsIn(judge.MalformedFinding, aPool("10.0.0.0-24", "10.0.0.0/24", alloc{"5", "", "box-1", "net1"}), node)); n != 1 {
			t.Errorf("%d findings", n)
		}
	})
}

// B6: the same address in two networks is two addresses, and a pod that has it
// in one of them does not keep the other's, where agents tell the two apart.
func TestDefectB6AnAddressInTwoNetworks(t *testing.T) {
	blue := aPool("blue-10.0.0.0-24", "10.0.0.0/24", alloc{"5", "default/web-0", "box-1", "net1"})
	red := aPool("red-10.0.0.0-24", "10.0.0.0/24", alloc{"5", "default/web-0", "box-0", "net1"})
	pod := web(attached("default/blue", "net1", "10.0.0.5"))
	j := judged(observe(blue, red, pod, onWorker(), aNAD("blue", whereabouts("10.0.0.0/24", "blue")), aNAD("red", whereabouts("10.0.0.0/24", "red")),
		aReservation("blue-10.0.0.5", "default/web-0", old), aReservation("red-10.0.0.5", "default/web-0", old)), judge.Policy{})
	want := map[string]judge.Reason{"kube-system/blue-10.0.0.0-24": judge.AddressOnPod, "kube-system/red-10.0.0.0-24": judge.AddressNotOnPod}
	for _, it := range j.Allocations {
		if it.Reason != want[it.Object()] {
			t.Errorf("%s: %v, want %s", it.Object(), outcomeOf(it), want[it.Object()])
		}
	}
	if it := reservationIn(t, j, "blue-10.0.0.5"); it.Verdict != judge.InUse {
		t.Errorf("blue's reservation: %+v", it.Judged)
	}
	if it := reservationIn(t, j, "red-10.0.0.5"); it.Verdict != judge.Stale || it.Proven {
		t.Errorf("red's reservation: %+v", it.Judged)
	}
}

// B8: a thousand Pending pods are judged in one pass at one time, and the next
// look at the same objects says the same.
func TestDefectB8PendingPodsAreNotWaitedFor(t *testing.T) {
	var allocs []alloc
	parts := []part{aNode("worker-1")}
	for i := range 1000 {
		name := fmt.Sprint("web-", i)
		allocs = append(allocs, alloc{fmt.Sprint(i), "default/" + name, "box-" + name, "net1"})
		parts = append(parts, aPod(name, phaseIs("Pending"), noStatusAtAll))
	}
	p := newProcess(t, quarter)
	plan := p.look(0, append(parts, aPool("10.0.0.0-16", "10.0.0.0/16", allocs...))...)
	if len(plan.Release) > 0 || len(plan.Refused) > 0 || !plan.Until.IsZero() {
		t.Errorf("releases %d, refuses %d, waits until %v", len(plan.Release), len(plan.Refused), plan.Until)
	}
	for _, it := range judged(p.next, judge.Policy{}).Allocations {
		if it.Reason != judge.PodPending {
			t.Fatalf("%s: %v", it.PodRef(), outcomeOf(it))
		}
	}
}
