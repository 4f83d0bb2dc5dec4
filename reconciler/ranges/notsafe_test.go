package ranges_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/ranges"
)

const overlapOff = `"enable_overlapping_ranges":false`

// told is what keeps a proposal from being Safe, a line each.
func told(c *ranges.Check) string {
	var lines []string
	for _, x := range c.Twice {
		lines = append(lines, fmt.Sprintf("%s by %s: %s", x.Address, strings.Join(x.By, ", "), x.Why))
	}
	for _, x := range c.Overlaps {
		lines = append(lines, fmt.Sprintf("%s with %s: %s", x.Range.Prefix, x.Pool, x.Why))
	}
	return strings.Join(slices.Concat(lines, c.Unknown, c.Uncut), "\n")
}

// mayCarry makes a sandbox one that may carry any address of a range.
func mayCarry(b *v1alpha1.Sandbox) {
	b.AddressesUnread, b.MayCarry = true, []v1alpha1.Network{{Range: "10.0.0.0/24"}}
}

func hasAddress(addr string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: addr}}
	}
}

// The pool stays as it is, or grows, and something has an address that an ADD may assign, or may have it.
func TestCheck_NotSafe(t *testing.T) {
	wb, pool := NAD("wb", WhereaboutsConfig("10.0.0.0/24", "")), Pool("10.0.0.0-24", "10.0.0.0/24")
	same, wide := ranges.Bounds{Range: "10.0.0.0/24"}, ranges.Bounds{Range: "10.0.0.0/23"}
	for _, c := range []struct {
		says, want string
		to         ranges.Bounds
		parts      []Part
	}{
		{"a listed sandbox of a pod has unread addresses",
			"reports lack addresses of these sandboxes: box-9 of default/dark on worker-1", same,
			[]Part{pool, Pod("dark", NetworkStatus("{"), Requesting("wb")),
				ReportingWorker(Sandbox("box-9", UsualUID, OfPod("dark"), Unread))}},
		{"a phantom has unread addresses",
			"reports lack addresses of these sandboxes: box-9 of default/gone on worker-1", same,
			[]Part{pool, ReportingWorker(Sandbox("box-9", OtherUID, OfPod("gone"), mayCarry))}},
		{"a phantom may have any address", "reports lack addresses of these sandboxes: " +
			"box-9 of default/gone on worker-1 (the API has no pod default/gone)", same,
			[]Part{pool, ReportingWorker(Sandbox("box-9", OtherUID, OfPod("gone"), Unread))}},
		{"the same on a node that is missing for long", "reports lack addresses of these sandboxes: " +
			"box-9 of default/gone on worker-9 (the API has no pod default/gone)", same,
			[]Part{pool, Node("worker-1"), ReportingWorker(), ReportRenewed("worker-9", 20*time.Minute,
				Sandbox("box-9", OtherUID, OfPod("gone"), Unread))}},
		{"a phantom has unread addresses of another network", "", same, []Part{pool, ReportingWorker(Sandbox("box-9",
			OtherUID, OfPod("gone"), func(b *v1alpha1.Sandbox) {
				b.AddressesUnread, b.MayCarry = true, []v1alpha1.Network{{NetworkName: "red", Range: "10.0.0.0/24"}}
			}))}},
		{"a guest has moved from a pod whose sandbox is closed", "10.0.0.5 by vmi/default/vm: no pool records it", same,
			[]Part{Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("7", "default/vm-b", "box-b", "net1")),
				Pod("vm-a", Launcher("vmi-1", ""), Carrying("10.0.0.5"), UID("uid-a"), DeletedAgo(-20*time.Second)),
				Pod("vm-b", Launcher("vmi-1", "m"), Carrying("10.0.0.7"), UID("uid-b"), OnNode("worker-2")),
				GuestOf("vmi-1", "10.0.0.5"),
				ReportingWorker(Sandbox("box-a", "uid-a", OfPod("vm-a"), WithAddress("10.0.0.5", ""), NotReady(Closed))),
				ReportingNode("worker-2", Sandbox("box-b", "uid-b", OfPod("vm-b"), WithAddress("10.0.0.7", "")))}},
		{"the reservation is another pod's",
			"10.0.0.5 by default/db-0: its reservation is that of default/web-0, whose ADDs assign it", wide,
			[]Part{Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/db-0", "box-5", "net1"),
				Alloc("7", "default/web-0", "box-7", "net1")), Pod("db-0", Carrying("10.0.0.5")),
				Pod("web-0", Carrying("10.0.0.7"), UID("uid-7")), Reservation("10.0.0.5", "default/web-0", LongAgo),
				Reservation("10.0.0.7", "default/web-0", LongAgo)}},
		{"a Node has what a stale allocation keeps",
			"10.0.0.9 by node/worker-9: the allocation in the pool is stale, and ADDs assign it once that is released", same,
			[]Part{Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("9", "default/gone", "box-1", "net1")), FreshReport("worker-9"),
				ReportingWorker(Gone("box-1", UsualUID)), Node("worker-9", hasAddress("10.0.0.9"))}},
		{"a pod started when the definition had another IPAM", "10.0.0.5 by default/s: no pool records it", same,
			[]Part{pool, Pod("s", Carrying("10.0.0.5"), UID("uid-s")), ReportingWorker()}},
		{"a machine on another network, and guests are unknown",
			"VirtualMachineInstances cannot be read (cannot list virtualmachineinstances.kubevirt.io: forbidden), so the " +
				"guests of these pods may have more addresses: default/vm",
			same, []Part{pool, NAD("plain", `{"type":"bridge","bridge":"br1"}`), GuestsUnknown,
				Pod("vm", Launcher("vmi-1", ""), NetworkStatus(`[{"name":"default/plain","interface":"net1"}]`))}},
		{"a pod without a readable status names a definition that is deleted", "the addresses of these pods are unknown: " +
			"default/dark (a definition that it names does not exist)", same,
			[]Part{pool, Pod("dark", NetworkStatus("{"), Requesting("gone"))}},
	} {
		if _, found := checked(t, c.to, append(c.parts, wb, Pod("bystander"))...); told(found) != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.says, told(found), c.want)
		}
	}
}

