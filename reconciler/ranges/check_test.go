package ranges_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/ranges"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// checked is a check of other bounds of the pool kube-system/10.0.0.0-24.
func checked(t *testing.T, b ranges.Bounds, parts ...Part) (*findings.Assessment, *ranges.Check) {
	t.Helper()
	j := Judged(Observe(parts...), facts.Policy{})
	u := usage.Of(j)
	p, err := ranges.OfRange(j.Facts(), u, u.Find("10.0.0.0-24")[0], b)
	check(t, err)
	return j, ranges.Of(j, u, p)
}

// defined is a check of a definition in a file, of default/<name>.
func defined(t *testing.T, name, ipam string, parts ...Part) (*findings.Assessment, *ranges.Check) {
	t.Helper()
	j := Judged(Observe(parts...), facts.Policy{})
	u := usage.Of(j)
	nad := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"config": `{"ipam":{"type":"whereabouts",` + ipam + `}}`}}}
	nad.SetNamespace("default")
	nad.SetName(name)
	p, err := ranges.OfDefinition(ippool.Read[ippool.NAD](nad), u, nil)
	check(t, err)
	return j, ranges.Of(j, u, p)
}

// twice are the addresses that would be assigned twice, as "<address> <next ADD> <who has it>".
func twice(c *ranges.Check) string {
	var texts []string
	for _, x := range c.Twice {
		next := "?"
		if x.Next != nil {
			next = x.Next.String()
		}
		texts = append(texts, fmt.Sprint(x.Address, " ", next, " ", strings.Join(x.By, "+")))
	}
	return strings.Join(texts, ", ")
}

func TestCheck_Outside(t *testing.T) {
	pool := func(cidr string, keys ...string) Part {
		var all []Allocation
		for _, key := range keys {
			all = append(all, Alloc(key, "default/x", "box-"+key, "net1"))
		}
		return Pool(strings.NewReplacer("/", "-", ":", "-").Replace(cidr), cidr, all...)
	}
	for _, c := range []struct {
		says, to, want string
		exclude        []string
		parts          []Part
	}{
		{"a smaller range", "10.0.0.0/30", "10.0.0.3 10.0.0.4", nil, []Part{pool("10.0.0.0/29", "1", "2", "3", "4")}},
		{"start and end", "10.0.0.2-10.0.0.3/29", "10.0.0.1 10.0.0.4", nil, []Part{pool("10.0.0.0/29", "1", "2", "3", "4")}},
		{"what is excluded", "10.0.0.0/29", "10.0.0.1 10.0.0.4 10.0.0.5", []string{"10.0.0.1", "10.0.0.4/31"},
			[]Part{pool("10.0.0.0/29", "1", "2", "4", "5")}},
		{"everything fits", "10.0.0.0/24", "", nil, []Part{pool("10.0.0.0/29", "1", "2")}},
		{"other pools do not count", "10.0.0.0/30", "", nil,
			[]Part{pool("10.0.0.0/29", "1"), Pool("red-10.0.0.0-29", "10.0.0.0/29", Alloc("5", "default/x", "b", "net1"))}},
		{"IPv6", "fd00::/126", "fd00::9", nil, []Part{pool("fd00::/64", "1", "9")}},
		{"a key that cannot be parsed", "10.0.0.0/24", "unknown", nil, []Part{pool("10.0.0.0/29", "x")}},
		{"a range whose keys are ambiguous", "10.0.0.0/24", "10.0.0.6", nil, []Part{pool("10.0.0.5/29", "1")}},
	} {
		t.Run(c.says, func(t *testing.T) {
			j := Judged(Observe(append(c.parts, Pod("bystander"))...), facts.Policy{})
			u := usage.Of(j)
			i := slices.IndexFunc(u.All, func(p *usage.Pool) bool { return !strings.HasPrefix(p.Name, "red-") })
			p, err := ranges.OfRange(j.Facts(), u, u.All[i], ranges.Bounds{Range: c.to, Exclude: c.exclude})
			check(t, err)
			found := ranges.Of(j, u, p)
			isSame := strings.HasSuffix(c.to, "/29")
			if found.Ranges[0].IsToday != isSame && u.All[i].RangeText == "10.0.0.0/29" {
				t.Errorf("the pool of today: %v", found.Ranges[0].IsToday)
			}
			var got []string
			for _, it := range found.Outside {
				got = append(got, cmp.Or(strings.TrimPrefix(it.Address().String(), "invalid IP"), "unknown"))
			}
			equal(t, "outside", strings.Join(got, " "), c.want)
		})
	}
}

