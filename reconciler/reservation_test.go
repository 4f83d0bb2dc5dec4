package reconciler

import (
	"fmt"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

type resOutcome struct {
	Verdict judge.Verdict
	Reason  judge.Reason
	Proven  bool
}

func expectReservation(t *testing.T, name string, want resOutcome, parts ...part) *judge.Item {
	t.Helper()
	it := reservationIn(t, judged(observe(parts...), judge.Policy{}), name)
	if got := (resOutcome{it.Verdict, it.Reason, it.Proven}); got != want {
		t.Errorf("got  %v\nwant %v\nit says: %s", got, want, it.Message())
	}
	if it.Message() == "" {
		t.Error("the verdict has no sentence")
	}
	return it
}

// A reservation shares the verdict of its allocation, every one of them.
func TestAReservationSharesItsAllocationsVerdict(t *testing.T) {
	res := aReservation("10.0.0.5", "default/web-0", old)
	for _, r := range rows() {
		for _, p := range r.pods {
			for _, b := range r.boxes {
				it := reservationIn(t, judged(observe(usualPool, res, p.pod, b.parts), judge.Policy{}), "10.0.0.5")
				if got, want := (resOutcome{it.Verdict, it.Reason, it.Proven}), (resOutcome{r.verdict, r.reason, r.proven}); got != want {
					t.Errorf("%s whose sandbox %s: got %v, want %v", p.says, b.says, got, want)
				}
			}
		}
	}
	t.Run("a verdict that was overruled too", func(t *testing.T) {
		expectReservation(t, "10.0.0.5", resOutcome{judge.Held, judge.ClaimedByOther, false}, goneBox, res, aPod("web-1", carrying("10.0.0.5")))
	})
	t.Run("the verdict on an entry with a field that is not known too", func(t *testing.T) {
		expectReservation(t, "10.0.0.5", resOutcome{judge.Held, judge.UnknownField, false}, res, aNode("worker-1"),
			rawPool("10.0.0.0-24", map[string]any{"range": "10.0.0.0/24", "allocations": map[string]any{
				"5": map[string]any{"id": "box-1", "podref": "default/web-0", "ifname": "net1", "ipamclaimref": "claim"}}}))
	})
	t.Run("the verdict on an entry that cannot be read too", func(t *testing.T) {
		expectReservation(t, "10.0.0.5", resOutcome{judge.Held, judge.Malformed, false}, res, aNode("worker-1"),
			rawPool("10.0.0.0-24", map[string]any{"range": "10.0.0.0/24", "allocations": map[string]any{
				"5": map[string]any{"id": int64(7), "podref": "default/web-0", "ifname": "net1"}}}))
	})
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
		{"a network name with dashes", "my-red-net-10.0.0.0-24", "10.0.0.0/24", "5", "my-red-net-10.0.0.5"},
		{"a network name that is an address", "10.9.9.9-10.0.0.0-24", "10.0.0.0/24", "5", "10.9.9.9-10.0.0.5"},
		{"a network name that looks like the head of an address", "fd00-2001-db8---64", "2001:db8::/64", "10", "fd00-2001-db8--a"},
		{"IPv6", "2001-db8---64", "2001:db8::/64", "10", "2001-db8--a"},
		{"IPv6 that ends in two colons, at the base of its range", "2001-db8-0-1---64", "2001:db8:0:1::/64", "0", "2001-db8-0-1--0"},
		{"IPv6 that ends in two colons, in a named network", "red-2001-db8-0-1---64", "2001:db8:0:1::/64", "0", "red-2001-db8-0-1--0"},
		{"a node's slice", "worker-1-10.0.0.0-28", "10.0.0.0/28", "5", "10.0.0.5"},
		{"a node's slice in a named network", "red-worker-1-10.0.0.0-28", "10.0.0.0/28", "5", "red-10.0.0.5"},
		{"a range written with a host address", "10.0.0.3-24", "10.0.0.3/24", "2", "10.0.0.5"},
		{"a v4-mapped range prints as v4", "--ffff-10.0.0.0-120", "::ffff:10.0.0.0/120", "5", "10.0.0.5"},
	} {
		t.Run(c.says, func(t *testing.T) {
			it := expectReservation(t, c.reservation, resOutcome{judge.Stale, judge.PodGone, true},
				aPool(c.pool, c.cidr, alloc{c.key, "default/web-0", "box-1", "net1"}), aReservation(c.reservation, "default/web-0", old), onWorker(gone("box-1", its1)))
			if len(it.Related()) != 1 || it.Evidence() != nil {
				t.Errorf("it was not matched with its allocation: %+v", it)
			}
		})
	}
	t.Run("an address of a wide range by its key", func(t *testing.T) {
		expectReservation(t, "193-21-4--2", resOutcome{judge.Stale, judge.PodGone, true},
			aPool("193---24", "193::/24", alloc{"2", "default/web-0", "box-1", "net1"}), aReservation("193-21-4--2", "default/web-0", old), onWorker(gone("box-1", its1)))
	})
}

