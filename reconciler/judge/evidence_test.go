package judge_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// Whether an address is on the pod is seen by the verdict: a live pod whose
// sandbox is in no report keeps what it carries, and nothing else.
var (
	carried    = Want(judge.InUse, judge.AddressOnPod, false, judge.Absent)
	notCarried = Want(judge.Stale, judge.AddressNotOnPod, false, judge.Absent)
	notKnown   = Want(judge.Held, judge.NetworkStatusMissing, false, judge.Absent)
)

func TestTheAddressIsOnThePod(t *testing.T) {
	v6 := Pool("2001-db8---64", "2001:db8::/64", Alloc("10", "default/web-0", "box-1", "net1"))
	for _, c := range []struct {
		says string
		want Ruling
		ip   string // of the allocation, 10.0.0.5 if empty
		pool Part
		pod  Part
	}{
		{"in the default network's element", carried, "", UsualPool,
			UsualPod(NetworkStatus(`[{"name":"default/macvlan","interface":"eth0","ips":["10.0.0.5"],"default":true}]`))},
		{"in a default network's element that names no definition", carried, "", UsualPool,
			UsualPod(NetworkStatus(`[{"name":"cbr0","interface":"eth0","ips":["10.0.0.5"],"default":true}]`))},
		{"among the podIPs", carried, "", UsualPool, UsualPod(PodIPs("10.244.0.9", "10.0.0.5"))},
		{"among the podIPs, without any network-status", carried, "", UsualPool, UsualPod(NoNetworkStatus,
			PodIPs("10.0.0.5"))},
		{"the second address of an element", carried, "", UsualPool,
			UsualPod(NetworkStatus(`[{"name":"default/wb","interface":"net1","ips":["2001:db8::1","10.0.0.5"]}]`))},
		{"another address that begins alike", notCarried, "", UsualPool, UsualPod(Carrying("10.0.0.50"))},
		{"no address at all in a status that can be read", notCarried, "", UsualPool,
			UsualPod(NetworkStatus(`[{"name":"default/wb","interface":"net1"}]`))},
		{"v4-mapped, in hexadecimal, among the podIPs", carried, "", UsualPool, UsualPod(PodIPs("::ffff:a00:5"))},
		{"another spelling of IPv6", carried, "2001:db8::a", v6, UsualPod(Carrying("2001:DB8:0:0::000A"))},
		{"another address of the IPv6 pool", notCarried, "2001:db8::a", v6, UsualPod(Carrying("2001:db8::b"))},
	} {
		t.Run(c.says, func(t *testing.T) {
			ip := c.ip
			if ip == "" {
				ip = "10.0.0.5"
			}
			if got := RulingOf(AllocationOf(t, Judged(Observe(c.pool, c.pod, ReportingWorker()), facts.Policy{}),
				ip)); got != c.want {
				t.Errorf("got  %v\nwant %v", got, c.want)
			}
		})
	}
}