func TestCheck_OutsideWithoutAllocation(t *testing.T) {
	parts := []Part{
		NAD("wb", WhereaboutsConfig("10.0.0.0/24", "")), Pool("10.0.0.0-24", "10.0.0.0/24"),
		Pod("lost", Carrying("10.0.0.40"), CreatedLongAgo), Pod("kept", Carrying("10.0.0.2"), CreatedLongAgo),
		Reservation("10.0.0.50", "default/gone", time.Hour), Reservation("10.0.0.3", "default/gone", time.Hour),
	}
	_, c := checked(t, ranges.Bounds{Range: "10.0.0.1-10.0.0.14/24"}, parts...)
	if len(c.OutsideReservations) != 1 || c.OutsideReservations[0].Address().String() != "10.0.0.50" {
		t.Errorf("reservations outside: %v", c.OutsideReservations)
	}
	if len(c.OutsideUnrecorded) != 1 || c.OutsideUnrecorded[0].IP != "10.0.0.40" || len(c.Unknown) > 0 {
		t.Errorf("carried without an allocation: %v, unknown %q", c.OutsideUnrecorded, c.Unknown)
	}
	_, c = checked(t, ranges.Bounds{Range: "10.0.0.0/24"}, parts...)
	if len(c.OutsideUnrecorded)+len(c.OutsideReservations) > 0 {
		t.Errorf("everything is inside, but is listed: %v", c)
	}
	equal(t, "twice", twice(c), "10.0.0.2 2 default/kept, 10.0.0.40 40 default/lost")
}