func TestAReservationOfAnotherIsNotTheAllocations(t *testing.T) {
	live := all(usualPool, carrier.pod, onWorker())
	t.Run("another podref: it stands alone, and the live allocation does not keep it", func(t *testing.T) {
		it := expectReservation(t, "10.0.0.5", resOutcome{judge.Stale, judge.PodGone, false}, usualPool, web(), onWorker(), aReservation("10.0.0.5", "default/gone", old))
		if len(it.Related()) > 0 {
			t.Error("it was matched with an allocation of another pod")
		}
	})
	t.Run("another podref, while the allocation's pod carries the address: claimed", func(t *testing.T) {
		expectReservation(t, "10.0.0.5", resOutcome{judge.Held, judge.ClaimedByOther, false}, live, aReservation("10.0.0.5", "default/gone", old))
	})
	t.Run("another network", func(t *testing.T) {
		expectReservation(t, "red-10.0.0.5", resOutcome{judge.Stale, judge.PodGone, false}, goneBox, aPool("red-10.0.0.0-24", "10.0.0.0/24"), aReservation("red-10.0.0.5", "default/web-0", old))
	})
}

func TestAReservationOfSeveralAllocationsIsAsSafeAsTheSafest(t *testing.T) {
	res := aReservation("10.0.0.5", "default/web-0", old)
	wide := func(id, ifName string) part {
		return aPool("10.0.0.0-16", "10.0.0.0/16", alloc{"5", "default/web-0", id, ifName})
	}
	for _, c := range []struct {
		says  string
		want  resOutcome
		parts []part
	}{
		{"stale, proven, and in use", resOutcome{judge.InUse, judge.SandboxReady, false}, []part{web(), onWorker(gone("box-1", its1), box("box-2", its1))}},
		{"stale, proven, and held", resOutcome{judge.Held, judge.SandboxNotReady, false}, []part{onWorker(gone("box-1", its1), box("box-2", its1, notReady(nil)))}},
		{"stale, proven, and stale, unconfirmed", resOutcome{judge.Stale, judge.PodGone, false}, []part{onWorker(gone("box-1", its1))}},
		{"stale, proven, both", resOutcome{judge.Stale, judge.PodGone, true}, []part{onWorker(gone("box-1", its1), gone("box-2", its1))}},
	} {
		t.Run(c.says, func(t *testing.T) {
			first := expectReservation(t, "10.0.0.5", c.want, append([]part{usualPool, wide("box-2", "net2"), res}, c.parts...)...)
			second := expectReservation(t, "10.0.0.5", c.want, append([]part{wide("box-2", "net2"), usualPool, res}, c.parts...)...)
			if len(first.Related()) != 2 || len(second.Related()) != 2 {
				t.Errorf("matched with %d and %d allocations", len(first.Related()), len(second.Related()))
			}
		})
	}
}

