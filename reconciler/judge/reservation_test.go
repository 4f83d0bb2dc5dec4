package judge_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

type decision struct {
	Verdict judge.Verdict
	Reason  judge.Reason
	Proven  bool
}

func expectReservation(t *testing.T, name string, want decision, parts ...Part) *judge.Item {
	t.Helper()
	it := ReservationOf(t, Judged(Observe(parts...), facts.Policy{}), name)
	if got := (decision{it.Verdict, it.Reason, it.Proven}); got != want {
		t.Error(Wrong(it, want))
	}
	if it.Message() == "" {
		t.Error("the verdict has no sentence")
	}
	return it
}

// A reservation shares the verdict of its allocation, every one of them.
func TestAReservationSharesItsAllocationsVerdict(t *testing.T) {
	for _, r := range tableRows() {
		for _, p := range r.pods {
			for _, b := range r.sandboxes {
				it := ReservationOf(t, Judged(Observe(UsualPool, reserved, p.pod, b.parts), facts.Policy{}), "10.0.0.5")
				if got, want := (decision{it.Verdict, it.Reason, it.Proven}),
					(decision{r.verdict, r.reason, r.proven}); got != want {
					t.Errorf("%s whose sandbox %s: got %v, want %v", p.says, b.says, got, want)
				}
			}
		}
	}
	t.Run("a verdict that was overruled too", func(t *testing.T) {
		expectReservation(t, "10.0.0.5", decision{judge.Held, judge.ClaimedByOther, false}, UsualSandboxGone, reserved,
			Pod("web-1", Carrying("10.0.0.5")))
	})
	t.Run("the verdict on an allocation with a field that is not known too", func(t *testing.T) {
		expectReservation(t, "10.0.0.5", decision{judge.Held, judge.UnknownField, false}, reserved, Node("worker-1"),
			RawPool("10.0.0.0-24", map[string]any{"range": "10.0.0.0/24", "allocations": map[string]any{
				"5": map[string]any{"id": "box-1", "podref": "default/web-0", "ifname": "net1", "ipamclaimref": "claim"}}}))
	})
	t.Run("the verdict on an allocation that cannot be read too", func(t *testing.T) {
		expectReservation(t, "10.0.0.5", decision{judge.Held, judge.Malformed, false}, reserved, Node("worker-1"),
			RawPool("10.0.0.0-24", map[string]any{"range": "10.0.0.0/24", "allocations": map[string]any{
				"5": map[string]any{"id": int64(7), "podref": "default/web-0", "ifname": "net1"}}}))
	})
}

// The age of a reservation is what keeps that of an ADD in progress.
func TestAReservationOfUnknownAgeIsHeld(t *testing.T) {
	withoutAge := func(o *Observed) {
		reserved(o)
		o.Reservations.Or(nil)[0].Created = time.Time{}
	}
	for _, parts := range map[string][]Part{"with agents": {ReportingWorker()}, "without agents": {Node("worker-1")}} {
		expectReservation(t, "10.0.0.5", decision{judge.Held, judge.Malformed, false}, append(parts, empty, withoutAge)...)
	}
}

