package reconciler

import (
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// The defects by which whereabouts' own reconciler and pod-delete controller release addresses in use (A), by number,
// as far as judging shows them. Tests of A15, A16 and of their leaks (B) have the number in a comment or a name.

// situation is the input of a defect, and the verdicts that the allocation and the reservation must have; "" for any.
type situation struct {
	id, says string
	parts    []Part
	ip       string
	want     judge.Verdict
	reason   judge.Reason

	reservation       string
	reservationWant   judge.Verdict
	reservationReason judge.Reason
}

func (s situation) check(t *testing.T) {
	t.Run(s.id+" "+s.says, func(t *testing.T) {
		p := newProcess(t, Options{ConfirmAfter: 15 * time.Minute})
		plan := p.pass(0, s.parts...)
		j := Judged(p.next, judge.Policy{})
		if s.want != "" {
			if it := AllocationOf(t, j, s.ip); it.Verdict != s.want || it.Reason != s.reason {
				t.Errorf("allocation: got %v, want %s, %s: %s", OutcomeOf(it), s.want, s.reason, it.Message())
			}
		}
		if s.reservation != "" {
			it := ReservationOf(t, j, s.reservation)
			if it.Verdict != s.reservationWant || it.Reason != s.reservationReason {
				t.Errorf("reservation: got %s, %s, want %s, %s: %s", it.Verdict, it.Reason, s.reservationWant, s.reservationReason,
					it.Message())
			}
		}
		// No plan releases what upstream releases at once, now or after confirmation.
		if s.want != judge.Stale && s.reservationWant != judge.Stale {
			plan.Release = append(plan.Release, p.pass(15*time.Minute, s.parts...).Release...)
			for _, it := range plan.Release {
				t.Errorf("released: %s %s, %s", it.Object(), it.Key(), it.Reason)
			}
		}
	})
}

func TestDefects_InUse(t *testing.T) {
	node := Node("worker-1")
	res := Reservation("10.0.0.5", "default/web-0", LongAgo)
	red := Reservation("red-10.0.0.5", "default/web-0", LongAgo)
	redPool := Pool("red-10.0.0.0-24", "10.0.0.0/24", UsualAllocation)
	v6Pool := Pool("2001-db8---64", "2001:db8::/64", Alloc("10", "default/web-0", "box-1", "net1"))
	emptyPool := Pool("10.0.0.0-24", "10.0.0.0/24")
	noStatus := UsualPod(Phase("Pending"), NoNetworkStatus)
	for _, s := range []situation{
		{id: "A1", says: "a Pending pod without network-status: nothing has to be read again to keep its address",
			parts: []Part{UsualPool, res, noStatus, node},
			ip:    "10.0.0.5", want: judge.InUse, reason: judge.PodPending, reservation: "10.0.0.5",
			reservationWant: judge.InUse, reservationReason: judge.PodPending},
		{id: "A2", says: "the same where pods may be listed and not got, nor nodes or reports", parts: []Part{UsualPool,
			noStatus},
			ip: "10.0.0.5", want: judge.InUse, reason: judge.PodPending},
		{id: "A3", says: "a Pending pod whose further networks are being attached for long", parts: []Part{UsualPool, res,
			node,
			UsualPod(Phase("Pending"), NoNetworkStatus, CreatedLongAgo)},
			ip: "10.0.0.5", want: judge.InUse, reason: judge.PodPending, reservation: "10.0.0.5", reservationWant: judge.InUse,
			reservationReason: judge.PodPending},
		{id: "A4", says: "a live pod whose network-status is not JSON", parts: []Part{UsualPool, res, node,
			UsualPod(NetworkStatus(`[{"ips":["10.0.0.5"]`))},
			ip: "10.0.0.5", want: judge.Held, reason: judge.NetworkStatusMissing, reservation: "10.0.0.5",
			reservationWant: judge.Held, reservationReason: judge.NetworkStatusMissing},
		{id: "A5", says: "a live pod without network-status whose podIPs have the address", parts: []Part{UsualPool, node,
			UsualPod(NoNetworkStatus, PodIPs("10.0.0.5"))},
			ip: "10.0.0.5", want: judge.InUse, reason: judge.AddressOnPod},
		{id: "A5", says: "a live pod whose network-status was stripped", parts: []Part{UsualPool, node,
			UsualPod(NoNetworkStatus)},
			ip: "10.0.0.5", want: judge.Held, reason: judge.NetworkStatusMissing},
		{id: "A5", says: "a live pod whose sandbox was recreated: its status lacks the new address", parts: []Part{UsualPool,
			UsualPod(), ReportingWorker(Sandbox("box-1", UsualUID, CreatedAgo(5*time.Second)))},
			ip: "10.0.0.5", want: judge.InUse, reason: judge.SandboxReady},
		{id: "A5", says: "the same while the new sandbox is being set up", parts: []Part{UsualPool, UsualPod(),
			ReportingWorker(Attachment("box-1", UsualUID, 5*time.Second, nil))},
			ip: "10.0.0.5", want: judge.Held, reason: judge.AttachedReason},
		{id: "A6", says: "the address is on the cluster's default network", parts: []Part{UsualPool, node,
			UsualPod(NetworkStatus(`[{"name":"default/macvlan","interface":"eth0","ips":["10.0.0.5"],"default":true}]`))},
			ip: "10.0.0.5", want: judge.InUse, reason: judge.AddressOnPod},
		{id: "A7", says: "the status spells an IPv6 address otherwise", parts: []Part{v6Pool, node,
			UsualPod(Carrying("2001:DB8::A"))},
			ip: "2001:db8::a", want: judge.InUse, reason: judge.AddressOnPod},
		{id: "A8", says: "a reservation of a named network, its pod live", parts: []Part{redPool, red, node,
			UsualPod(Carrying("10.0.0.5")), NAD("wb", WhereaboutsConfig("10.0.0.0/24", "red"))},
			ip: "10.0.0.5", want: judge.InUse, reason: judge.AddressOnPod, reservation: "red-10.0.0.5",
			reservationWant: judge.InUse, reservationReason: judge.AddressOnPod},
		{id: "A8", says: "the same without an entry in the pool", parts: []Part{Pool("red-10.0.0.0-24", "10.0.0.0/24"), red,
			node, UsualPod(Carrying("10.0.0.5"))},
			reservation: "red-10.0.0.5", reservationWant: judge.InUse, reservationReason: judge.AddressOnPod},
		{id: "A9", says: "a reservation of an IPv6 address that ends in two colons, its pod live", parts: []Part{
			Pool("2001-db8-0-0-1---80", "2001:db8:0:0:1::/80", Alloc("0", "default/web-9", "box-9", "net1")),
			Reservation("2001-db8-0-0-1--0", "default/web-9", LongAgo), node, Pod("web-9", Carrying("2001:db8:0:0:1::"))},
			reservation: "2001-db8-0-0-1--0", reservationWant: judge.InUse, reservationReason: judge.AddressOnPod},
		{id: "A10", says: "a reservation that was made after pools and pods were read", parts: []Part{emptyPool,
			Reservation("10.0.0.6", "default/new", 5*time.Second), node},
			reservation: "10.0.0.6", reservationWant: judge.InUse, reservationReason: judge.Recent},
		{id: "A11", says: "a live pod's reservation whose pool entry is missing", parts: []Part{emptyPool, res, node,
			UsualPod(Carrying("10.0.0.5"))},
			reservation: "10.0.0.5", reservationWant: judge.InUse, reservationReason: judge.AddressOnPod},
		{id: "A12", says: "a reservation with an empty podref, while a live pod has the address", parts: []Part{UsualPool,
			Reservation("10.0.0.5", "", LongAgo), node, UsualPod(Carrying("10.0.0.5"))},
			ip: "10.0.0.5", want: judge.InUse, reason: judge.AddressOnPod, reservation: "10.0.0.5", reservationWant: judge.Held,
			reservationReason: judge.Malformed},
		{id: "A12", says: "a reservation and an entry whose podref is no podref",
			parts: []Part{Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "weird", "box-1", "net1")), Reservation("10.0.0.5",
				"a/b/c", LongAgo), node},
			ip: "10.0.0.5", want: judge.Held, reason: judge.Malformed, reservation: "10.0.0.5", reservationWant: judge.Held,
			reservationReason: judge.Malformed},
		{id: "A13", says: "a terminating pod of a tainted node, an hour of grace ahead of it, without agents",
			parts: []Part{UsualPool, node,
				UsualPod(Carrying("10.0.0.5"), DeletedAgo(-time.Hour), GracePeriod(time.Hour), Disrupted)},
			ip: "10.0.0.5", want: judge.Held, reason: judge.Terminating},
		{id: "A13", says: "the same on a node that is not Ready", parts: []Part{UsualPool,
			Node("worker-1", NotReadyFor(time.Minute)), UsualPod(Carrying("10.0.0.5"), DeletedAgo(time.Hour), Disrupted)},
			ip: "10.0.0.5", want: judge.Held, reason: judge.NodeUnreachable},
		{id: "A13", says: "the same on a partitioned node whose agent has no fresh report", parts: []Part{UsualPool,
			Node("worker-1", NotReadyFor(time.Minute)), StaleReport("worker-1", Sandbox("box-1", UsualUID)),
			UsualPod(Carrying("10.0.0.5"), DeletedAgo(time.Hour), Disrupted)},
			ip: "10.0.0.5", want: judge.Held, reason: judge.NodeUnreachable},
		{id: "A14", says: "an address of a range wider than /64, stored modulo 2^64", parts: []Part{
			Pool("193---24", "193::/24", Alloc("2", "default/web-0", "box-1", "net1")), node, UsualPod(Carrying("193:21:4::2"))},
			ip: "193::2", want: judge.InUse, reason: judge.AddressOnPod},
	} {
		s.check(t)
	}
}