func TestAReservationThatStandsAlone(t *testing.T) {
	pool := aPool("10.0.0.0-24", "10.0.0.0/24")
	res := aReservation("10.0.0.5", "default/web-0", old)
	has := func(edits ...boxEdit) content {
		return box("box-7", its1, append([]boxEdit{holding("10.0.0.5", "")}, edits...)...)
	}
	worker := aNode("worker-1")
	for _, c := range []struct {
		says  string
		want  resOutcome
		parts []part
	}{
		{"no pod, and no report has the address", resOutcome{judge.Stale, judge.PodGone, false}, []part{onWorker()}},
		{"no pod and no agents", resOutcome{judge.Stale, judge.PodGone, false}, []part{worker}},
		{"no pod, no agents, and a node not Ready", resOutcome{judge.Held, judge.NodeUnreachable, false}, []part{noSourceDown.parts}},
		{"no pod, and a node not heard", resOutcome{judge.Held, judge.NoFreshReportReason, false}, []part{worker, staleReport("worker-1")}},
		{"the pod carries the address", resOutcome{judge.InUse, judge.AddressOnPod, false}, []part{carrier.pod, onWorker()}},
		{"the pod carries the address, without agents", resOutcome{judge.InUse, judge.AddressOnPod, false}, []part{carrier.pod, worker}},
		{"the pod is Pending", resOutcome{judge.InUse, judge.PodPending, false}, []part{pending.pod, worker}},
		{"the pod's sandbox has it and runs", resOutcome{judge.InUse, judge.SandboxReady, false}, []part{web(), onWorker(has())}},
		{"a sandbox without its pod has it and runs", resOutcome{judge.Held, judge.PhantomPod, false}, []part{onWorker(has())}},
		{"another pod's sandbox has it and runs", resOutcome{judge.Held, judge.PhantomPod, false}, []part{web(), onWorker(box("box-7", "uid-9", of("web-9"), holding("10.0.0.5", "")))}},
		{"a sandbox has it and is not ready", resOutcome{judge.Held, judge.SandboxNotReady, false}, []part{onWorker(has(notReady(nil)))}},
		{"a sandbox has it and has stopped: never proven", resOutcome{judge.Stale, judge.PodGone, false}, []part{onWorker(has(notReady(closed)))}},
		{"a stopped sandbox has it, the pod is live without it: never proven", resOutcome{judge.Stale, judge.AddressNotOnPod, false}, []part{web(), onWorker(has(notReady(closed)))}},
		{"an attachment has it", resOutcome{judge.Held, judge.AttachedReason, false}, []part{onWorker(attachment("box-7", its1, time.Minute, nil, address("10.0.0.5", "")))}},
		{"one sandbox that has it stopped and another runs", resOutcome{judge.InUse, judge.SandboxReady, false},
			[]part{web(), onWorker(box("box-6", others, holding("10.0.0.5", ""), notReady(closed)), has())}},
		{"a sandbox has the address in another network", resOutcome{judge.Stale, judge.PodGone, false}, []part{onWorker(box("box-7", its1, holding("10.0.0.5", "red")))}},
		{"a sandbox of an unheard node has it", resOutcome{judge.Held, judge.NoFreshReportReason, false}, []part{worker, aNode("worker-2"), freshReport("worker-1"), staleReport("worker-2", has())}},
		{"the pod is live without the address", resOutcome{judge.Stale, judge.AddressNotOnPod, false}, []part{web(), onWorker()}},
		{"the pod is live without a status", resOutcome{judge.Held, judge.NetworkStatusMissing, false}, []part{web(noStatusAtAll), onWorker()}},
		{"another pod carries the address", resOutcome{judge.Held, judge.ClaimedByOther, false}, []part{aPod("web-1", carrying("10.0.0.5")), onWorker()}},
		{"the pod is finished and kubelet stopped it", resOutcome{judge.Stale, judge.PodFinished, false}, []part{succeeded.pod, worker}},
		// It names no sandbox, so that no node is known to have run it.
		{"the node that has the address is dead: not NodeDead", resOutcome{judge.Held, judge.NoFreshReportReason, false},
			[]part{aNode("worker-1", notReadyFor(time.Hour), outOfService), staleReport("worker-1", has())}},
		{"the node that has the address is missing: not NodeMissing", resOutcome{judge.Held, judge.NoFreshReportReason, false},
			[]part{aNode("worker-2"), freshReport("worker-2"), staleReport("worker-1", has())}},
		{"without agents, the terminating pod's node is dead: not NodeDead", resOutcome{judge.Held, judge.NodeUnreachable, false},
			[]part{aNode("worker-1", notReadyFor(time.Hour), outOfService), terminating.pod}},
		{"without agents, the terminating pod's node is missing: not NodeMissing", resOutcome{judge.Held, judge.Terminating, false}, []part{aNode("worker-2"), terminating.pod}},
		{"the pod carries the address in another network, whose pool has the entry", resOutcome{judge.Stale, judge.AddressNotOnPod, false}, []part{carrier.pod, onWorker(),
			aPool("red-10.0.0.0-24", "10.0.0.0/24", alloc{"5", "default/web-0", "box-2", "net1"}), aNAD("wb", whereabouts("10.0.0.0/24", "red"))}},
		{"the pod carries the address in another network by a definition that was edited", resOutcome{judge.InUse, judge.AddressOnPod, false},
			[]part{carrier.pod, onWorker(), aNAD("wb", whereabouts("10.0.0.0/24", "red"))}},
		{"the pod carries the address in this network, and in another whose pool has the entry", resOutcome{judge.InUse, judge.AddressOnPod, false}, []part{carrier.pod, onWorker(),
			aPool("red-10.0.0.0-24", "10.0.0.0/24", alloc{"5", "default/web-0", "box-2", "net1"}), aNAD("wb", whereabouts("10.0.0.0/24", ""))}},
		{"every other node is dead, and the rest are heard", resOutcome{judge.Stale, judge.PodGone, false},
			[]part{onWorker(), aNode("worker-2", notReadyFor(time.Hour), outOfService)}},
	} {
		t.Run(c.says, func(t *testing.T) { expectReservation(t, "10.0.0.5", c.want, append([]part{pool, res}, c.parts...)...) })
	}
}