// B6: an interface of another network does not count, where that other network's
// own pool has an allocation for it.
func TestAnInterfaceOfAnotherPool(t *testing.T) {
	red := Pool("red-10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/web-0", "box-2", "net1"))
	redWith := func(a Allocation) Part { return Pool("red-10.0.0.0-24", "10.0.0.0/24", a) }
	carrier := UsualPod(Carrying("10.0.0.5"))
	of := func(config string) Part { return NAD("wb", config) }
	for _, c := range []struct {
		says  string
		want  Ruling
		parts []Part
	}{
		{"its definition is of the other pool, which has the allocation", notCarried,
			[]Part{carrier, red, of(WhereaboutsConfig("10.0.0.0/24", "red"))}},
		{"its definition was edited: no other pool has such an allocation", carried,
			[]Part{carrier, of(WhereaboutsConfig("10.0.0.0/24", "red"))}},
		{"its definition was edited to another range", carried, []Part{carrier, of(WhereaboutsConfig("10.9.0.0/24", ""))}},
		{"its definition is of this pool", carried, []Part{carrier, red, of(WhereaboutsConfig("10.0.0.0/24", ""))}},
		{"its definition is of both pools", carried, []Part{carrier, red,
			of(`{"plugins":[{"ipam":{"type":"whereabouts","range":"10.0.0.0/24"}},{"ipam":{"type":"whereabouts",` +
				`"range":"10.0.0.0/24","network_name":"red"}}]}`)}},
		{"its definition is gone", carried, []Part{carrier, red}},
		{"its definition cannot be read", carried, []Part{carrier, red, of(`{"ipam":{`)}},
		{"its definition is configured on the nodes", carried, []Part{carrier, red, of("")}},
		{"its definition uses another IPAM", carried,
			[]Part{carrier, red, of(`{"type":"macvlan","ipam":{"type":"static"}}`)}},
		{"its network names no definition", carried, []Part{UsualPod(CarryingOn("wb", "net1", "10.0.0.5")), red,
			of(WhereaboutsConfig("10.0.0.0/24", "red"))}},
		{"the other pool's allocation is another pod's", carried,
			[]Part{carrier, redWith(Alloc("5", "default/web-1", "box-2", "net1")), of(WhereaboutsConfig("10.0.0.0/24", "red"))}},
		{"the other pool's allocation is another interface's", carried,
			[]Part{carrier, redWith(Alloc("5", "default/web-0", "box-2", "net2")), of(WhereaboutsConfig("10.0.0.0/24", "red"))}},
		{"the other pool's allocation is of before there were interfaces", carried,
			[]Part{carrier, redWith(Alloc("5", "default/web-0", "box-2", "")), of(WhereaboutsConfig("10.0.0.0/24", "red"))}},
		{"the other pool's allocation is another address", carried,
			[]Part{carrier, redWith(Alloc("6", "default/web-0", "box-2", "net1")), of(WhereaboutsConfig("10.0.0.0/24", "red"))}},
		{"the other pool has the allocation, and the podIPs have the address too", carried,
			[]Part{UsualPod(Carrying("10.0.0.5"), PodIPs("10.0.0.5")), red, of(WhereaboutsConfig("10.0.0.0/24", "red"))}},
		{"a second interface, of this pool, has it too", carried, []Part{
			UsualPod(NetworkStatus(`[{"name":"default/wb","interface":"net1","ips":["10.0.0.5"]},{"name":"default/plain",` +
				`"interface":"net2","ips":["10.0.0.5"]}]`)), red,
			of(WhereaboutsConfig("10.0.0.0/24", "red")), NAD("plain", WhereaboutsConfig("10.0.0.0/24", ""))}},
		// The ifname in the rule is the interface's, not this allocation's.
		{"this allocation is of another interface than the one that carries it", notCarried, []Part{
			UsualPod(CarryingOn("default/wb", "net2", "10.0.0.5")), redWith(Alloc("5", "default/web-0", "box-2", "net2")),
			of(WhereaboutsConfig("10.0.0.0/24", "red"))}},
	} {
		t.Run(c.says, func(t *testing.T) {
			j := Judged(Observe(append([]Part{UsualPool, ReportingWorker()}, c.parts...)...), facts.Policy{})
			for _, it := range j.Allocations {
				if it.Pool.Name != "10.0.0.0-24" {
					continue
				}
				if got := RulingOf(it); got != c.want {
					t.Errorf("got  %v\nwant %v", got, c.want)
				}
			}
		})
	}
}