// whereabouts assigns a gateway as any other address. Definitions of other networks name their own.
func TestCheck_Gateways(t *testing.T) {
	pool := Pool("10.0.0.0-24", "10.0.0.0/24")
	gateway := func(name, network, addr string) Part {
		return NAD(name, WhereaboutsConfig("10.0.0.0/24", network, fmt.Sprintf(`"gateway":%q`, addr)))
	}
	whole := ranges.Bounds{Range: "10.0.0.0/24"}
	const why = ": whereabouts assigns a gateway as any other address"
	for _, c := range []struct {
		says, want string
		to         ranges.Bounds
		parts      []Part
	}{
		{"of the definition", "10.0.0.1 by gateway/default/wb" + why, whole, []Part{gateway("wb", "", "10.0.0.1")}},
		{"that is excluded", "", ranges.Bounds{Range: "10.0.0.0/24", Exclude: []string{"10.0.0.1/32"}},
			[]Part{gateway("wb", "", "10.0.0.1")}},
		{"outside of the range", "", whole, []Part{gateway("wb", "", "10.9.9.9")}},
		{"of another definition of the network", "10.0.0.7 by gateway/default/wc" + why, whole,
			[]Part{gateway("wb", "", "10.9.9.9"), gateway("wc", "", "10.0.0.7")}},
		{"of another network", "", whole, []Part{gateway("wb", "", "10.9.9.9"), gateway("wc", "blue", "10.0.0.7")}},
	} {
		if _, found := checked(t, c.to, append(c.parts, pool, Pod("bystander"))...); told(found) != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.says, told(found), c.want)
		}
	}
	for ipam, want := range map[string]string{
		`"range":"10.0.0.0/24"`:                        "10.0.0.1 by gateway/default/wb" + why,
		`"range":"10.0.0.0/24","gateway":"10.0.0.254"`: "10.0.0.254 by gateway/default/wb" + why,
	} {
		_, found := defined(t, "wb", ipam, pool, gateway("wb", "", "10.0.0.1"), Pod("bystander"))
		if told(found) != want {
			t.Errorf("a file with %s: got\n%s\nwant\n%s", ipam, told(found), want)
		}
	}
}