// A reservation is never proven stale on its own, whatever is seen.
func TestAReservationThatStandsAloneIsNeverProven(t *testing.T) {
	for _, r := range rows() {
		for _, p := range r.pods {
			for _, b := range r.boxes {
				o := observe(aPool("10.0.0.0-24", "10.0.0.0/24"), aReservation("10.0.0.5", "default/web-0", old), p.pod, b.parts)
				for _, report := range o.Reports { // the sandbox is found by its address
					for i := range report.Sandboxes {
						report.Sandboxes[i].Addresses = append(report.Sandboxes[i].Addresses, address("10.0.0.5", ""))
					}
					for i := range report.Attachments {
						report.Attachments[i].Addresses = append(report.Attachments[i].Addresses, address("10.0.0.5", ""))
					}
				}
				it := reservationIn(t, judged(o, judge.Policy{}), "10.0.0.5")
				name := fmt.Sprintf("%s whose sandbox %s", p.says, b.says)
				if it.Proven || it.Reason == judge.NodeDeadReason || it.Reason == judge.NodeMissingReason {
					t.Errorf("%s: %+v", name, it.Judged)
				}
				if s := it.Evidence().Sandbox; it.Verdict == judge.Stale && (s == judge.Ready || s == judge.NotReady || s == judge.Attached) {
					t.Errorf("%s: stale with sandbox %s", name, s)
				}
			}
		}
	}
}