// Names are matched by building them from what pools hold, never by parsing.
func TestReservationsAreMatchedByBuildingTheirNames(t *testing.T) {
	for _, c := range []struct {
		says            string
		pool, cidr, key string
		reservation     string
	}{
		{"IPv4", "10.0.0.0-24", "10.0.0.0/24", "5", "10.0.0.5"},
		{"IPv4 in a named network", "red-10.0.0.0-24", "10.0.0.0/24", "5", "red-10.0.0.5"},
		{"a network name that looks like the head of an address", "fd00-2001-db8---64", "2001:db8::/64", "10",
			"fd00-2001-db8--a"},
		{"IPv6 that ends in two colons, in a named network", "red-2001-db8-0-1---64", "2001:db8:0:1::/64", "0",
			"red-2001-db8-0-1--0"},
		{"a node's slice", "worker-1-10.0.0.0-28", "10.0.0.0/28", "5", "10.0.0.5"},
		{"a node's slice in a named network", "red-worker-1-10.0.0.0-28", "10.0.0.0/28", "5", "red-10.0.0.5"},
		{"a v4-mapped range prints as v4", "--ffff-10.0.0.0-120", "::ffff:10.0.0.0/120", "5", "10.0.0.5"},
	} {
		t.Run(c.says, func(t *testing.T) {
			it := expectReservation(t, c.reservation, decision{judge.Stale, judge.PodGone, true},
				Pool(c.pool, c.cidr, Alloc(c.key, "default/web-0", "box-1", "net1")), Reservation(c.reservation, "default/web-0",
					LongAgo), ReportingWorker(gone1))
			if len(it.Related()) != 1 || it.Evidence() != nil {
				t.Errorf("it was not matched with its allocation: %+v", it)
			}
		})
	}
}

func TestAReservationOfAnotherIsNotTheAllocations(t *testing.T) {
	live := All(UsualPool, carrier.pod, ReportingWorker())
	t.Run("another podref: it stands alone, and the live allocation does not keep it", func(t *testing.T) {
		it := expectReservation(t, "10.0.0.5", decision{judge.Stale, judge.PodGone, false}, UsualPool, UsualPod(),
			ReportingWorker(), Reservation("10.0.0.5", "default/gone", LongAgo))
		if len(it.Related()) > 0 {
			t.Error("it was matched with an allocation of another pod")
		}
	})
	t.Run("another podref, while the allocation's pod carries the address: claimed", func(t *testing.T) {
		expectReservation(t, "10.0.0.5", decision{judge.Held, judge.ClaimedByOther, false}, live, Reservation("10.0.0.5",
			"default/gone", LongAgo))
	})
	t.Run("another network", func(t *testing.T) {
		expectReservation(t, "red-10.0.0.5", decision{judge.Stale, judge.PodGone, false}, UsualSandboxGone,
			Pool("red-10.0.0.0-24", "10.0.0.0/24"), Reservation("red-10.0.0.5", "default/web-0", LongAgo))
	})
}

func TestAReservationOfSeveralAllocationsIsAsSafeAsTheSafest(t *testing.T) {
	wide := func(id, ifName string) Part {
		return Pool("10.0.0.0-16", "10.0.0.0/16", Alloc("5", "default/web-0", id, ifName))
	}
	for _, c := range []struct {
		says  string
		want  decision
		parts []Part
	}{
		{"stale, proven, and in use", decision{judge.InUse, judge.SandboxReady, false},
			[]Part{UsualPod(), ReportingWorker(gone1, Sandbox("box-2", UsualUID))}},
		{"stale, proven, and held", decision{judge.Held, judge.SandboxNotReady, false},
			[]Part{ReportingWorker(gone1, Sandbox("box-2", UsualUID, NotReady(nil)))}},
		{"stale, proven, and stale, unconfirmed", decision{judge.Stale, judge.PodGone, false},
			[]Part{ReportingWorker(gone1)}},
		{"stale, proven, both", decision{judge.Stale, judge.PodGone, true}, []Part{ReportingWorker(gone1,
			Gone("box-2", UsualUID))}},
	} {
		t.Run(c.says, func(t *testing.T) {
			first := expectReservation(t, "10.0.0.5", c.want, append([]Part{UsualPool, wide("box-2", "net2"), reserved},
				c.parts...)...)
			second := expectReservation(t, "10.0.0.5", c.want, append([]Part{wide("box-2", "net2"), UsualPool, reserved},
				c.parts...)...)
			if len(first.Related()) != 2 || len(second.Related()) != 2 {
				t.Errorf("matched with %d and %d allocations", len(first.Related()), len(second.Related()))
			}
		})
	}
}

