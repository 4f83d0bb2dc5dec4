package judge_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// Each row of the design's table, with an IPAMClaim in every state: what was not Stale without it stays as it is, and
// what was is held while the claim may exist.
func TestIPAMClaim_VerdictTable(t *testing.T) {
	claims := []struct {
		says    string
		parts   Part
		verdict judge.Verdict
		reason  judge.Reason
	}{
		{"exists", IPAMClaim("vm.net1", "10.0.0.5"), judge.Held, judge.Claimed},
		{"exists without an address", IPAMClaim("vm.net1"), judge.Held, judge.Claimed},
		{"is unknown", IPAMClaimsUnread("forbidden"), judge.Held, judge.ClaimUnknown},
		{"is gone", IPAMClaim("other.net1", "10.0.0.5"), judge.Stale, judge.ClaimGone},
	}
	stale := 0
	for _, r := range tableRows() {
		for _, p := range r.pods {
			for _, b := range r.sandboxes {
				for _, c := range claims {
					want := Want(r.verdict, r.reason, false, b.state)
					if r.verdict == judge.Stale {
						want.Verdict, want.Reason = c.verdict, c.reason
						stale++
					}
					t.Run(fmt.Sprintf("%s whose sandbox %s, and the claim %s", p.says, b.says, c.says), func(t *testing.T) {
						if r.reason == judge.ClaimedByOther && c.verdict == judge.Held {
							want.Reason = c.reason
						}
						Expect(t, want, ClaimedPool, p.pod, b.parts, c.parts)
					})
				}
			}
		}
	}
	if stale < 100 {
		t.Errorf("only %d rows are Stale without an IPAMClaim", stale)
	}
}

func TestIPAMClaim_Messages(t *testing.T) {
	for _, c := range []struct {
		parts Part
		want  string
	}{
		{IPAMClaim("vm.net1"), "IPAMClaim default/vm.net1 exists"},
		{IPAMClaimsUnread("cannot list ipamclaims.k8s.cni.cncf.io: forbidden"),
			"IPAMClaim default/vm.net1, which is unknown: cannot list ipamclaims.k8s.cni.cncf.io: forbidden"},
		{IPAMClaim("other"), "IPAMClaim default/vm.net1 does not exist, and nothing runs"},
	} {
		it := usualIn(t, ClaimedPool, ReportingWorker(gone1), c.parts)
		if !strings.Contains(it.Message(), c.want) || !strings.Contains(it.Rule(), "overruled by ipam-claim") {
			t.Errorf("%s\n%s", it.Message(), it.Rule())
		}
	}
}

// The reservation of a claimed address shares the verdict, and one of another claim is judged by itself.
func TestIPAMClaim_Reservation(t *testing.T) {
	const address = "10.0.0.5"
	reservation := func(claim string) Part {
		return RawReservation(address, LongAgo, map[string]any{"podref": "default/web-0", "ifname": "net1",
			"ipamclaimref": claim})
	}
	gone := ReportingWorker(gone1)
	for _, c := range []struct {
		says              string
		parts             Part
		entry, reserved   judge.Reason
		reservationShares bool
	}{
		{"both name a claim that exists", All(ClaimedPool, reservation("default/vm.net1"), IPAMClaim("vm.net1")),
			judge.Claimed, judge.Claimed, true},
		{"both name a claim that is gone", All(ClaimedPool, reservation("default/vm.net1"), IPAMClaim("vm-2.net1")),
			judge.ClaimGone, judge.ClaimGone, true},
		{"only the allocation has one", All(ClaimedPool, Reservation(address, "default/web-0", LongAgo),
			IPAMClaim("vm.net1")), judge.Claimed, judge.Claimed, true},
		{"only the reservation has one", All(UsualPool, reservation("default/vm.net1"), IPAMClaim("vm.net1")),
			judge.PodGone, judge.Claimed, false},
		{"the reservation has another one", All(ClaimedPool, reservation("default/vm-2.net1"), IPAMClaim("vm-2.net1")),
			judge.ClaimGone, judge.Claimed, false},
		{"the reservation has no allocation", All(reservation("default/vm.net1"), empty,
			IPAMClaim("vm.net1")), "", judge.Claimed, false},
	} {
		t.Run(c.says, func(t *testing.T) {
			j := Judged(Observe(Node("worker-1"), c.parts, gone), facts.Policy{})
			r := ReservationOf(t, j, address)
			if r.Reason != c.reserved || (len(r.Related()) > 0) != c.reservationShares {
				t.Errorf("the reservation is %s, %s: %s", r.Verdict, r.Reason, r.Message())
			}
			if c.entry != "" && AllocationOf(t, j, address).Reason != c.entry {
				t.Errorf("the allocation is %v", RulingOf(AllocationOf(t, j, address)))
			}
		})
	}
}