// Here the pool 10.0.0.0-24 has web-1 with .1 and web-2 with .2, and a definition of a range gets another one.
func TestCheck_Twice(t *testing.T) {
	pool := Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("1", "default/web-1", "b1", "net1"),
		Alloc("2", "default/web-2", "b2", "net1"))
	pods := All(Pod("web-1", Carrying("10.0.0.1")), Pod("web-2", Carrying("10.0.0.2")))
	on, off := NAD("wb", WhereaboutsConfig("10.0.0.0/24", "")), NAD("wb", WhereaboutsConfig("10.0.0.0/24", "",
		`"enable_overlapping_ranges":false`))
	reserved := All(Reservation("10.0.0.1", "default/web-1", time.Hour),
		Reservation("10.0.0.2", "default/web-2", time.Hour))
	today := All(pool, pods, on, reserved)
	wide := ranges.Bounds{Range: "10.0.0.0/23"}
	node := Node("worker-9", func(n *corev1.Node) {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.1.1"}}
	})
	for _, c := range []struct {
		says, want string
		to         ranges.Bounds
		parts      []Part
	}{
		{"the pool stays, and has them", "", ranges.Bounds{Range: "10.0.0.0/24", Start: "10.0.0.1"}, []Part{today}},
		{"the pool stays, without reservations", "", ranges.Bounds{Range: "10.0.0.0/24"}, []Part{pool, pods, off}},
		{"it grows, and reservations keep them", "", wide, []Part{today}},
		{"it grows, and ADDs look at no reservations", "10.0.0.1 1 default/web-1, 10.0.0.2 2 default/web-2", wide,
			[]Part{pool, pods, off, reserved}},
		{"it grows, and one reservation is missing", "10.0.0.2 1 default/web-2", wide,
			[]Part{pool, pods, on, Reservation("10.0.0.1", "default/web-1", time.Hour)}},
		{"it grows, and that of a pod with an unreadable status is missing", "10.0.0.2 1 default/web-2", wide, []Part{pool,
			on, pods, Reservation("10.0.0.1", "default/web-1", time.Hour), Pod("web-2", NetworkStatus("{"))}},
		{"what would be assigned twice is excluded", "", ranges.Bounds{Range: "10.0.0.0/23",
			Exclude: []string{"10.0.0.0/30"}}, []Part{pool, pods, off}},
		{"it begins behind them", "", ranges.Bounds{Range: "10.0.0.0/23", Start: "10.0.0.3"}, []Part{pool, pods, off}},
		{"it moves elsewhere", "", ranges.Bounds{Range: "10.9.0.0/24"}, []Part{pool, pods, off}},
		{"it moves to where another pool is, with reservations", "", ranges.Bounds{Range: "10.5.0.0/23"},
			[]Part{today, Pool("10.5.0.0-24", "10.5.0.0/24", Alloc("7", "default/o", "b7", "net1")),
				Reservation("10.5.0.7", "default/o", time.Hour), Pod("o", Carrying("10.5.0.7"))}},
		{"it moves to where another pool is, without", "10.5.0.7 7 default/o", ranges.Bounds{Range: "10.5.0.0/23"},
			[]Part{today, Pool("10.5.0.0-24", "10.5.0.0/24", Alloc("7", "default/o", "b7", "net1")),
				Pod("o", Carrying("10.5.0.7"))}},
		{"another network has the address", "", ranges.Bounds{Range: "10.5.0.0/23"},
			[]Part{today, Pool("red-10.5.0.0-24", "10.5.0.0/24", Alloc("7", "default/o", "b7", "net1")),
				NAD("red", WhereaboutsConfig("10.5.0.0/24", "red")), Pod("o", CarryingOn("default/red", "net1", "10.5.0.7"))}},
		{"a Node has one", "10.0.1.1 255 node/worker-9", wide, []Part{today, node}},
		{"a pod of another IPAM has one", "10.0.1.1 255 default/static", wide, []Part{today,
			NAD("static", `{"ipam":{"type":"static"}}`), Pod("static", CarryingOn("default/static", "net1", "10.0.1.1"))}},
		{"a pod of a definition that is unknown has one", "10.0.1.1 255 default/odd", wide, []Part{today,
			Pod("odd", CarryingOn("default/none", "net1", "10.0.1.1"))}},
		{"a guest has one", "10.0.1.1 255 vmi/default/vm", wide, []Part{today, Guest("vm", "default/wb", "10.0.1.1")}},
		{"a phantom has one", "10.0.1.1 255 default/web-0", wide, []Part{today, ReportingWorker(Sandbox("box-9", UsualUID,
			WithAddress("10.0.1.1", "")))}},
		{"a sandbox that has stopped, and whose network may be open, has one", "10.0.1.1 255 default/web-0", wide,
			[]Part{today, ReportingWorker(Sandbox("box-9", UsualUID, WithAddress("10.0.1.1", ""), NotReady(Open)))}},
		{"one whose network is closed has one", "", wide, []Part{today, ReportingWorker(Sandbox("box-9", UsualUID,
			WithAddress("10.0.1.1", ""), NotReady(Closed)))}},
		{"a phantom of another network has one", "", wide, []Part{today, ReportingWorker(Sandbox("box-9", UsualUID,
			WithAddress("10.0.1.1", "red")))}},
		{"a stale one is nobody's", "", wide, []Part{off, Pool("10.0.0.0-24", "10.0.0.0/24",
			Alloc("1", "default/gone", "b1", "net1")), ReportingWorker()}},
		{"a reservation alone is nobody's whom ADDs see", "", wide, []Part{on, Pool("10.0.0.0-24", "10.0.0.0/24"), pods,
			reserved}},
		{"a pod is there twice over two families", "", ranges.Bounds{Range: "fd00::/64"}, []Part{today}},
	} {
		t.Run(c.says, func(t *testing.T) {
			_, found := checked(t, c.to, append(c.parts, Pod("bystander"))...)
			equal(t, c.says, twice(found), c.want)
			if found.IsTwice() != (c.want != "") {
				t.Errorf("twice: %v, overlaps %v", found.IsTwice(), found.Overlaps)
			}
		})
	}
}