func TestAReservationThatStandsAlone(t *testing.T) {
	has := func(edits ...SandboxEdit) ReportEdit {
		return Sandbox("box-7", UsualUID, append([]SandboxEdit{with5}, edits...)...)
	}
	worker := Node("worker-1")
	expectReservations(t, All(empty, reserved), []decisionCase{
		{"no pod, and no report has the address", decision{judge.Stale, judge.PodGone, false}, []Part{ReportingWorker()}},
		{"no pod and no agents", decision{judge.Stale, judge.PodGone, false}, []Part{worker}},
		{"no pod, no agents, and a node not Ready", decision{judge.Held, judge.NodeUnreachable, false},
			[]Part{noSourceDown.parts}},
		{"no pod, and a node without a fresh report", decision{judge.Held, judge.NoFreshReportReason, false},
			[]Part{worker, StaleReport("worker-1")}},
		{"the pod carries the address", decision{judge.InUse, judge.AddressOnPod, false},
			[]Part{carrier.pod, ReportingWorker()}},
		{"the pod carries the address, without agents", decision{judge.InUse, judge.AddressOnPod, false},
			[]Part{carrier.pod, worker}},
		{"the pod is Pending", decision{judge.InUse, judge.PodPending, false}, []Part{pending.pod, worker}},
		{"the pod's sandbox has it and runs", decision{judge.InUse, judge.SandboxReady, false},
			[]Part{UsualPod(), ReportingWorker(has())}},
		{"a sandbox without its pod has it and runs", decision{judge.Held, judge.PhantomPod, false},
			[]Part{ReportingWorker(has())}},
		{"another pod's sandbox has it and runs", decision{judge.Held, judge.PhantomPod, false},
			[]Part{UsualPod(), ReportingWorker(Sandbox("box-7", "uid-9", OfPod("web-9"), with5))}},
		{"a sandbox has it and is not ready", decision{judge.Held, judge.SandboxNotReady, false},
			[]Part{ReportingWorker(has(NotReady(nil)))}},
		{"a sandbox has it and has stopped: never proven", decision{judge.Stale, judge.PodGone, false},
			[]Part{ReportingWorker(has(NotReady(Closed)))}},
		{"a stopped sandbox has it, the pod is live without it: never proven", decision{judge.Stale, judge.AddressNotOnPod,
			false}, []Part{UsualPod(), ReportingWorker(has(NotReady(Closed)))}},
		{"an attachment has it", decision{judge.Held, judge.AttachedReason, false},
			[]Part{ReportingWorker(Attachment("box-7", UsualUID, time.Minute, nil, Address("10.0.0.5", "")))}},
		{"one sandbox that has it stopped and another runs", decision{judge.InUse, judge.SandboxReady, false},
			[]Part{UsualPod(), ReportingWorker(Sandbox("box-6", OtherUID, with5, NotReady(Closed)), has())}},
		{"a sandbox has the address in another network", decision{judge.Stale, judge.PodGone, false},
			[]Part{ReportingWorker(Sandbox("box-7", UsualUID, WithAddress("10.0.0.5", "red")))}},
		{"a sandbox of a node without a fresh report has it", decision{judge.Held, judge.NoFreshReportReason, false},
			[]Part{worker, Node("worker-2"), FreshReport("worker-1"), StaleReport("worker-2", has())}},
		{"the pod is live without the address", decision{judge.Stale, judge.AddressNotOnPod, false},
			[]Part{UsualPod(), ReportingWorker()}},
		{"the pod is live without the address, and no agents", decision{judge.Held, judge.AddressNotOnPod, false},
			[]Part{UsualPod(), worker}},
		{"the pod is live without a status", decision{judge.Held, judge.NetworkStatusMissing, false},
			[]Part{UsualPod(NoNetworkStatus), ReportingWorker()}},
		{"another pod carries the address", decision{judge.Held, judge.ClaimedByOther, false},
			[]Part{Pod("web-1", Carrying("10.0.0.5")), ReportingWorker()}},
		{"the pod is finished and kubelet stopped it", decision{judge.Stale, judge.PodFinished, false},
			[]Part{succeeded.pod, worker}},
		// It names no sandbox, so that no node is known to have run it.
		{"the node that has the address is dead: not NodeDead", decision{judge.Held, judge.NoFreshReportReason, false},
			[]Part{dead1, StaleReport("worker-1", has())}},
		{"the node that has the address is missing: not NodeMissing", decision{judge.Held, judge.NoFreshReportReason, false},
			[]Part{Node("worker-2"), FreshReport("worker-2"), StaleReport("worker-1", has())}},
		{"without agents, the terminating pod's node is dead: not NodeDead", decision{judge.Held, judge.NodeUnreachable,
			false}, []Part{dead1, terminating.pod}},
		{"without agents, the terminating pod's node is missing: not NodeMissing", decision{judge.Held, judge.Terminating,
			false}, []Part{Node("worker-2"), terminating.pod}},
		{"the pod carries the address in another network, whose pool has the allocation",
			decision{judge.Stale, judge.AddressNotOnPod, false}, []Part{carrier.pod, ReportingWorker(),
				Pool("red-10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/web-0", "box-2", "net1")),
				NAD("wb", WhereaboutsConfig("10.0.0.0/24", "red"))}},
		{"the pod carries the address in another network by a definition that was edited",
			decision{judge.InUse, judge.AddressOnPod, false},
			[]Part{carrier.pod, ReportingWorker(), NAD("wb", WhereaboutsConfig("10.0.0.0/24", "red"))}},
		{"the pod carries the address in this network, and in another whose pool has the allocation",
			decision{judge.InUse, judge.AddressOnPod, false}, []Part{carrier.pod, ReportingWorker(),
				Pool("red-10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/web-0", "box-2", "net1")), wb}},
		{"every other node is dead, and the rest have fresh reports", decision{judge.Stale, judge.PodGone, false},
			[]Part{ReportingWorker(), dead2}},
	})
}