// A hot-unplug whose DEL was lost: the pod runs on without net2. The allocation is held, since the interface may be
// plugged in again without a write. Whatever leaves room for the interface keeps the allocation in use.
func TestAnInterfaceThatWasUnpluggedIsHeld(t *testing.T) {
	const (
		net1 = `[{"name":"cbr0","interface":"eth0","ips":["10.244.0.9"],"default":true},{"name":"default/wb",` +
			`"interface":"net1","ips":["10.0.0.6"]}`
		net2 = `,{"name":"default/wb","interface":"net2"}]`
	)
	usual := Sandbox("box-1", UsualUID, OfPod("vm"), with6)
	onNet2 := func(b *v1alpha1.Sandbox) { b.Addresses[len(b.Addresses)-1].IfName = "net2" }
	for says, c := range map[string]struct {
		pod       []PodEdit
		ifName    string
		reports   Part
		unplugged bool
	}{
		"it has neither": {ifName: "net2", reports: ReportingWorker(usual), unplugged: true},
		"the status has it without an address": {pod: []PodEdit{NetworkStatus(net1 + net2)}, ifName: "net2",
			reports: ReportingWorker(usual)},
		"the status has one without a name": {pod: []PodEdit{NetworkStatus(net1 + `,{"name":"default/wb"}]`)}, ifName: "net2",
			reports: ReportingWorker(usual)},
		"a network that the pod asks for has no status": {pod: []PodEdit{Carrying("10.0.0.6"), Requesting("wb, wb")},
			ifName: "net2", reports: ReportingWorker(usual)},
		"the status cannot be read": {pod: []PodEdit{NetworkStatus(net1)}, ifName: "net2", reports: ReportingWorker(usual)},
		"the pod is being deleted": {pod: []PodEdit{Carrying("10.0.0.6"), DeletedAgo(-1)}, ifName: "net2",
			reports: ReportingWorker(usual)},
		"an allocation of before interfaces had names": {ifName: "", reports: ReportingWorker(usual)},
		"not all addresses are known": {ifName: "net2", reports: ReportingWorker(
			Sandbox("box-1", UsualUID, OfPod("vm"), with6, Unread))},
		"a CNI cache names the interface": {ifName: "net2", reports: ReportingWorker(
			Sandbox("box-1", UsualUID, OfPod("vm"), with6,
				func(b *v1alpha1.Sandbox) { b.Interfaces = []string{"eth0", "net2"} }))},
		"a CNI cache names another interface": {ifName: "net2", unplugged: true, reports: ReportingWorker(
			Sandbox("box-1", UsualUID, OfPod("vm"), with6,
				func(b *v1alpha1.Sandbox) { b.Interfaces = []string{"eth0", "net3"} }))},
		"no address is known": {ifName: "net2", reports: ReportingWorker(Sandbox("box-1", UsualUID, OfPod("vm")))},
		"the sandbox has the address": {ifName: "net2", reports: ReportingWorker(
			Sandbox("box-1", UsualUID, OfPod("vm"), with6, with5))},
		"the sandbox has the interface": {ifName: "net2", reports: ReportingWorker(
			Sandbox("box-1", UsualUID, OfPod("vm"), with6, WithAddress("10.0.0.7", ""), onNet2))},
		"another node's agent says that it is gone": {ifName: "net2", unplugged: true,
			reports: All(Node("worker-1"), Node("worker-2"), FreshReport("worker-1", usual), FreshReport("worker-2", gone1))},
		"another node's agent lists it, too": {ifName: "net2", reports: All(Node("worker-1"), Node("worker-2"),
			FreshReport("worker-1", usual), FreshReport("worker-2", usual))},
		"another node's agent reports it": {ifName: "net2", reports: All(Node("worker-1"), Node("worker-2"),
			FreshReport("worker-2", usual))},
	} {
		t.Run(says, func(t *testing.T) {
			edits := c.pod
			if edits == nil {
				edits = []PodEdit{Carrying("10.0.0.6")}
			}
			j := Judged(Observe(
				Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/vm", "box-1", c.ifName), Alloc("6", "default/vm", "box-1",
					"net1")),
				wb, Pod("vm", edits...), c.reports), facts.Policy{})
			for _, it := range j.Allocations {
				isUnplugged := it.Verdict == judge.Held && it.Reason == judge.InterfaceUnplugged
				if isUnplugged != (it.Key() == "5" && c.unplugged) || it.Verdict == judge.Stale {
					t.Errorf("%s is %s %s: %s", it.Key(), it.Verdict, it.Reason, it.Message())
				}
			}
		})
	}
}

