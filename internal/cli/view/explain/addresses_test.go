package explain_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view/explain"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// shown are the states of addresses, without their reservations.
func shown(rows []view.AddressState) string {
	var texts []string
	for _, a := range rows {
		texts = append(texts, fmt.Sprintf("{%s %s %s %s %v}", a.IP, a.State, a.Pool, a.PodRef, a.CarriedBy))
	}
	return fmt.Sprint(texts)
}

// Each address has who has it in its record, in its reservation, and on its interfaces.
func TestAddresses_WhoHasThem(t *testing.T) {
	j := Judged(Observe(UsualPool, Pool("blue-10.0.0.0-24", "10.0.0.0/24"), NAD("wb",
		WhereaboutsConfig("10.0.0.0/24", "")), Reservation("10.0.0.5", "default/web-0", LongAgo),
		Reservation("10.0.0.9", "default/alone", LongAgo), Reservation("blue-10.0.0.8", "default/blue", LongAgo),
		Guest("vm-1", "default/wb", "10.0.0.7"), UsualPod(Carrying("10.0.0.5"))), facts.Policy{})
	var asked []netip.Addr
	for i := 5; i < 10; i++ {
		asked = append(asked, netip.MustParseAddr(fmt.Sprint("10.0.0.", i)))
	}
	var got []string
	for _, row := range reportOf(j, asked).CSV() {
		got = append(got, strings.ReplaceAll(strings.Join(row, ","), "kube-system/", ""))
	}
	want := []string{"address,state,pool,pod,reserved_by,carried_by",
		"10.0.0.5,InUse,10.0.0.0-24,default/web-0,default/web-0,default/web-0", "10.0.0.5,Unknown,blue-10.0.0.0-24,,,",
		"10.0.0.6,Free,10.0.0.0-24,,,", "10.0.0.6,Unknown,blue-10.0.0.0-24,,,",
		"10.0.0.7,InUse,10.0.0.0-24,,,vmi/default/vm-1", "10.0.0.7,Unknown,blue-10.0.0.0-24,,,",
		"10.0.0.8,Free,10.0.0.0-24,,,", "10.0.0.8,Unknown,blue-10.0.0.0-24,,default/blue,",
		"10.0.0.9,Reserved,10.0.0.0-24,,default/alone,", "10.0.0.9,Unknown,blue-10.0.0.0-24,,,"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestAddresses(t *testing.T) {
	alloc := func(key, pod, id string) Allocation { return Alloc(key, "default/"+pod, id, "net1") }
	o := Observe(
		Pool("10.0.0.0-24", "10.0.0.0/24", UsualAllocation, alloc("6", "web-1", "box-2"), alloc("7", "web-2", "box-3"),
			alloc("201", "web-4", "box-5")),
		Pool("blue-10.0.0.0-24", "10.0.0.0/24", alloc("8", "web-8", "box-8")),
		Pool("10.7.0.0-24", "10.7.0.0/24", alloc("1", "web-9", "box-9")), // which no definition names
		RawPool("10.8.0.0-24", map[string]any{"range": "?"}),
		NAD("wb", WhereaboutsConfig("10.0.0.0/24", "", `"exclude": ["10.0.0.200/30"]`)),
		NAD("blue", WhereaboutsConfig("10.0.0.0/24", "blue")),
		Reservation("10.0.0.9", "default/alone", LongAgo),
		Pod("web-1", UID("uid-2")), Pod("web-3", UID("uid-4")),
		ReportingWorker(Gone("box-1", UsualUID), Sandbox("box-2", "uid-2", OfPod("web-1"), WithAddress("10.0.0.6", "")),
			Sandbox("box-3", "uid-3", OfPod("web-2"), WithAddress("10.0.0.7", "")),
			Sandbox("box-4", "uid-4", OfPod("web-3"), WithAddress("10.0.0.11", ""))),
	)
	j := Judged(o, facts.Policy{})
	for asked, want := range map[string]string{
		"10.0.0.1":    "[{10.0.0.1 Free 10.0.0.0-24 } {10.0.0.1 Free blue-10.0.0.0-24 }]",
		"10.0.0.5":    "[{10.0.0.5 Stale 10.0.0.0-24 default/web-0} {10.0.0.5 Free blue-10.0.0.0-24 }]",
		"10.0.0.6":    "[{10.0.0.6 InUse 10.0.0.0-24 default/web-1} {10.0.0.6 Free blue-10.0.0.0-24 }]",
		"10.0.0.7":    "[{10.0.0.7 Held 10.0.0.0-24 default/web-2} {10.0.0.7 Free blue-10.0.0.0-24 }]",
		"10.0.0.8":    "[{10.0.0.8 Free 10.0.0.0-24 } {10.0.0.8 Stale blue-10.0.0.0-24 default/web-8}]",
		"10.0.0.9":    "[{10.0.0.9 Reserved 10.0.0.0-24 } {10.0.0.9 Free blue-10.0.0.0-24 }]",
		"10.0.0.11":   "[{10.0.0.11 InUse 10.0.0.0-24 default/web-3} {10.0.0.11 Free blue-10.0.0.0-24 }]",
		"10.0.0.200":  "[{10.0.0.200 Excluded 10.0.0.0-24 } {10.0.0.200 Free blue-10.0.0.0-24 }]",
		"10.0.0.201":  "[{10.0.0.201 Stale 10.0.0.0-24 default/web-4} {10.0.0.201 Free blue-10.0.0.0-24 }]",
		"10.0.0.255":  "[{10.0.0.255 Excluded 10.0.0.0-24 } {10.0.0.255 Excluded blue-10.0.0.0-24 }]",
		"10.7.0.1":    "[{10.7.0.1 Stale 10.7.0.0-24 default/web-9}]",
		"10.7.0.2":    "[{10.7.0.2 Unknown 10.7.0.0-24 }]",
		"10.8.0.1":    "[{10.8.0.1 OutsideEveryPool  }]",
		"2001:db8::1": "[{2001:db8::1 OutsideEveryPool  }]",
	} {
		want = strings.ReplaceAll(want, "}", " []}")
		for _, carries := range []string{"default/web-1", "default/web-2", "default/web-3"} {
			want = strings.ReplaceAll(want, carries+" []", carries+" ["+carries+"]")
		}
		rows := reportOf(j, []netip.Addr{netip.MustParseAddr(asked)}).Addresses
		if got := strings.ReplaceAll(shown(rows), "kube-system/", ""); got != want {
			t.Errorf("%s: %s, want %s", asked, got, want)
		}
	}
}

// A definition was edited, or its pool deleted, while pods run. What they carry is not free.
func TestAddresses_OfPodsBeforeAnEdit(t *testing.T) {
	of24, of30 := NAD("wb", WhereaboutsConfig("10.0.0.0/24", "")), NAD("wb", WhereaboutsConfig("10.0.0.0/30", ""))
	before := ReportingWorker(Sandbox("box-1", UsualUID, func(b *v1alpha1.Sandbox) {
		a := Address("10.0.0.5", "")
		a.Range = "10.0.0.0/23"
		b.Addresses = append(b.Addresses, a)
	}))
	pod, now := UsualPod(Carrying("10.0.0.5")), Pool("10.0.0.0-24", "10.0.0.0/24")
	for says, c := range map[string]struct {
		want  string
		parts []Part
	}{
		"the range was edited": {"[{10.0.0.5 InUse kube-system/10.0.0.0-24 default/web-0 [default/web-0]}]",
			[]Part{now, of24, pod, before}},
		"a phantom of the range before": {"[{10.0.0.5 InUse kube-system/10.0.0.0-24 default/web-0 [default/web-0]}]",
			[]Part{now, of24, before}},
		"without agents": {"[{10.0.0.5 InUse kube-system/10.0.0.0-24 default/web-0 [default/web-0]}]",
			[]Part{now, of24, pod}},
		"the pool was deleted": {"[{10.0.0.5 NoPool   [default/web-0]}]", []Part{of24, pod}},
		"of the next node's slice": {"[{10.0.0.5 NoPool   []}]", []Part{NAD("wb", `{"ipam":{"type":"whereabouts",
			"range":"10.0.0.0/16","node_slice_size":"/28"}}`), Node("worker-1")}},
		"definitions are unknown": {"[{10.0.0.5 Unknown   []}]", []Part{func(o *Observed) {
			o.NADs = facts.Unknown[map[types.NamespacedName]*ippool.NAD](errors.New("forbidden"))
		}}},
		"no range of today has it": {"[{10.0.0.5 Unknown kube-system/10.0.0.0-24  [default/web-0]}]", []Part{now, of30, pod}},
		"nor has any pool":         {"[{10.0.0.5 OutsideEveryPool   [default/web-0]}]", []Part{of30, pod}},
		"another IPAM gave the address": {"[{10.0.0.5 OutsideEveryPool   [default/web-0]}]",
			[]Part{NAD("wb", `{"ipam":{"type":"static"}}`), pod}},
	} {
		j := Judged(Observe(c.parts...), facts.Policy{})
		rows := reportOf(j, []netip.Addr{netip.MustParseAddr("10.0.0.5")}).Addresses
		if got := shown(rows); got != c.want {
			t.Errorf("%s: %s, want %s", says, got, c.want)
		}
	}
}

// What may show a use of an address was not read, so nobody knows whether it is free.
func TestAddresses_WhileSourcesAreUnknown(t *testing.T) {
	no := errors.New("forbidden")
	reservations := func(o *Observed) { o.Reservations = facts.Unknown[[]*ippool.Reservation](no) }
	leases := func(o *Observed) { o.AgentLeases = facts.Unknown[bool](no) }
	claims := func(o *Observed) { o.IPAMClaims = facts.Unknown[map[types.NamespacedName]*ippool.Claim](no) }
	noReports, overlapping := ReportsUnknown("forbidden"), NAD("wb", WhereaboutsConfig("10.0.0.0/24", ""))
	alone := NAD("wb", WhereaboutsConfig("10.0.0.0/24", "", `"enable_overlapping_ranges":false`))
	for says, c := range map[string]struct {
		want  string // of an address with no use, with an allocation, and of a pod
		parts []Part
	}{
		"all are known":                                      {"Free InUse InUse", []Part{overlapping}},
		"reservations are unknown":                           {"Unknown InUse InUse", []Part{overlapping, reservations}},
		"reservations are unknown, and ADDs read none":       {"Free InUse InUse", []Part{alone, reservations}},
		"reports are unknown":                                {"Unknown InUse InUse", []Part{overlapping, noReports}},
		"the agents' Leases are unknown":                     {"Unknown InUse InUse", []Part{overlapping, leases}},
		"IPAMClaims are unknown, which keep no free address": {"Free InUse InUse", []Part{overlapping, claims}},
	} {
		cluster := append([]Part{UsualPool, UsualPod(Carrying("10.0.0.5")), ReportingWorker(Sandbox("box-1", UsualUID)),
			Pod("plain", PodIPs("10.0.0.20"))}, c.parts...)
		j := Judged(Observe(cluster...), facts.Policy{})
		var got []string
		for _, row := range reportOf(j, []netip.Addr{
			netip.MustParseAddr("10.0.0.9"), netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("10.0.0.20")}).Addresses {
			got = append(got, row.State)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %s, want %s", says, got, c.want)
		}
	}
}

// withAddress gives a Node an internal address.
func withAddress(ip string) NodeEdit {
	return func(n *corev1.Node) {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
	}
}

// An address that something carries is not free, whatever assigned it.
func TestAddresses_OfOtherIPAM(t *testing.T) {
	cluster := All(Pool("10.0.0.0-24", "10.0.0.0/24"), Pool("blue-10.0.0.0-24", "10.0.0.0/24"),
		NAD("wb", WhereaboutsConfig("10.0.0.0/24", "", `"exclude": ["10.0.0.200/30"]`, `"gateway": "10.0.0.50"`)),
		NAD("blue", WhereaboutsConfig("10.0.0.0/24", "blue", `"gateway": "10.9.0.2"`)),
		NAD("static", `{"ipam":{"type":"static"}}`),
		Node("worker-1", withAddress("10.0.0.9")),
		Pod("static", CarryingOn("default/static", "net1", "10.0.0.205")), Pod("plain", PodIPs("10.0.0.20")),
		Pod("host", PodIPs("10.0.0.9")), Pod("done", PodIPs("10.0.0.21"), Phase("Succeeded")),
		Pod("queued", CarryingOn("default/static", "net1", "10.0.0.22"), OnNode("")),
		Pod("ending", Carrying("10.0.0.30"), DeletedAgo(time.Minute)),
		Pod("excluded", CarryingOn("default/static", "net1", "10.0.0.201")),
		Pod("outside", CarryingOn("default/static", "net1", "10.9.0.1")))
	for asked, want := range map[string]string{
		"10.0.0.205": "[{InUse 10.0.0.0-24 [default/static]} {InUse blue-10.0.0.0-24 [default/static]}]",
		"10.0.0.9":   "[{InUse 10.0.0.0-24 [node/worker-1]} {InUse blue-10.0.0.0-24 [node/worker-1]}]",
		"10.0.0.20":  "[{InUse 10.0.0.0-24 [default/plain]} {InUse blue-10.0.0.0-24 [default/plain]}]",
		"10.0.0.21":  "[{Free 10.0.0.0-24 []} {Free blue-10.0.0.0-24 []}]",
		"10.0.0.22":  "[{Free 10.0.0.0-24 []} {Free blue-10.0.0.0-24 []}]",
		"10.0.0.30":  "[{InUse 10.0.0.0-24 [default/ending]} {Free blue-10.0.0.0-24 []}]",
		"10.0.0.201": "[{Excluded 10.0.0.0-24 [default/excluded]} {InUse blue-10.0.0.0-24 [default/excluded]}]",
		"10.9.0.1":   "[{OutsideEveryPool  [default/outside]}]",
		"10.0.0.50":  "[{InUse 10.0.0.0-24 [gateway/default/wb]} {Free blue-10.0.0.0-24 []}]",
		"10.9.0.2":   "[{OutsideEveryPool  []}]", // a definition claims no address outside of its range
	} {
		j := Judged(Observe(cluster), facts.Policy{})
		var got []string
		for _, row := range reportOf(j, []netip.Addr{netip.MustParseAddr(asked)}).Addresses {
			got = append(got, strings.ReplaceAll(fmt.Sprintf("{%s %s %s}", row.State, row.Pool, row.CarriedBy),
				"kube-system/", ""))
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%s: %s, want %s", asked, got, want)
		}
	}
	for asked, want := range map[string]string{
		"10.0.0.205": "carried by default/static", "10.9.0.1": "carried by default/outside",
		"10.0.0.9": "carried by node/worker-1", "10.0.0.50": "carried by gateway/default/wb",
	} {
		d := ask(t, asked, nil, cluster)
		if text := said(d); !d.Found || !strings.Contains(text, want) || strings.Contains(text, "default/host") {
			t.Errorf("%s: %s", asked, text)
		}
	}
	many := []Part{Pool("10.0.0.0-24", "10.0.0.0/24")}
	for i := range 50 {
		many = append(many, Pod(fmt.Sprint("web-", i), PodIPs("10.0.0.7")))
	}
	if d := ask(t, "10.0.0.7", nil, many...); len(d.Carriers) != 20 {
		t.Errorf("%d carriers are listed", len(d.Carriers))
	}
}

// In a range wider than /64 the address that a pod carries need not be the one of its allocation.
func TestExplanation_AddressOfUnsupportedRange(t *testing.T) {
	cluster := All(Pool("193---24", "193::/24", Alloc("2", "default/web-0", "box-1", "net1")),
		NAD("wb", WhereaboutsConfig("193::/24", "")), UsualPod(Carrying("193:21:4::2")))
	j := Judged(Observe(cluster), facts.Policy{})
	rows := reportOf(j, []netip.Addr{netip.MustParseAddr("193:21:4::2")}).Addresses
	if got := shown(rows); got != "[{193:21:4::2 Unknown kube-system/193---24  [default/web-0]}]" {
		t.Errorf("got %s", got)
	}
	for asked, wants := range map[string][]string{
		"193::2": {"reason           UnsupportedRange",
			"kubectl delete ippools.whereabouts.cni.cncf.io -n kube-system 193---24"},
		"193:21:4::2": {"default/web-0", "Whether pool kube-system/193---24 has an allocation for 193:21:4::2 is unknown."},
		"193:5::9":    {"Whether pool kube-system/193---24 has an allocation for 193:5::9 is unknown."},
	} {
		text := said(ask(t, asked, nil, cluster))
		for _, want := range append(wants, "UnsupportedRange", "for example 193::/64", "193---24") {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in:\n%s", asked, want, text)
			}
		}
	}
}

func reportOf(j *findings.Assessment, asked []netip.Addr) *view.AddressReport {
	return explain.NewAddressReport(&reconciler.Result{Assessment: j}, asked)
}