// At the second check the claims that were read live count.
func TestIPAMClaim_LiveRead(t *testing.T) {
	name := PodName("vm.net1")
	live := func(claim *ippool.Claim) *facts.Live {
		return &facts.Live{IPAMClaims: map[types.NamespacedName]*ippool.Claim{name: claim}}
	}
	unread := func(name types.NamespacedName) *ippool.Claim { return &ippool.Claim{NamespacedName: name, Unread: "x"} }
	for _, c := range []struct {
		says   string
		before Part
		live   *facts.Live
		want   judge.Reason
	}{
		{"it was created since", IPAMClaim("other"), live(&ippool.Claim{NamespacedName: name}), judge.Claimed},
		{"it was deleted since", All(IPAMClaim("vm.net1"), IPAMClaim("other")), live(nil), judge.ClaimGone},
		{"it could not be read", IPAMClaim("other"), live(unread(name)), judge.ClaimUnknown},
		{"it could not be read, and no claim is listed", All(), live(unread(name)), judge.ClaimUnknown},
		{"another one could not be read", All(), &facts.Live{IPAMClaims: map[types.NamespacedName]*ippool.Claim{
			name: nil, PodName("other"): unread(PodName("other"))}}, judge.ClaimGone},
		{"no claim is listed", All(), live(nil), judge.ClaimGone},
		{"the others could not be read", IPAMClaimsUnread("x"), live(nil), judge.ClaimUnknown},
		{"the others could not be read, and it exists", IPAMClaimsUnread("x"), live(&ippool.Claim{NamespacedName: name}),
			judge.Claimed},
	} {
		o := Observe(ClaimedPool, ReportingWorker(gone1), c.before)
		f := facts.New(o.Observation, nil, facts.Policy{}).With(c.live)
		j := judge.JudgeAt(f, nil, nil, []netip.Addr{netip.MustParseAddr("10.0.0.5")})
		if it := AllocationOf(t, &findings.Assessment{Judgement: j}, "10.0.0.5"); it.Reason != c.want {
			t.Errorf("%s: %v", c.says, RulingOf(it))
		}
	}
}

var (
	source = func(edits ...PodEdit) Part {
		return Pod("launcher-1", append([]PodEdit{UID("uid-a"), Carrying("10.0.0.5"), Launcher("vmi-1", "")}, edits...)...)
	}
	target = func(edits ...PodEdit) Part {
		return Pod("launcher-2", append([]PodEdit{UID("uid-b"), OnNode("worker-2"), Carrying("10.0.0.5"),
			Launcher("vmi-1", "migration-1")}, edits...)...)
	}
)