// Without an agent nothing distinguishes which of the two the interface is.
func TestAnEditedDefinitionBesideALeftoverEntryCountsForBothWithoutAgents(t *testing.T) {
	red := Pool("red-10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/web-0", "box-2", "net1"))
	edited := NAD("wb", WhereaboutsConfig("10.0.0.0/24", "red"))
	verdicts := func(nodes Part) (of, ofRed Ruling) {
		for _, it := range Judged(Observe(UsualPool, red, edited, carrier.pod, nodes), facts.Policy{}).Allocations {
			if it.Pool.Name == "10.0.0.0-24" {
				of = RulingOf(it)
			} else {
				ofRed = RulingOf(it)
			}
		}
		return of, ofRed
	}
	kept := Want(judge.InUse, judge.AddressOnPod, false, judge.NoSource)
	if of, ofRed := verdicts(Node("worker-1")); of != kept || ofRed != kept {
		t.Errorf("without agents: %v, and of the definition's pool %v", of, ofRed)
	}
	if of, ofRed := verdicts(ReportingWorker()); of != notCarried || ofRed != carried {
		t.Errorf("with agents: %v, and of the definition's pool %v", of, ofRed)
	}
	t.Run("and a reservation that stands alone", func(t *testing.T) {
		expectReservation(t, "10.0.0.5", decision{judge.InUse, judge.AddressOnPod, false}, empty,
			red, edited, carrier.pod, Node("worker-1"), reserved)
	})
}

// A tenant may write what it likes into the annotations of its own pod.
func TestWithAgentsATenantCannotMakeItsAddressLookFree(t *testing.T) {
	runs := Sandbox("box-1", UsualUID, with5)
	for says, annotated := range map[string]PodEdit{
		"the address is left out":       Carrying("10.0.0.77"),
		"there is no status":            NoNetworkStatus,
		"the status cannot be read":     NetworkStatus("nonsense"),
		"another definition is named":   CarryingOn("default/other", "net1", "10.0.0.5"),
		"it pretends to be a mirror":    MirrorOf("uid-9"),
		"the address is in another way": CarryingOn("default/wb", "net7", "10.0.0.6"),
	} {
		pod := UsualPod(annotated)
		static := NAD("other", `{"ipam":{"type":"static"}}`)
		for where, c := range map[string]Part{
			"its sandbox is listed":        ReportingWorker(runs),
			"its sandbox is not ready":     ReportingWorker(Sandbox("box-1", UsualUID, NotReady(nil))),
			"its sandbox is being set up":  ReportingWorker(Attachment("box-1", UsualUID, time.Minute, nil)),
			"its node has no fresh report": All(Node("worker-1"), StaleReport("worker-1", runs)),
			"its node has no fresh report, and no report has it": All(Node("worker-1"), StaleReport("worker-1"),
				Node("worker-2"), FreshReport("worker-2")),
			"its node has no agent, and others have": All(Node("worker-1"), Node("worker-2"), FreshReport("worker-2")),
			"its node should have no agent, and others have": All(Node("worker-1", WithoutAgent), Node("worker-2"),
				FreshReport("worker-2")),
			"the reports are there and may not be read": All(Node("worker-1"), ReportsUnknown("forbidden")),
			"a clone of its node has stopped it": All(Node("worker-1"), StaleReport("worker-1", runs),
				Node("worker-2"), FreshReport("worker-2", stopped1)),
			"another agent reports it as gone, and its own report has expired": All(Node("worker-1"), StaleReport("worker-1"),
				Node("worker-2"), FreshReport("worker-2", gone1)),
			"a clone of its node was booted again, its own is": All(Node("worker-1"), StaleReport("worker-1"),
				Node("worker-2", Booted("boot-2")), StaleReport("worker-2", runs)),
		} {
			t.Run(says+", and "+where, func(t *testing.T) { expectKept(t, UsualPool, static, pod, c) })
		}
	}
}