// A node that has a slice keeps it while the definition is cut into the same slices, and its ADDs read this pool.
func TestCheck_Slices(t *testing.T) {
	today := All(ThreeNodes(), NAD("wb", WhereaboutsConfig("10.0.0.0/24", "", `"node_slice_size":"/28"`)),
		Pool("worker-1-10.0.0.0-28", "10.0.0.0/28", UsualAllocation), UsualPod(Carrying("10.0.0.5")),
		ReportingWorker(Sandbox("box-1", UsualUID, WithAddress("10.0.0.5", ""))))
	reserved := Reservation("10.0.0.5", "default/web-0", time.Hour)
	for _, c := range []struct {
		says, ipam, want string
		parts            []Part
	}{
		{"nothing changes", `"range":"10.0.0.0/24","node_slice_size":"/28"`, "", nil},
		{"the range grows", `"range":"10.0.0.0/23","node_slice_size":"/28"`, "10.0.0.5 ? default/web-0", nil},
		{"the slices shrink", `"range":"10.0.0.0/24","node_slice_size":"/29"`, "10.0.0.5 ? default/web-0", nil},
		{"it is cut no more", `"range":"10.0.0.0/24"`, "10.0.0.5 5 default/web-0", nil},
		{"the range grows, and its reservation keeps it", `"range":"10.0.0.0/23","node_slice_size":"/28"`, "",
			[]Part{reserved}},
	} {
		j, found := defined(t, "wb", c.ipam, append(c.parts, today)...)
		equal(t, c.says, twice(found), c.want)
		fits, err := found.Fits(j, 1, intstr.FromInt32(0))
		isSliced := strings.Contains(c.ipam, "slice")
		if err != nil || strings.HasPrefix(fits[0].Unknown, "each node") != isSliced {
			t.Errorf("%s: %+v (%v)", c.says, fits, err)
		}
	}
}

// What is released soon keeps no address.
func TestCheck_StaleReservations(t *testing.T) {
	node := func(n *corev1.Node) {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.9"}}
	}
	today := All(NAD("wb", WhereaboutsConfig("10.0.0.0/24", "")), Pool("10.0.0.0-24", "10.0.0.0/24"),
		Node("worker-9", node), FreshReport("worker-9"), Pod("bystander"))
	j, found := checked(t, ranges.Bounds{Range: "10.0.0.0/25"}, today, Reservation("10.0.0.9", "default/gone", LongAgo))
	if j.Reservations[0].Verdict != judge.Stale || twice(found) != "10.0.0.9 9 node/worker-9" {
		t.Errorf("the reservation is %s, twice: %s", j.Reservations[0].Verdict, twice(found))
	}
	pending := All(Pod("starting", Phase("Pending"), NoNetworkStatus),
		Reservation("10.0.0.9", "default/starting", LongAgo))
	_, found = checked(t, ranges.Bounds{Range: "10.0.0.0/25"}, today, pending)
	equal(t, "the pod of the reservation would not get", twice(found), "10.0.0.9 ? node/worker-9")
}

// ADDs skip what is stale until it is released, so its addresses are not free, as in pools.
func TestCheck_StaleReservationsAreNotFree(t *testing.T) {
	parts := []Part{Pool("10.0.0.0-24", "10.0.0.0/24"), Node("worker-9"), FreshReport("worker-9"), Pod("bystander")}
	for i := 1; i <= 40; i++ {
		parts = append(parts, Reservation(fmt.Sprint("10.0.0.", i), "default/gone", LongAgo))
	}
	for says, c := range map[string]struct {
		more, free, skipped, begin string
	}{
		"reservations count":        {`"enable_overlapping_ranges":true`, "214", "40", "10.0.0.41"},
		"reservations do not count": {overlapOff, "254", "0", ""},
	} {
		j, found := checked(t, ranges.Bounds{Range: "10.0.0.0/24"}, append(parts, NAD("wb",
			WhereaboutsConfig("10.0.0.0/24", "", c.more)))...)
		begin := ""
		for _, s := range found.Steps(j) {
			begin += s.Names["begin"]
		}
		r, today := found.Ranges[0], usage.Of(j).All[0]
		equal(t, says+": stale", j.Reservations[0].Verdict, judge.Stale)
		equal(t, says+": free", ippool.Size(r.Free).String(), c.free)
		equal(t, says+": free in pools", today.Free.String(), c.free)
		equal(t, says+": skipped", r.Skipped.String(), c.skipped)
		equal(t, says+": range_start", begin, c.begin)
		equal(t, says+": twice", twice(found), "")
	}
}