// The range grows, and one of several that have an address has its reservation. An ADD skips what another podref has
// reserved, and nothing else.
func TestCheck_Reserved(t *testing.T) {
	of := func(podref string) Part { return Reservation("10.0.0.5", podref, LongAgo) }
	entry := func(podref string) Part {
		return Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", podref, "box-5", "net1"))
	}
	vm := func(name, migration, addr string, with ...Part) Part {
		return All(append(with, GuestOf("vmi-1", "10.0.0.5"), Pod(name, Launcher("vmi-1", migration), Carrying(addr),
			UID("uid-"+name)))...)
	}
	const lost = ": its reservation is that of default/web-0, whose ADDs assign it"
	for _, c := range []struct {
		says, want string
		parts      []Part
	}{
		{"a phantom that was recorded", "", []Part{entry("default/web-0_uid-0"), of("default/web-0_uid-0"), ReportingWorker(
			Sandbox("box-9", OtherUID, WithAddress("10.0.0.5", "")))}},
		{"a pod on another network, and the owner", "", []Part{Pool("10.0.0.0-24", "10.0.0.0/24", UsualAllocation),
			UsualPod(Carrying("10.0.0.5")), of("default/web-0"),
			NAD("hl", `{"type":"bridge","ipam":{"type":"host-local","subnet":"10.0.0.0/24"}}`),
			Pod("x", UID("uid-x"), CarryingOn("default/hl", "net1", "10.0.0.5"))}},
		{"a pod of a namespace that is called vmi", "10.0.0.5 by vmi/db-0" + lost, []Part{entry("vmi/db-0"),
			Pod("db-0", InNamespace("vmi"), Carrying("10.0.0.5")), UsualPod(UID("uid-7")), of("default/web-0")}},
		{"the source of a migration", "", []Part{entry("default/vm-b"), of("default/vm-b"), vm("vm-a", "", "10.0.0.5"),
			vm("vm-b", "m", "10.0.0.5")}},
		{"the owner's guest", "", []Part{Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("6", "default/vm-a", "box-6", "net1")),
			of("default/vm-a"), vm("vm-a", "", "10.0.0.6", Reservation("10.0.0.6", "default/vm-a", LongAgo))}},
		{"somebody's guest", "10.0.0.5 by vmi/default/vm" + lost, []Part{
			Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("6", "default/vm-a", "box-6", "net1")), of("default/web-0"),
			UsualPod(), vm("vm-a", "", "10.0.0.6", Reservation("10.0.0.6", "default/vm-a", LongAgo))}},
		{"a machine that an IPAMClaim follows", "", []Part{entry("default/vm-b"), vm("vm-b", "", "10.0.0.5"),
			IPAMClaim("vm.net1", "10.0.0.5/24"), RawReservation("10.0.0.5", LongAgo, map[string]any{
				"podref": "default/vm-a", "ifname": "net1", "ipamclaimref": "default/vm.net1"})}},
	} {
		parts := append(c.parts, NAD("wb", WhereaboutsConfig("10.0.0.0/24", "")), Pod("bystander"))
		if _, found := checked(t, ranges.Bounds{Range: "10.0.0.0/23"}, parts...); told(found) != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.says, told(found), c.want)
		}
	}
}

// A definition from a file, and something that its ADDs do not see.
func TestCheck_NotSafeDefinitions(t *testing.T) {
	cut := `"node_slice_size":"/28"`
	wb, pool := NAD("wb", WhereaboutsConfig("10.0.0.0/24", "")), Pool("10.0.0.0-24", "10.0.0.0/24")
	sliced := WhereaboutsConfig("10.0.0.0/24", "", cut, overlapOff)
	two := `"ipRanges":[{"range":"10.0.0.0/24"},{"range":"10.0.0.0/25","range_start":"10.0.0.2"}],`
	huge := `"range_start":"fd00::8000:0:0:1",` + overlapOff
	both := `[{"name":"default/wb","interface":"net1","ips":["10.0.0.5"]},` +
		`{"name":"default/wb2","interface":"net2","ips":["10.8.0.5"]}]`
	for _, c := range []struct {
		says, want, name, ipam string
		parts                  []Part
	}{
		{"two of its ranges overlap, without checks",
			"10.0.0.0/25 with kube-system/10.0.0.0-24: neither uses enable_overlapping_ranges", "wb", two + overlapOff,
			[]Part{wb, pool}},
		{"two of its ranges overlap", "10.0.0.0/25 with kube-system/10.0.0.0-24: both are ranges of the new definition", "wb",
			two + `"enable_overlapping_ranges":true`, []Part{wb, pool}},
		{"a pod has two networks that overlap", "10.0.0.0/23 with 10.0.0.0-24: a pod that has both networks may get", "wb2",
			`"range":"10.0.0.0/23"`, []Part{wb, NAD("wb2", WhereaboutsConfig("10.8.0.0/24", "")), UsualPod(NetworkStatus(both)),
				Pool("10.8.0.0-24", "10.8.0.0/24", Alloc("5", "default/web-0", "box-1", "net2")),
				Pool("10.0.0.0-24", "10.0.0.0/24", UsualAllocation),
				Reservation("10.8.0.5", "default/web-0", LongAgo), Reservation("10.0.0.5", "default/web-0", LongAgo)}},
		{"another NodeSlicePool has the same range", "10.0.0.0/24 with slices of 10.0.0.0/24: neither uses", "wb",
			`"range":"10.0.0.0/24",` + cut + "," + overlapOff, []Part{ThreeNodes(), NAD("wb", sliced),
				NAD("wb2", strings.Replace(sliced, `"name":"wb"`, `"name":"other"`, 1)),
				Pool("worker-2-10.0.0.0-28", "10.0.0.0/28", Alloc("5", "default/o", "box-o", "net1")),
				Pod("o", CarryingOn("default/wb2", "net1", "10.0.0.5"), OnNode("worker-2"))}},
		{"a slice's Node is gone", "10.0.0.5 by default/o: recorded in kube-system/worker-9-10.0.0.0-28", "wb",
			`"range":"10.0.0.0/24",` + cut + "," + overlapOff, []Part{Node("worker-1"), Node("worker-3"), NAD("wb", sliced),
				Pool("worker-9-10.0.0.0-28", "10.0.0.0/28", Alloc("5", "default/o", "box-o", "net1")),
				Pod("o", Carrying("10.0.0.5"), OnNode("worker-9"))}},
		{"whereabouts does not read the entry's key", "fd00::8000:0:0:1 by default/a: recorded in kube-system/fd00---64",
			"wb", `"range":"fd00::/64",` + huge, []Part{Pod("a", Carrying("fd00::8000:0:0:1")),
				NAD("wb", WhereaboutsConfig("fd00::/64", "", huge)),
				Pool("fd00---64", "fd00::/64", Alloc("9223372036854775809", "default/a", "box-a", "net1"))}},
		{"a phantom is on the network of before", "10.0.0.9 by default/gone: no pool records it", "wb",
			`"range":"10.0.0.0/24","network_name":"red"`, []Part{pool, NAD("wb", WhereaboutsConfig("10.1.0.0/24", "")),
				ReportingWorker(Sandbox("box-9", OtherUID, OfPod("gone"), WithAddress("10.0.0.9", "")))}},
		{"the pool of its name has another range", "pool kube-system/10.0.0.0-24, which ADDs in 10.0.0.0/24 read, exists " +
			"and has the range 10.7.0.0/24", "wb", `"range":"10.0.0.0/24",` + overlapOff,
			[]Part{Pool("10.0.0.0-24", "10.7.0.0/24")}},
		{"the pool of its name has a range that cannot be read", `pool kube-system/10.0.0.0-24: spec.range ` +
			`"10.0.0.x/24"`, "wb", `"range":"10.0.0.0/24",` + overlapOff, []Part{Pool("10.0.0.0-24", "10.0.0.x/24")}},
	} {
		_, found := defined(t, c.name, c.ipam, append(c.parts, Pod("bystander"))...)
		if !strings.Contains(told(found), c.want) || strings.Contains(told(found), "invalid") {
			t.Errorf("%s: got\n%s\nwant\n%s", c.says, told(found), c.want)
		}
	}
}