// It is there, although the meaning of its field is unknown.
func TestAReservationWithAnUnknownFieldCountsAsTheReservation(t *testing.T) {
	res := RawReservation("10.0.0.5", LongAgo, map[string]any{"podref": "default/web-0", "ifname": "net1",
		"ipamclaimref": "claim"})
	parts := []Part{UsualPool, res, wb, carrier.pod, ReportingWorker(Sandbox("box-1", UsualUID, with5))}
	for _, f := range Judged(Observe(parts...), facts.Policy{}).Findings {
		if f.Kind == findings.MissingReservation {
			t.Errorf("%s", f.Message)
		}
	}
	expectReservation(t, "10.0.0.5", decision{judge.Held, judge.UnknownField, false}, parts...)
	found := slices.ContainsFunc(Judged(Observe(append(parts[:1:1], parts[2:]...)...), facts.Policy{}).Findings,
		func(f findings.Finding) bool { return f.Kind == findings.MissingReservation })
	if !found {
		t.Error("without it none is missing: this shows nothing")
	}
}

// manyAddresses is a network-status of so many addresses of 10.9.0.0/16, in so many elements each.
func manyAddresses(entries ...int) PodEdit {
	var texts []string
	n := 0
	for i, count := range entries {
		var ips []string
		for range count {
			ips = append(ips, fmt.Sprintf("%q", fmt.Sprintf("10.9.%d.%d", n/250, n%250)))
			n++
		}
		texts = append(texts, fmt.Sprintf(`{"name":"default/wb","interface":"net%d","ips":[%s]}`, i+1,
			strings.Join(ips, ",")))
	}
	return NetworkStatus("[" + strings.Join(texts, ",") + "]")
}

func TestAtMost128AddressesOfANetworkStatusAreRead(t *testing.T) {
	Expect(t, notCarried, UsualPool, UsualPod(manyAddresses(128)), ReportingWorker())
	Expect(t, notCarried, UsualPool, UsualPod(manyAddresses(60, 68)), ReportingWorker())
	Expect(t, notKnown, UsualPool, UsualPod(manyAddresses(129)), ReportingWorker())
	Expect(t, notKnown, UsualPool, UsualPod(manyAddresses(80, 49)), ReportingWorker())
	o := Observe(UsualPod(manyAddresses(16000)))
	n := 0
	for _, i := range o.Pods[PodName("web-0")].Interfaces {
		n += len(i.Addresses)
	}
	if n > 128 {
		t.Errorf("%d addresses are kept of one pod", n)
	}
}

// A pod that cannot be decoded may carry any address. One whose node is unknown carries those of its network-status.
func TestAPodThatProvesNothingKeepsAddresses(t *testing.T) {
	add := func(p podstate.Pod) Part {
		p.NamespacedName = types.NamespacedName{Namespace: "default", Name: "broken"}
		return func(o *Observed) { o.Pods[p.NamespacedName] = &p }
	}
	carries := []podstate.Interface{{Network: "default/wb", Name: "net1", Addresses: []netip.Addr{
		netip.MustParseAddr("10.0.0.5")}}}
	unread := podstate.Pod{Phase: podstate.Live, Status: podstate.StatusUnreadable, Contradiction: "cannot be decoded"}
	withoutNode := podstate.Pod{Phase: podstate.Live, Status: podstate.StatusReadable, UID: "u", Interfaces: carries,
		Contradiction: "has no node"}
	unbound := podstate.Pod{Phase: podstate.Pending, Status: podstate.StatusReadable, UID: "u", Interfaces: carries}
	for name, c := range map[string]struct {
		pod  Part
		want judge.Verdict
	}{
		"cannot be decoded": {add(unread), judge.Held}, "no node, and it ran": {add(withoutNode), judge.Held},
		"never bound": {add(unbound), judge.Stale},
	} {
		for agents, part := range map[string]Part{"with agents": ReportingWorker(gone1), "without agents": Node("worker-1")} {
			it := usualIn(t, UsualPool, part, c.pod)
			if it.Verdict != c.want || c.want == judge.Held && it.Reason != judge.ClaimedByOther {
				t.Errorf("%s, %s: %s", name, agents, Wrong(it, c.want))
			}
		}
	}
}