func TestAReservationMustBeUnambiguous(t *testing.T) {
	stale, bad := resOutcome{judge.Stale, judge.PodGone, false}, resOutcome{judge.Held, judge.Malformed, false}
	unnamed := aPool("fd00---16", "fd00::/16")                                               // fd00:1::2 in the unnamed network
	named := func(allocs ...alloc) part { return aPool("fd00-1---64", "1::/64", allocs...) } // 1::2 in network "fd00"
	other := func(name, podRef string) part { return aReservation(name, podRef, old) }
	for _, c := range []struct {
		says, name string
		want       resOutcome
		parts      []part
	}{
		{"one pool gives the name", "fd00-1--2", stale, []part{unnamed, other("fd00-1--2", "default/web-0")}},
		{"another pool alone gives the name", "fd00-1--2", stale, []part{named(), other("fd00-1--2", "default/web-0")}},
		{"two networks give the name", "fd00-1--2", bad, []part{unnamed, named(), other("fd00-1--2", "default/web-0")}},
		{"two pools of one network give the name", "10.0.0.5", stale,
			[]part{aPool("10.0.0.0-24", "10.0.0.0/24"), aPool("10.0.0.0-16", "10.0.0.0/16"), other("10.0.0.5", "default/web-0")}},
		{"no pool gives the name", "10.0.0.5", bad, []part{aPool("10.9.0.0-24", "10.9.0.0/24"), other("10.0.0.5", "default/web-0")}},
		{"no pool of that network", "red-10.0.0.5", bad, []part{aPool("10.0.0.0-24", "10.0.0.0/24"), other("red-10.0.0.5", "default/web-0")}},
		{"the one pool of the range cannot be read", "10.0.0.5", bad, []part{aPool("10.0.0.0-24", "10.0.0.0"), other("10.0.0.5", "default/web-0")}},
		{"a name that whereabouts would not give: zeros", "10.0.0.05", bad, []part{aPool("10.0.0.0-24", "10.0.0.0/24"), other("10.0.0.05", "default/web-0")}},
		{"a name that is no address", "mine", bad, []part{aPool("10.0.0.0-24", "10.0.0.0/24"), other("mine", "default/web-0")}},
		{"no podref", "10.0.0.5", bad, []part{aPool("10.0.0.0-24", "10.0.0.0/24"), other("10.0.0.5", "")}},
		{"a podref that cannot be read", "10.0.0.5", bad, []part{aPool("10.0.0.0-24", "10.0.0.0/24"), other("10.0.0.5", "a/b/c")}},
		{"no spec", "10.0.0.5", bad, []part{aPool("10.0.0.0-24", "10.0.0.0/24"), rawReservation("10.0.0.5", old, nil)}},
		{"a field that is not known", "10.0.0.5", resOutcome{judge.Held, judge.UnknownField, false}, []part{aPool("10.0.0.0-24", "10.0.0.0/24"),
			rawReservation("10.0.0.5", old, map[string]any{"podref": "default/web-0", "ipamclaimref": "claim"})}},
		{"the field that is known and never set", "10.0.0.5", stale, []part{aPool("10.0.0.0-24", "10.0.0.0/24"),
			rawReservation("10.0.0.5", old, map[string]any{"podref": "default/web-0", "containerid": "box-1"})}},
	} {
		t.Run(c.says, func(t *testing.T) { expectReservation(t, c.name, c.want, append([]part{onWorker()}, c.parts...)...) })
	}
	t.Run("ambiguous by name, and an allocation of its podref settles it", func(t *testing.T) {
		expectReservation(t, "fd00-1--2", resOutcome{judge.Stale, judge.PodGone, true}, onWorker(gone("box-1", its1)),
			unnamed, named(alloc{"2", "default/web-0", "box-1", "net1"}), other("fd00-1--2", "default/web-0"))
	})
	t.Run("a field that is not known holds it although its allocation is stale", func(t *testing.T) {
		expectReservation(t, "10.0.0.5", resOutcome{judge.Held, judge.UnknownField, false}, goneBox,
			rawReservation("10.0.0.5", old, map[string]any{"podref": "default/web-0", "ipamclaimref": "claim"}))
	})
}

func TestARecentReservation(t *testing.T) {
	pool, young := aPool("10.0.0.0-24", "10.0.0.0/24"), resOutcome{judge.InUse, judge.Recent, false}
	of := func(age time.Duration) part { return aReservation("10.0.0.5", "default/web-0", age) }
	t.Run("younger than two minutes", func(t *testing.T) { expectReservation(t, "10.0.0.5", young, pool, onWorker(), of(119*time.Second)) })
	t.Run("of the future", func(t *testing.T) { expectReservation(t, "10.0.0.5", young, pool, onWorker(), of(-time.Minute)) })
	t.Run("older than two minutes", func(t *testing.T) {
		expectReservation(t, "10.0.0.5", resOutcome{judge.Stale, judge.PodGone, false}, pool, onWorker(), of(121*time.Second))
	})
	t.Run("young and with another's podref than the allocation's", func(t *testing.T) {
		expectReservation(t, "10.0.0.5", young, goneBox, aReservation("10.0.0.5", "default/new", time.Minute))
	})
}
