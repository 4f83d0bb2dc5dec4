package findings_test

import (
	"errors"
	"slices"
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

// nadIn is default/<name>'s definition in another namespace.
func nadIn(namespace, name, config string) Part {
	return func(o *Observed) {
		nad := Observe(NAD(name, config)).NADs.Or(nil)[types.NamespacedName{Namespace: "default", Name: name}]
		nad.Namespace = namespace
		o.NADs.Or(nil)[nad.NamespacedName] = nad
	}
}

// Here default/web-0 runs with 10.0.0.5, which the pool 10.0.0.0-24 records for it. Its definition is default/wb.
func TestOutsideDefinition_Allocations(t *testing.T) {
	cidr, old := "10.0.0.0/24", UsualPool
	wb := func(cidr string, more ...string) Part { return NAD("wb", WhereaboutsConfig(cidr, "", more...)) }
	box := ReportingWorker(box1)
	running := All(old, carrier, box)
	phantom := All(old, box)
	ip6 := All(Pool("fd00---64", "fd00::/64", Alloc("5", "default/web-0", "box-1", "net1")), UsualPod(Carrying("fd00::5")))
	for _, c := range []struct {
		says, why string // why is "" for no finding
		parts     []Part
	}{
		{"its range has it", "", []Part{running, wb(cidr)}},
		{"its range was shrunk", "default/wb would not assign it: none of its ranges has the address",
			[]Part{running, wb("10.0.0.128/25")}},
		{"its range was moved", "none of its ranges has the address", []Part{running, wb("10.9.0.0/24")}},
		{"its range was grown, so it has another pool", "default/wb would not assign it: it assigns from pool 10.0.0.0-16",
			[]Part{running, wb("10.0.0.0/16")}},
		{"its network was renamed", "it assigns from pool red-10.0.0.0-24",
			[]Part{running, NAD("wb", WhereaboutsConfig(cidr, "red"))}},
		{"it begins behind it", "it assigns 10.0.0.6 to 10.0.0.254 of 10.0.0.0/24",
			[]Part{running, wb(cidr, `"range_start":"10.0.0.6"`)}},
		{"it begins with it", "", []Part{running, wb(cidr, `"range_start":"10.0.0.5"`)}},
		{"it ends before it", "it assigns 10.0.0.1 to 10.0.0.4 of 10.0.0.0/24",
			[]Part{running, wb(cidr, `"range_end":"10.0.0.4"`)}},
		{"it ends with it", "", []Part{running, wb(cidr, `"range_end":"10.0.0.5"`)}},
		{"its range was edited to begin before it, and to end behind it", "", []Part{running, wb("10.0.0.2-10.0.0.9/24")}},
		{"it excludes it", "it excludes 10.0.0.4/30", []Part{running, wb(cidr, `"exclude":["10.0.0.4/30"]`)}},
		{"it excludes it alone", "it excludes 10.0.0.5/32", []Part{running, wb(cidr, `"exclude":["10.0.0.5"]`)}},
		{"it excludes others", "", []Part{running, wb(cidr, `"exclude":["10.0.0.8/30"]`)}},
		{"another one of its ipRanges has it", "", []Part{running, NAD("wb",
			`{"ipam":{"type":"whereabouts","ipRanges":[{"range":"fd00::/64"},{"range":"10.0.0.0/24"}]}}`)}},
		{"the second of two equal ranges has it: it assigns nothing", "it assigns 10.0.0.9 to 10.0.0.254", []Part{running,
			NAD("wb", `{"ipam":{"type":"whereabouts","ipRanges":[{"range":"10.0.0.0/24","range_start":"10.0.0.9"},`+
				`{"range":"10.0.0.0/24"}]}}`)}},
		{"another definition shares the pool and assigns it", "", []Part{running, wb(cidr, `"range_start":"10.0.0.9"`),
			NAD("wb2", WhereaboutsConfig(cidr, "", `"range_end":"10.0.0.8"`))}},
		{"one of the same name in another namespace does", "", []Part{running, wb(cidr, `"range_start":"10.0.0.9"`),
			nadIn("other", "wb", WhereaboutsConfig(cidr, ""))}},
		{"one of another network does", "default/wb would not assign it", []Part{running,
			wb(cidr, `"range_start":"10.0.0.9"`), NAD("wb2", WhereaboutsConfig(cidr, "red"))}},
		{"an IPv6 range has it", "", []Part{ip6, wb("fd00::/64")}},
		{"an IPv6 range excludes it", "it excludes fd00::4/126", []Part{ip6, wb("fd00::/64", `"exclude":["fd00::4/126"]`)}},

		{"its node's slice has it", "", []Part{ThreeNodes(), wb(cidr, `"node_slice_size":"/28"`),
			sliceOf("worker-1", UsualAllocation), carrier, box}},
		{"its slice has no bounds", "", []Part{ThreeNodes(), wb(cidr, `"node_slice_size":"/28"`,
			`"exclude":["10.0.0.5"]`), sliceOf("worker-1", UsualAllocation), carrier, box}},
		{"its range was cut into slices", "it assigns from slices of 10.0.0.0/24",
			[]Part{running, ThreeNodes(), wb(cidr, `"node_slice_size":"/28"`)}},

		{"no pod has it: any definition of the pool counts", "its definitions would not assign it: default/a, default/b",
			[]Part{phantom, NAD("b", WhereaboutsConfig(cidr, "", `"range_start":"10.0.0.9"`)),
				NAD("a", WhereaboutsConfig(cidr, "", `"range_end":"10.0.0.4"`))}},
		{"no pod has it, and no definition is of the pool", "", []Part{phantom, wb("10.9.0.0/24")}},
		{"no pod has it, and a definition cannot be read", "", []Part{phantom, wb(cidr, `"range_start":"10.0.0.9"`),
			NAD("odd", "nonsense")}},
		{"no pod has it, and a definition is configured on the nodes", "", []Part{phantom,
			wb(cidr, `"range_start":"10.0.0.9"`), NAD("odd", "")}},
		{"its own definition is read, and another one is not", "default/wb would not assign it", []Part{running,
			wb("10.9.0.0/24"), NAD("odd", "nonsense")}},

		{"its definition is missing", "", []Part{running, NAD("wb2", WhereaboutsConfig("10.9.0.0/24", ""))}},
		{"its definition cannot be read", "", []Part{running, NAD("wb", "nonsense"),
			NAD("wb2", WhereaboutsConfig(cidr, "", `"range_start":"10.0.0.9"`))}},
		{"its definition is configured on the nodes", "", []Part{running, NAD("wb", "")}},
		{"its definition has another IPAM", "", []Part{running, NAD("wb", `{"ipam":{"type":"static"}}`)}},
		{"whereabouts refuses its definition", "", []Part{running, wb("10.9.0.0/24", `"exclude":["x"]`)}},
		{"whereabouts refuses one of the pool", "", []Part{running, wb("10.9.0.0/24"),
			NAD("wb2", WhereaboutsConfig(cidr, "", `"exclude":["x"]`))}},
		{"the definitions are unknown", "", []Part{running, func(o *Observed) {
			o.NADs = facts.Unknown[map[types.NamespacedName]*ippool.NAD](errors.New("forbidden"))
		}}},
		{"it is stale", "", []Part{old, ReportingWorker(), wb("10.9.0.0/24")}},
		{"its pod is starting", "", []Part{old, UsualPod(Phase("Pending"), NoNetworkStatus), box, wb("10.9.0.0/24")}},
		{"an IPAMClaim keeps it", "", []Part{ClaimedPool, IPAMClaim("vm.net1", "10.0.0.5"), carrier, box, wb("10.9.0.0/24")}},
	} {
		t.Run(c.says, func(t *testing.T) {
			expectOutside(t, c.why, FindingsOf(findings.OutsideDefinition, c.parts...))
		})
	}
}

// expectOutside expects one finding on an address ending in 5 of default/web-0, with a reason; none for "".
func expectOutside(t *testing.T, why string, found []findings.Finding) {
	t.Helper()
	if why == "" && len(found) == 0 {
		return
	}
	if why == "" || len(found) != 1 {
		t.Fatalf("got %+v, want %q", found, why)
	}
	f := found[0]
	isIts := strings.HasSuffix(f.IP, "5") && f.Pods[0] == "default/web-0"
	if !strings.Contains(f.Message, why) || !isIts || f.CanRepair() {
		t.Errorf("got %+v, want %q", f, why)
	}
}

// Here default/web-0 runs with 10.0.0.5, and no pool records it.
func TestOutsideDefinition_Carriers(t *testing.T) {
	wb := func(more ...string) Part { return NAD("wb", WhereaboutsConfig("10.0.0.0/24", "", more...)) }
	late := wb(`"range_start":"10.0.0.9"`)
	box := ReportingWorker(box1)
	says := "default/wb would not assign it: it assigns 10.0.0.9 to 10.0.0.254 of 10.0.0.0/24"
	for _, c := range []struct {
		says, why string
		parts     []Part
	}{
		{"its definition would not assign it", says, []Part{empty, carrier, box, late}},
		{"only its network-status names it", says, []Part{empty, carrier, Node("worker-1"), late}},
		{"its definition may assign it", "", []Part{empty, carrier, box, wb()}},
		{"another definition of its network may", "", []Part{empty, carrier, box, late, NAD("wb2",
			WhereaboutsConfig("10.0.0.0/28", ""))}},
		{"a definition of another network may", says, []Part{empty, carrier, box, late, NAD("wb2",
			WhereaboutsConfig("10.0.0.0/28", "red"))}},
		{"a pool records it: the finding is on the allocation", says, []Part{UsualPool, carrier, box, late}},
		{"the interface has another address, so this one may be static", "", []Part{empty, UsualPod(NetworkStatus(
			`[{"name":"default/wb","interface":"net1","ips":["10.0.0.20","10.0.0.5"]}]`)), box, late}},
		{"the interface has an address of the other family", says, []Part{empty, UsualPod(NetworkStatus(
			`[{"name":"default/wb","interface":"net1","ips":["fd00::5","10.0.0.5"]}]`)), box, late}},
		{"its definition cannot be read", "", []Part{empty, carrier, box, NAD("wb", "nonsense")}},
		{"its definition has another IPAM", "", []Part{empty, carrier, box, NAD("wb", `{"ipam":{"type":"static"}}`),
			NAD("wb2", WhereaboutsConfig("10.0.0.0/24", "", `"range_start":"10.0.0.9"`))}},
		{"it is a phantom, which names none", "", []Part{empty, box, late}},
		{"it is new", "", []Part{empty, UsualPod(Carrying("10.0.0.5"), MadeAgo(time.Second)), box, late}},
		{"its report shows that it does not have it", "", []Part{empty, carrier, late,
			ReportingWorker(Sandbox("box-1", UsualUID, WithAddress("10.0.0.20", "")))}},
	} {
		t.Run(c.says, func(t *testing.T) {
			expectOutside(t, c.why, FindingsOf(findings.OutsideDefinition, c.parts...))
		})
	}
}

func TestOutsideDefinition_NeverMakesAnythingStale(t *testing.T) {
	parts := []Part{UsualPool, carrier, ReportingWorker(box1)}
	ruling := func(cidr string) Ruling {
		all := append(slices.Clone(parts), NAD("wb", WhereaboutsConfig(cidr, "")))
		return RulingOf(Judged(Observe(all...), facts.Policy{}).Allocations[0])
	}
	if in, out := ruling("10.0.0.0/24"), ruling("10.9.0.0/24"); in != out || out.Verdict == judge.Stale {
		t.Errorf("within the definition: %v, outside: %v", in, out)
	}
}