// One cluster hides that it has an address which the other one has allocated. Their ranges have no address in common.
func TestCompare_NotApart(t *testing.T) {
	on := func(cidr string) Part {
		config := WhereaboutsConfig(cidr, "")
		return NAD("wb", strings.Replace(config, `"type":"macvlan"`, `"type":"macvlan","master":"eth1"`, 1))
	}
	b := All(Pool("10.0.0.0-25", "10.0.0.0/25", Alloc("5", "default/web", "box-1", "net1")), on("10.0.0.0/25"),
		reporting())
	for _, c := range []struct {
		says, want string
		hidden     Part
	}{
		{"nothing", "", reporting()},
		{"a phantom with unread addresses", "a: reports lack addresses of these sandboxes: box-9",
			reporting(Sandbox("box-9", "uid-9", OfPod("ph"), mayCarry))},
		{"a guest whose pod has another address", "10.0.0.5, a:default/vm Carried", All(Pod("vm", Launcher("vmi-1", ""),
			Carrying("10.0.0.5"), UID("uid-9")), GuestOf("vmi-1", "10.0.0.5"), reporting(Sandbox("box-9", "uid-9", OfPod("vm"),
			WithAddress("10.0.0.200", ""))))},
		{"a pod of another IPAM, before an edit", "10.0.0.5, a:default/s Carried", All(Pod("s", Carrying("10.0.0.5"),
			UID("uid-9")), reporting())},
		{"a node without an agent", "a: these nodes have no agent, so what sandboxes without a pod carry there cannot be " +
			"seen: worker-2", All(reporting(), Node("worker-2", WithoutAgent))},
	} {
		found := compared(t, All(Pool("10.0.0.128-25", "10.0.0.128/25"), on("10.0.0.128/25"), c.hidden), b)
		got := shared(found) + strings.Join(found.Unknown, "\n")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %s, want %s", c.says, got, c.want)
		}
	}
	edited := All(Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/new", "box-5", "net1")), onMaster("wb5", "eth5"),
		on("10.9.0.0/24"), Pod("new", Phase("Pending"), NoNetworkStatus, Requesting("wb"), UID("uid-n")),
		reporting(Sandbox("box-5", "uid-n", OfPod("new"), WithAddress("10.0.0.5", ""))))
	if got := shared(compared(t, edited, b)); !strings.HasPrefix(got, "10.0.0.5?, a:default/new Recorded") {
		t.Errorf("a pool that is another definition's today: got %s", got)
	}
}