func TestCheck_Overlaps(t *testing.T) {
	off := `"enable_overlapping_ranges":false`
	today := All(Pool("10.0.0.0-24", "10.0.0.0/24"), Pod("bystander"), NAD("wb", WhereaboutsConfig("10.0.0.0/24", "")))
	other := func(cidr, network string, more ...string) Part {
		return NAD("wb2", WhereaboutsConfig(cidr, network, more...))
	}
	for _, c := range []struct {
		says, ipam, want string
		parts            []Part
	}{
		{"both look at reservations", `"range":"10.0.0.0/25"`, "", []Part{other("10.0.0.0/24", "")}},
		{"the other one does not", `"range":"10.0.0.0/25"`, "default/wb2 10.0.0.0-24 the other definition does not use",
			[]Part{other("10.0.0.0/24", "", off)}},
		{"this one does not", `"range":"10.0.0.0/25",` + off, "default/wb2 10.0.0.0-24 this definition does not use",
			[]Part{other("10.0.0.0/24", "")}},
		{"neither does", `"range":"10.0.0.0/25",` + off, "default/wb2 10.0.0.0-24 neither uses",
			[]Part{other("10.0.0.0/24", "", off)}},
		{"they share the pool", `"range":"10.0.0.0/24",` + off, "", []Part{other("10.0.0.0/24", "", off)}},
		{"they are of two networks", `"range":"10.0.0.0/25",` + off, "", []Part{other("10.0.0.0/24", "red", off)}},
		{"they have no common address", `"range":"10.0.0.0/25",` + off, "", []Part{other("10.0.0.128/25", "", off)}},
		{"what is common is excluded", `"range":"10.0.0.0/25","exclude":["10.0.0.64/26"],` + off, "",
			[]Part{other("10.0.0.0/24", "", off, `"range_start":"10.0.0.64"`)}},
		{"whereabouts refuses the other one", `"range":"10.0.0.0/25",` + off, "",
			[]Part{other("10.0.0.0/24", "", off, `"exclude":["x"]`)}},
		{"the other one is cut into slices", `"range":"10.0.0.0/25",` + off, "default/wb2 slices of 10.0.0.0/24 neither uses",
			[]Part{other("10.0.0.0/24", "", off, `"node_slice_size":"/28"`)}},
	} {
		t.Run(c.says, func(t *testing.T) {
			_, found := defined(t, "wb", c.ipam, append(c.parts, today)...)
			got := ""
			for _, o := range found.Overlaps {
				got += strings.Join(o.Definitions, ",") + " " + o.Pool + " " + o.Why
			}
			if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) || found.IsTwice() != (c.want != "") {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// A definition that is new has no pool of today.
func TestCheck_NewDefinition(t *testing.T) {
	inTwo := All(Pool("10.8.0.0-24", "10.8.0.0/24"), func(o *Observed) { o.Pools[0].Namespace = "elsewhere" },
		Pool("10.7.0.0-24", "10.7.0.0/24"))
	for _, c := range []struct {
		says, pool, unknown string
		part                Part
	}{
		{"no pool is there", "10.9.0.0-24", "", Nothing},
		{"another pool is", "kube-system/10.9.0.0-24", "", Pool("10.8.0.0-24", "10.8.0.0/24")},
		{"pools of two namespaces are", "10.9.0.0-24", "the pools are in several namespaces", inTwo},
	} {
		_, found := defined(t, "new", `"range":"10.9.0.0/24"`, Pod("bystander"), c.part)
		r, why := found.Ranges[0], strings.Join(found.Unknown, "\n")
		isRight := strings.HasPrefix(why, c.unknown) && (c.unknown != "" || why == "")
		if r.Pool != c.pool || r.Exists || found.IsTwice() || !isRight {
			t.Errorf("%s: pool %q, unknown %q, twice %s", c.says, r.Pool, why, twice(found))
		}
	}
}

// What is unknown is never taken for free.
func TestCheck_Unknown(t *testing.T) {
	pool := All(NAD("wb", WhereaboutsConfig("10.0.0.0/24", "")), Pool("10.0.0.0-24", "10.0.0.0/24"), Pod("bystander"))
	for _, c := range []struct {
		says, want string
		part       Part
	}{
		{"nothing", "", Nothing},
		{"reports", "sandboxreports cannot be read (forbidden)", ReportsUnknown("forbidden")},
		{"reservations", "overlappingrangeipreservations cannot be read (no)", func(o *Observed) {
			o.Reservations = facts.Unknown[[]*ippool.Reservation](errors.New("no"))
		}},
		{"a definition", "cannot be read, and may assign the same addresses: default/broken", NAD("broken", "{")},
		{"a definition that a pod names", "default/broken cannot be read",
			All(NAD("broken", "{"), Pod("lost", CarryingOn("default/broken", "net1", "10.0.0.40"), CreatedLongAgo))},
		{"a silent node", "these nodes have no fresh SandboxReport, so their sandboxes may carry more: worker-1",
			StaleReport("worker-1")},
		{"a definition on the nodes", "are configured on the nodes, so their ranges are unknown: default/flat",
			NAD("flat", "")},
		{"a pod", "the addresses of these pods are unknown: default/dark (the pod has no readable network-status)",
			Pod("dark", NetworkStatus("{"), Requesting("wb"))},
		{"a pod of another definition with the range", "unknown: default/dark", All(Pod("dark", NetworkStatus("{"),
			Requesting("wide")), NAD("wide", WhereaboutsConfig("10.0.0.0/16", "")))},
		{"a pod of another range", "", All(Pod("dark", NetworkStatus("{"), Requesting("far")),
			NAD("far", WhereaboutsConfig("10.9.0.0/24", "")))},
		{"a pod of another network", "", All(Pod("dark", NetworkStatus("{"), Requesting("red")),
			NAD("red", WhereaboutsConfig("10.0.0.0/24", "red")))},
		{"a guest", "unknown: default/vm (VirtualMachineInstances: ", All(GuestsUnknown, Pod("vm", Launcher("vmi-1", ""),
			Carrying("10.0.0.9"), Requesting("wb")))},
		{"an allocation", `pool kube-system/red-10.0.0.0-24, allocation "x"`, Pool("red-10.0.0.0-24", "10.0.0.0/24",
			Alloc("x", "default/x", "b", "net1"))},
		{"a pool", "pool kube-system/10.8.0.0-24", RawPool("10.8.0.0-24", map[string]any{"range": "?"})},
		{"a range with ambiguous keys", "pool kube-system/10.8.0.5-24", Pool("10.8.0.5-24", "10.8.0.5/24")},
		{"no pods of a namespace", "these namespaces have allocations or reservations and no pods", func(o *Observed) {
			o.LackingPods = []string{"lost"}
		}},
		{"no pods", "there are no pods", func(o *Observed) { clear(o.Pods) }},
		{"no pods, and somebody says so", "", func(o *Observed) { clear(o.Pods); o.PodsComplete = true }},
		{"no manifest", "sysdump wrote pods.yaml, but the archive's manifest.json is missing", func(o *Observed) {
			o.Cut = "pods.yaml"
		}},
	} {
		j, found := checked(t, ranges.Bounds{Range: "10.0.0.0/28"}, pool, c.part)
		if text := strings.Join(found.Unknown, "\n"); c.want == "" && text != "" || !strings.Contains(text, c.want) {
			t.Errorf("%s: unknown is %q, want %q", c.says, text, c.want)
		}
		fits, err := found.Fits(j, 1, intstr.FromInt32(0))
		if err != nil || fits[0].IsFitting != (c.want == "") {
			t.Errorf("%s: one more pod: %+v (%v)", c.says, fits[0], err)
		}
	}
}

// An ADD writes the allocation first and its reservation a moment later: the answer in between is Unknown, not Twice.
func TestCheck_ADDInProgress(t *testing.T) {
	adding := All(NAD("wb", WhereaboutsConfig("10.0.0.0/24", "")), Pod("new", Phase(corev1.PodPending)),
		Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/new", "b", "net1")))
	for _, c := range []struct {
		says, twice, unknown string
		part                 Part
	}{
		{"no reservation yet", "", "these pods have an allocation and no reservation yet, since their ADD may be in " +
			"progress: default/new", Nothing},
		{"with its reservation", "", "", Reservation("10.0.0.5", "default/new", 0)},
		{"somebody else carries it", "10.0.0.5 5 default/new+node/worker-9", "", Node("worker-9", func(n *corev1.Node) {
			n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.5"}}
		})},
		{"ADDs do not look at reservations", "10.0.0.5 5 default/new", "", NAD("wb", WhereaboutsConfig("10.0.0.0/24", "",
			`"enable_overlapping_ranges":false`))},
	} {
		_, found := checked(t, ranges.Bounds{Range: "10.0.0.0/28"}, adding, c.part)
		if twice(found) != c.twice || strings.Join(found.Unknown, "\n") != c.unknown {
			t.Errorf("%s: %s is assigned twice, and unknown is %q", c.says, twice(found), found.Unknown)
		}
		equal(t, c.says+": free", ippool.Size(found.Ranges[0].Free).Int64(), int64(13))
	}
}

func TestCheck_Steps(t *testing.T) {
	today := All(Pool("10.0.0.0-24", "10.0.0.0/24", UsualAllocation), UsualPod(Carrying("10.0.0.5")))
	on := NAD("wb", WhereaboutsConfig("10.0.0.0/24", ""))
	for _, c := range []struct {
		says, want string
		to         ranges.Bounds
		parts      []Part
	}{
		{"everything stays", "edit verify", ranges.Bounds{Range: "10.0.0.0/24"}, []Part{on}},
		{"it shrinks", "edit restart verify", ranges.Bounds{Range: "10.0.0.0/24", Start: "10.0.0.6"}, []Part{on}},
		{"it moves", "edit restart verify retire", ranges.Bounds{Range: "10.9.0.0/24"}, []Part{on}},
		{"it grows without its reservation", "repair exclude again edit restart verify retire",
			ranges.Bounds{Range: "10.0.0.0/23"}, []Part{on}},
		{"something is unknown", "unknown again edit verify", ranges.Bounds{Range: "10.0.0.0/24"},
			[]Part{on, NAD("odd", "{")}},
	} {
		j, found := checked(t, c.to, append(c.parts, today)...)
		var got []string
		for _, s := range found.Steps(j) {
			got = append(got, strings.TrimPrefix(s.Name, "range "))
		}
		equal(t, c.says, strings.Join(got, " "), c.want)
	}
}

// A pool that a definition still leads to is not retired: 'pools retire' would keep it.
func TestCheck_StepsOfUsedPool(t *testing.T) {
	whole := All(Pool("10.0.0.0-24", "10.0.0.0/24"), NAD("wb", WhereaboutsConfig("10.0.0.0/24", "")))
	slice := All(Pool("worker-1-10.0.0.16-28", "10.0.0.16/28"), Node("worker-1"),
		NAD("wb", WhereaboutsConfig("10.0.0.0/24", "", `"node_slice_size":"/28"`)))
	for _, c := range []struct {
		says, to string
		parts    []Part
		want     bool
	}{
		{"it moves", `"range":"10.9.0.0/24"`, []Part{whole}, true},
		{"it moves, and another definition stays", `"range":"10.9.0.0/24"`,
			[]Part{whole, NAD("other", WhereaboutsConfig("10.0.0.0/24", ""))}, false},
		{"it moves, and a definition of another network stays", `"range":"10.9.0.0/24"`,
			[]Part{whole, NAD("other", WhereaboutsConfig("10.0.0.0/24", "red"))}, true},
		{"it is cut into slices", `"range":"10.0.0.0/24","node_slice_size":"/28"`, []Part{whole}, true},
		{"its slices move", `"range":"10.9.0.0/24","node_slice_size":"/28"`, []Part{slice}, true},
		{"its slices get another size", `"range":"10.0.0.0/24","node_slice_size":"/29"`, []Part{slice}, false},
		{"it is no longer cut", `"range":"10.0.0.0/24"`, []Part{slice}, true},
	} {
		j, found := defined(t, "wb", c.to, c.parts...)
		isRetired := slices.ContainsFunc(found.Steps(j), func(s ranges.Step) bool { return s.Name == "range retire" })
		equal(t, c.says, isRetired, c.want)
	}
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// check ends the test with an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