// A17: the successor of a deleted pod has its UID to show for itself.
func TestDefects_A17Successor(t *testing.T) {
	successor := UsualPod(UID("uid-2"), OnNode("worker-2"), Carrying("10.0.0.5"), DeletedAgo(-time.Hour),
		GracePeriod(time.Hour))
	nodes := All(Node("worker-1"), Node("worker-2"))
	t.Run("its own sandbox runs, though it is being deleted and its predecessor's has ended", func(t *testing.T) {
		Expect(t, Want(judge.Held, judge.Terminating, false, judge.Ready), UsualPool, nodes, successor,
			FreshReport("worker-1", Gone("box-0", "uid-1")), FreshReport("worker-2", Sandbox("box-1", "uid-2")))
	})
	t.Run("it carries the address, its node has no fresh report, and its predecessor's sandbox has ended",
		func(t *testing.T) {
			Expect(t, Want(judge.Held, judge.NoFreshReportReason, false, judge.NoFreshReport), UsualPool, nodes, successor,
				FreshReport("worker-1", Gone("box-0", "uid-1")), StaleReport("worker-2", Sandbox("box-1", "uid-2")))
		})
	t.Run("without agents", func(t *testing.T) {
		Expect(t, Want(judge.Held, judge.Terminating, false, judge.NoSource), UsualPool, nodes, successor)
	})
}