// A reservation is never proven stale on its own, whatever is seen.
func TestAReservationThatStandsAloneIsNeverProven(t *testing.T) {
	for _, r := range tableRows() {
		for _, p := range r.pods {
			for _, b := range r.sandboxes {
				o := Observe(empty, reserved, p.pod, b.parts)
				for _, report := range o.Reports.Or(nil) { // the sandbox is found by its address
					for i := range report.Sandboxes {
						report.Sandboxes[i].Addresses = append(report.Sandboxes[i].Addresses, Address("10.0.0.5", ""))
					}
					for i := range report.Attachments {
						report.Attachments[i].Addresses = append(report.Attachments[i].Addresses, Address("10.0.0.5", ""))
					}
				}
				it := ReservationOf(t, Judged(o, facts.Policy{}), "10.0.0.5")
				name := fmt.Sprintf("%s whose sandbox %s", p.says, b.says)
				if it.Proven || it.Reason == judge.NodeDeadReason || it.Reason == judge.NodeMissingReason {
					t.Errorf("%s: %+v", name, it.Decision)
				}
				if s := it.Evidence().Sandbox; it.Verdict == judge.Stale && (s == judge.Ready || s == judge.NotReady ||
					s == judge.Attached) {
					t.Errorf("%s: stale with sandbox %s", name, s)
				}
			}
		}
	}
}