// Source and target of a live migration carry one address on purpose. A pod that only resembles one is a Conflict.
func TestConflict_LiveMigration(t *testing.T) {
	runningOn := func(node, id, uid, pod string) Part {
		return All(Node(node), FreshReport(node, Sandbox(id, uid, OfPod(pod), with5)))
	}
	boxes := All(runningOn("worker-1", "box-a", "uid-a", "launcher-1"),
		runningOn("worker-2", "box-b", "uid-b", "launcher-2"))
	for _, c := range []struct {
		says     string
		parts    Part
		conflict bool
	}{
		{"a migration", All(source(), target()), false},
		{"a migration, and agents report both sandboxes", All(source(), target(), boxes), false},
		{"the machine migrates again", All(source(Launcher("vmi-1", "migration-0")), target()), false},
		{"two pods of a machine, and no migration", All(source(), target(Launcher("vmi-1", ""))), true},
		{"two targets of one migration", All(source(Launcher("vmi-1", "migration-1")), target()), true},
		{"another machine", All(source(), target(Launcher("vmi-2", "migration-1"))), true},
		{"another machine, and agents report both sandboxes",
			All(source(), target(Launcher("vmi-2", "migration-1")), boxes), true},
		{"another machine with the label of this one", All(source(), target(Launcher("vmi-2", "migration-1"),
			Labelled("kubevirt.io/created-by", "vmi-1"))), true},
		{"a pod with the labels only", All(source(), target(WithoutController)), true},
		{"a pod of another kind of owner", All(source(), target(ControlledBy("apps/v1", "ReplicaSet"))), true},
		{"an owner of that kind in another group", All(source(), target(ControlledBy("evil.io/v1",
			"VirtualMachineInstance"))), true},
		{"an owner that does not control the pod", All(source(), target(NoController)), true},
		{"both on one node", All(source(), target(OnNode("worker-1"))), true},
		{"in another namespace", All(source(), target(InNamespace("other"))), true},
		{"a third pod carries it, too", All(source(), target(), Pod("web-1", UID("uid-c"), Carrying("10.0.0.5"))), true},
		{"the sandbox of an earlier pod of the source's name", All(source(UID("uid-new")), target(), boxes), true},
	} {
		t.Run(c.says, func(t *testing.T) {
			found := FindingsOf(findings.Conflict, wb, empty, c.parts)
			if (len(found) > 0) != c.conflict {
				t.Errorf("got %v", DescribeFindings(found))
			}
		})
	}
}

// What a failed or finished migration leaves behind is held while the other pod carries the address.
func TestClaim_BetweenThePodsOfAMachine(t *testing.T) {
	pool := Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/launcher-2", "box-b", "net1"))
	ended := All(Node("worker-1"), Node("worker-2"), FreshReport("worker-1"),
		FreshReport("worker-2", Gone("box-b", "uid-b")))
	Expect(t, Want(judge.Held, judge.ClaimedByOther, false, judge.Gone), pool, source(), ended)
	Expect(t, Want(judge.Stale, judge.PodGone, true, judge.Gone), pool, ended)
}

// After a migration the guest may have the address of its machine's first pod.
func TestGuestAddress(t *testing.T) {
	ended := All(ReportingWorker(gone1), wb, NAD("red", WhereaboutsConfig("10.0.0.0/24", "red")))
	finished := UsualPod(Phase("Succeeded"), StoppedByKubelet(time.Hour), Launcher("vmi-1", ""))
	held, stale := Want(judge.Held, judge.GuestAddress, false, judge.Gone), Want(judge.Stale, judge.PodFinished, true,
		judge.Gone)
	for _, c := range []struct {
		says  string
		guest Part
		want  Ruling
	}{
		{"it has", Guest("vm", "default/wb", "10.0.0.5"), held},
		{"it has another one", Guest("vm", "default/wb", "10.0.0.6"), stale},
		{"it has the address on another network", Guest("vm", "default/red", "10.0.0.5"), stale},
		{"its network cannot be read", Guest("vm", "default/unknown", "10.0.0.5"), held},
		{"no guest is known", Nothing, stale},
	} {
		t.Run(c.says, func(t *testing.T) {
			parts := All(UsualPool, finished, ended, c.guest)
			Expect(t, c.want, parts)
			if found := FindingsOf(findings.GuestAddressFinding, parts); (len(found) == 1) != (c.want == held) {
				t.Errorf("findings: %v", DescribeFindings(found))
			}
		})
	}
	t.Run("a machine in use is none", func(t *testing.T) {
		Expect(t, Want(judge.InUse, judge.SandboxReady, false, judge.Ready), UsualPool, UsualPod(Carrying("10.0.0.5")),
			ReportingWorker(box1), Guest("vm", "default/wb", "10.0.0.5"))
	})
}

func TestNeedsGuests(t *testing.T) {
	machine := Pod("launcher-2", UID("uid-b"), Launcher("vmi-1", "migration-1"))
	for _, c := range []struct {
		says  string
		parts Part
		want  bool
	}{
		{"a machine runs, and a pod of its namespace is gone", All(UsualPool, machine), true},
		{"the pod is finished", All(UsualPool, machine, UsualPod(Phase("Succeeded"))), true},
		{"the pod is being deleted", All(UsualPool, machine, UsualPod(DeletedAgo(0))), true},
		{"the pod runs", All(UsualPool, machine, UsualPod()), false},
		{"the machine's pod is finished", All(UsualPool, Pod("launcher-2", Launcher("vmi-1", ""), Phase("Failed"))), false},
		{"no pod is a machine's", All(UsualPool, Pod("web-1")), false},
		{"the machine is in another namespace", All(UsualPool, Pod("launcher-2", Launcher("vmi-1", ""),
			InNamespace("other"))), false},
		{"an IPAMClaim keeps the address", All(ClaimedPool, machine, IPAMClaim("vm.net1")), false},
		{"its IPAMClaim is gone", All(ClaimedPool, machine), true},
	} {
		if got := Observe(c.parts).NeedsGuests(); got != c.want {
			t.Errorf("%s: %v", c.says, got)
		}
	}
}

func TestClaimDiffers(t *testing.T) {
	running := All(UsualPod(Carrying("10.0.0.5")), ReportingWorker(box1))
	for _, c := range []struct {
		says  string
		claim Part
		want  int
	}{
		{"the claim has the address", IPAMClaim("vm.net1", "10.0.0.5"), 0},
		{"with a prefix length, and another family", IPAMClaim("vm.net1", "fd00::5/64", "10.0.0.5/24"), 0},
		{"the claim has no address yet", IPAMClaim("vm.net1"), 0},
		{"the claim has another address", IPAMClaim("vm.net1", "10.0.0.6/24"), 1},
		{"the claim is gone", IPAMClaim("other", "10.0.0.6"), 0},
	} {
		found := FindingsOf(findings.ClaimDiffers, ClaimedPool, running, c.claim)
		if len(found) != c.want || c.want > 0 && !strings.Contains(found[0].Message, "10.0.0.6") {
			t.Errorf("%s: %v", c.says, DescribeFindings(found))
		}
	}
}

// A repair never rewrites what names an IPAMClaim: DEL would then release the address.
func TestRepair_KeepsIPAMClaims(t *testing.T) {
	carried := All(Node("worker-1"), FreshReport("worker-1", gone1, Sandbox("box-2", "uid-2", OfPod("web-1"), with5,
		CreatedAgo(time.Hour))), Pod("web-1", UID("uid-2"), Carrying("10.0.0.5")))
	if found := FindingsOf(findings.Misrecorded, UsualPool, carried); len(found) != 1 || found[0].Repair == nil {
		t.Fatalf("without a claim: %v", DescribeFindings(found))
	}
	if found := FindingsOf(findings.Misrecorded, ClaimedPool, carried, IPAMClaim("other")); len(found) != 1 ||
		found[0].Repair != nil {
		t.Errorf("its claim is gone: %v", DescribeFindings(found))
	}
	if found := FindingsOf(findings.Misrecorded, ClaimedPool, carried, IPAMClaim("vm.net1")); len(found) != 0 {
		t.Errorf("its claim records it: %v", DescribeFindings(found))
	}
}