func TestAReservationMustBeUnambiguous(t *testing.T) {
	stale, bad := decision{judge.Stale, judge.PodGone, false}, decision{judge.Held, judge.Malformed, false}
	// fd00:1::2 in the unnamed network
	unnamed := Pool("fd00-1---65", "fd00:1::/65")
	named := func(allocs ...Allocation) Part { return Pool("fd00-1---64", "1::/64", allocs...) } // 1::2 in network "fd00"
	other := func(name, podRef string) Part { return Reservation(name, podRef, LongAgo) }
	for _, c := range []struct {
		says, name string
		want       decision
		parts      []Part
	}{
		{"one pool gives the name", "fd00-1--2", stale, []Part{unnamed, other("fd00-1--2", "default/web-0")}},
		{"another pool alone gives the name", "fd00-1--2", stale, []Part{named(), other("fd00-1--2", "default/web-0")}},
		{"two networks give the name", "fd00-1--2", bad, []Part{unnamed, named(), other("fd00-1--2", "default/web-0")}},
		{"two pools of one network give the name", "10.0.0.5", stale,
			[]Part{empty, Pool("10.0.0.0-16", "10.0.0.0/16"), other("10.0.0.5", "default/web-0")}},
		{"no pool gives the name", "10.0.0.5", bad, []Part{Pool("10.9.0.0-24", "10.9.0.0/24"),
			other("10.0.0.5", "default/web-0")}},
		{"no pool of that network", "red-10.0.0.5", bad, []Part{empty, other("red-10.0.0.5", "default/web-0")}},
		{"the one pool of the range cannot be read", "10.0.0.5", bad, []Part{Pool("10.0.0.0-24", "10.0.0.0"),
			other("10.0.0.5", "default/web-0")}},
		{"a name that whereabouts would not give: zeros", "10.0.0.05", bad, []Part{empty,
			other("10.0.0.05", "default/web-0")}},
		{"no podref", "10.0.0.5", bad, []Part{empty, other("10.0.0.5", "")}},
		{"a field that is not known", "10.0.0.5", decision{judge.Held, judge.UnknownField, false},
			[]Part{empty,
				RawReservation("10.0.0.5", LongAgo, map[string]any{"podref": "default/web-0", "ipamclaimref": "claim"})}},
		{"the field that is known and never set", "10.0.0.5", stale, []Part{empty,
			RawReservation("10.0.0.5", LongAgo, map[string]any{"podref": "default/web-0", "containerid": "box-1"})}},
	} {
		t.Run(c.says, func(t *testing.T) {
			expectReservation(t, c.name, c.want, append([]Part{ReportingWorker()}, c.parts...)...)
		})
	}
	t.Run("ambiguous by name, and an allocation of its podref settles it", func(t *testing.T) {
		expectReservation(t, "fd00-1--2", decision{judge.Stale, judge.PodGone, true}, ReportingWorker(gone1), unnamed,
			named(Alloc("2", "default/web-0", "box-1", "net1")), other("fd00-1--2", "default/web-0"))
	})
	t.Run("a field that is not known holds it although its allocation is stale", func(t *testing.T) {
		expectReservation(t, "10.0.0.5", decision{judge.Held, judge.UnknownField, false}, UsualSandboxGone,
			RawReservation("10.0.0.5", LongAgo, map[string]any{"podref": "default/web-0", "ipamclaimref": "claim"}))
	})
}

func TestARecentReservation(t *testing.T) {
	young := decision{judge.InUse, judge.Recent, false}
	of := func(age time.Duration) Part { return Reservation("10.0.0.5", "default/web-0", age) }
	alone := All(empty, ReportingWorker())
	expectReservations(t, Nothing, []decisionCase{
		{"younger than two minutes", young, []Part{alone, of(119 * time.Second)}},
		{"of the future", young, []Part{alone, of(-time.Minute)}},
		{"older than two minutes", decision{judge.Stale, judge.PodGone, false}, []Part{alone, of(121 * time.Second)}},
		{"young and with another's podref than the allocation's", young,
			[]Part{UsualSandboxGone, Reservation("10.0.0.5", "default/new", time.Minute)}},
	})
}

// Else each pass would delete it again, and count it as a release.
func TestAReservationThatIsBeingDeletedIsHeld(t *testing.T) {
	deleting := func(o *Observed) { o.Reservations.Or(nil)[len(o.Reservations.Or(nil))-1].Deleting = true }
	expectReservation(t, "10.0.0.5", decision{judge.Held, judge.BeingDeleted, false}, empty,
		ReportingWorker(), Reservation("10.0.0.5", "default/web-0", time.Hour), deleting)
}
