package ranges_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/ranges"
)

// onMaster is a definition of 10.0.0.0/24 by macvlan; more are further fields of its IPAM section.
func onMaster(name, master string, more ...string) Part {
	config := WhereaboutsConfig("10.0.0.0/24", "", more...)
	return NAD(name, strings.Replace(config, `"type":"macvlan"`, `"type":"macvlan","master":"`+master+`"`, 1))
}

// reporting is a node whose agent reports some sandboxes, beside a pod: without it everything is unknown.
func reporting(edits ...ReportEdit) Part {
	return All(Pod("bystander"), ReportingWorker(append(edits, Sandbox("box-0", "uid-0", OfPod("bystander")))...))
}

func compared(t *testing.T, a, b Part, statements ...ranges.Statement) *ranges.Comparison {
	t.Helper()
	c, err := ranges.Compare(ranges.Cluster{Label: "a", Assessment: Judged(Observe(a), facts.Policy{})},
		ranges.Cluster{Label: "b", Assessment: Judged(Observe(b), facts.Policy{})}, statements)
	check(t, err)
	return c
}

// shared are the addresses that both clusters have, each with who has it.
func shared(c *ranges.Comparison) string {
	var texts []string
	for _, s := range c.Addresses {
		text := []string{s.Address.String()}
		if s.Relation == ranges.Unknown {
			text[0] += "?"
		}
		for _, h := range s.Holders {
			how := strings.Trim(fmt.Sprint(h.How), "[]")
			text = append(text, fmt.Sprintf("%s:%s %s", h.Cluster, h.Who, how))
		}
		texts = append(texts, strings.Join(text, ", "))
	}
	return strings.Join(texts, "; ")
}

// sharedRanges are the ranges that both clusters assign, with = for one network, ? for unknown and ! for two.
func sharedRanges(c *ranges.Comparison) string {
	var texts []string
	for _, s := range c.Ranges {
		sign := map[ranges.Relation]string{ranges.Same: "=", ranges.Unknown: "?", ranges.Other: "!"}[s.Relation]
		texts = append(texts, fmt.Sprintf("%s%v%v%v", sign, s.Shared.Ranges(), s.Assigned[0].Definitions,
			s.Assigned[1].Definitions))
	}
	return strings.Join(texts, "; ")
}

func TestCompare_WhoHasAnAddress(t *testing.T) {
	record := func(pod string) Part {
		return Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/"+pod, "box-"+pod, "net1"))
	}
	empty, eth1 := Pool("10.0.0.0-24", "10.0.0.0/24"), onMaster("wb", "eth1")
	gateway := onMaster("gw", "eth1", `"gateway":"10.0.0.5"`)
	inA := All(record("web-a"), eth1, reporting())
	for _, c := range []struct {
		says, want string
		b          Part
	}{
		{"nobody", "", empty},
		{"a pool", "10.0.0.5, a:default/web-a Recorded, b:default/web-b Recorded", record("web-b")},
		{"a pool and its pod", "10.0.0.5, a:default/web-a Recorded, b:default/web-b Recorded Carried",
			All(record("web-b"), Pod("web-b", Carrying("10.0.0.5"), OnNode("worker-7")))},
		{"a reservation", "10.0.0.5, a:default/web-a Recorded, b:default/web-b Reserved",
			All(empty, Reservation("10.0.0.5", "default/web-b", time.Hour))},
		{"a pod without a record", "10.0.0.5, a:default/web-a Recorded, b:default/web-b Carried",
			All(empty, Pod("web-b", Carrying("10.0.0.5"), OnNode("worker-7")))},
		{"a guest", "10.0.0.5, a:default/web-a Recorded, b:vmi/default/vm-1 Carried",
			All(empty, Guest("vm-1", "default/wb", "10.0.0.5"))},
		{"a Node", "10.0.0.5?, a:default/web-a Recorded, b:node/worker-9 Carried",
			All(empty, Node("worker-9", func(n *corev1.Node) {
				n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.5"}}
			}))},
		{"a gateway", "10.0.0.5, a:default/web-a Recorded, b:gateway/default/gw Carried", All(empty, gateway)},
		{"a pod with another IPAM", "10.0.0.5?, a:default/web-a Recorded, b:default/plain Carried",
			All(empty, Pod("plain", PodIPs("10.0.0.5")))},
	} {
		t.Run(c.says, func(t *testing.T) {
			b := All(c.b, eth1, reporting())
			equal(t, c.says, shared(compared(t, inA, b)), c.want)
			turned := shared(compared(t, b, inA))
			if (turned == "") != (c.want == "") || strings.Contains(turned, "?") != strings.Contains(c.want, "?") {
				t.Errorf("the other way round: %s", turned)
			}
		})
	}
}

// A segment has one gateway, which the definitions of both clusters name.
func TestCompare_OneGateway(t *testing.T) {
	both := All(Pool("10.0.0.0-24", "10.0.0.0/24"), onMaster("wb", "eth1", `"gateway":"10.0.0.1"`), reporting())
	if got := shared(compared(t, both, both)); got != "" {
		t.Errorf("got %s", got)
	}
}

// A sandbox that only a report has is a carrier.
func TestCompare_Phantoms(t *testing.T) {
	pool := Pool("10.0.0.0-24", "10.0.0.0/24")
	phantom := Sandbox("box-9", "uid-9", OfPod("phantom"), WithAddress("10.0.0.9", ""))
	a := All(pool, onMaster("wb", "eth1"), reporting(phantom))
	equal(t, "shared", shared(compared(t, a, a)), "10.0.0.9, a:default/phantom Carried, b:default/phantom Carried")
}

// What neither cluster has from whereabouts is no matter of it, as the addresses of two pod networks.
func TestCompare_OtherIPAM(t *testing.T) {
	plain := All(Pool("10.0.0.0-24", "10.0.0.0/24"), onMaster("wb", "eth1"), Pod("plain", PodIPs("10.0.0.7")), reporting())
	equal(t, "shared", shared(compared(t, plain, plain)), "")
}

// What whereabouts assigned before its ranges were edited counts, too.
func TestCompare_OutsideOfRanges(t *testing.T) {
	whole := All(Pool("10.0.0.0-24", "10.0.0.0/24"), onMaster("wb", "eth1"), reporting())
	pod := Pod("old", Carrying("10.9.9.9"), OnNode("worker-7"))
	for _, c := range []struct {
		says, want string
		a, b       Part
	}{
		{"two pods", "10.9.9.9, a:default/old Carried, b:default/old Carried", pod, pod},
		{"a pod and a guest", "10.9.9.9, a:default/old Carried, b:vmi/default/vm-1 Carried", pod,
			Guest("vm-1", "default/wb", "10.9.9.9")},
		{"a pod and one with another IPAM", "10.9.9.9?, a:default/old Carried, b:default/plain Carried", pod,
			Pod("plain", PodIPs("10.9.9.9"))},
		{"two with another IPAM", "", Pod("plain", PodIPs("10.9.9.9")), Pod("plain", PodIPs("10.9.9.9"))},
	} {
		equal(t, c.says, shared(compared(t, All(whole, c.a), All(whole, c.b))), c.want)
	}
}

// Somebody says that a snapshot has all pods. That says nothing of other objects.
func TestCompare_PodsComplete(t *testing.T) {
	whole := All(Pool("10.0.0.0-24", "10.0.0.0/24"), onMaster("wb", "eth1"), reporting())
	for says, c := range map[string]struct {
		part Part
		want bool
	}{
		"the pods of a namespace": {func(o *Observed) { o.LackingPods = []string{"lost"} }, false},
		"all pods":                {func(o *Observed) { clear(o.Pods) }, false},
		"a manifest":              {func(o *Observed) { o.Cut = "pods.yaml" }, true},
	} {
		complete := func(o *Observed) { o.PodsComplete = true }
		j := Judged(Observe(All(whole, c.part, complete)), facts.Policy{})
		both := ranges.Cluster{Label: "a", Assessment: j}
		found, err := ranges.Compare(both, both, nil)
		if err != nil || len(found.Unknown) > 0 != c.want {
			t.Errorf("%s: unknown is %q, %v", says, found.Unknown, err)
		}
	}
}

// Whether two networks are one is decided by master, VLAN and network_name, and where one of them is unknown, it is
// unknown.
func TestCompare_Networks(t *testing.T) {
	plugin := func(text, name string) Part {
		return NAD("wb", `{`+text+`"ipam":{"type":"whereabouts","range":"10.0.0.0/24","network_name":"`+name+`"}}`)
	}
	eth1, eth2, bare := `"type":"macvlan","master":"eth1",`, `"type":"macvlan","master":"eth2",`, `"type":"macvlan",`
	vlan := func(id int) string { return fmt.Sprintf(`"type":"bridge","bridge":"br1","vlan":%d,`, id) }
	sriov := func(id int) string { return fmt.Sprintf(`"type":"sriov","vlan":%d,`, id) }
	one := ranges.Statement{A: "a/default/wb", B: "b/wb"}
	for _, c := range []struct {
		says, want, why, a, b, nameA, nameB string
		statements                          []ranges.Statement
	}{
		{says: "one master", want: "=", a: eth1, b: eth1},
		{says: "one master and network_name", want: "=", a: eth1, b: eth1, nameA: "red", nameB: "red"},
		{says: "ipvlan on the same", want: "=", a: eth1, b: `"type":"ipvlan","master":"eth1",`},
		{says: "two masters", want: "!", a: eth1, b: eth2},
		{says: "two masters of one segment", want: "=", a: eth1, b: eth2, statements: []ranges.Statement{one}},
		{says: "one VLAN", want: "=", a: vlan(5), b: vlan(5)},
		{says: "two VLANs", want: "!", a: vlan(5), b: vlan(6)},
		{says: "a VLAN and none", want: "!", a: vlan(5), b: vlan(0)},
		{says: "no master in a", want: "?", why: "definition default/wb of a names no master", a: bare, b: eth1},
		{says: "no master in b", want: "?", why: "definition default/wb of b names no master", a: eth1, b: bare},
		{says: "no master in both", want: "?", why: "definition default/wb of a names no master", a: bare, b: bare},
		{says: "no master, and said to be one", want: "=", a: bare, b: eth1, statements: []ranges.Statement{one}},
		{says: "one VLAN of devices", want: "?", why: "names no master", a: sriov(5), b: sriov(5)},
		{says: "a VLAN of a device and of a bridge", want: "?", why: "names no master", a: sriov(5), b: vlan(5)},
		{says: "a VLAN of a device and an access port", want: "?", why: "names no master", a: sriov(5), b: eth1},
		{says: "two VLANs of devices", want: "!", a: sriov(5), b: sriov(6)},
		{says: "two network_names on one master", want: "?", a: eth1, b: eth1, nameA: "red",
			why: `the segment is one, but network_name is "red" in a and "" in b`},
		{says: "two network_names that are one", want: "=", a: eth1, b: eth2, nameA: "red",
			statements: []ranges.Statement{one}},
	} {
		t.Run(c.says, func(t *testing.T) {
			cluster := func(plugin Part, name string) Part {
				pool := ippool.PoolName(name, netip.MustParsePrefix("10.0.0.0/24"))
				return All(plugin, Pool(pool, "10.0.0.0/24", Alloc("5", "default/web", "box-1", "net1")), reporting())
			}
			found := compared(t, cluster(plugin(c.a, c.nameA), c.nameA), cluster(plugin(c.b, c.nameB), c.nameB), c.statements...)
			both := "10.0.0.5%s, a:default/web Recorded, b:default/web Recorded"
			want := map[string]string{"=": fmt.Sprintf(both, ""), "?": fmt.Sprintf(both, "?"), "!": ""}[c.want]
			equal(t, "shared", shared(found), want)
			equal(t, "ranges", sharedRanges(found), c.want+"[10.0.0.1-10.0.0.254][default/wb][default/wb]")
			if found.IsShared() != (c.want == "=") || found.IsUnknown() != (c.want == "?") || len(found.Unknown) > 0 {
				t.Errorf("shared %v, unknown %v: %q", found.IsShared(), found.IsUnknown(), found.Unknown)
			}
			for _, why := range []string{found.Ranges[0].Why, whyOf(found)} {
				if c.want != "!" && !strings.Contains(why, c.why) || (c.why == "") != (why == "") {
					t.Errorf("why: %q, want %q", why, c.why)
				}
			}
		})
	}
}

func whyOf(c *ranges.Comparison) string {
	if len(c.Addresses) == 0 {
		return ""
	}
	return c.Addresses[0].Why
}

// Which network an address is on is unknown where no definition assigns from its pool, or definitions of several do.
func TestCompare_UnknownNetworks(t *testing.T) {
	pool := Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/web", "box-1", "net1"))
	many := Nothing
	for i := range 17 {
		many = All(many, onMaster(fmt.Sprint("wb-", i), fmt.Sprint("eth", 100+i)))
	}
	for _, c := range []struct {
		says, want, why string
		b               Part
	}{
		{"one definition", "10.0.0.5, a:default/web Recorded, b:default/web Recorded", "", onMaster("wb", "eth1")},
		{"no definition", "10.0.0.5?, a:default/web Recorded, b:default/web Recorded",
			"no readable definition of b assigns from pool kube-system/10.0.0.0-24",
			NAD("wb", WhereaboutsConfig("10.8.0.0/24", ""))},
		{"two definitions", "10.0.0.5?, a:default/web Recorded, b:default/web Recorded",
			"definitions of several segments assign it", All(onMaster("wb", "eth1"), onMaster("wb2", "eth2"))},
		{"two definitions, and its pod has one", "10.0.0.5, a:default/web Recorded, b:default/web Recorded Carried", "",
			All(onMaster("wb", "eth1"), onMaster("wb2", "eth2"), Pod("web", Carrying("10.0.0.5"), OnNode("worker-7")))},
		{"two definitions with other masters", "", "", All(onMaster("wb", "eth3"), onMaster("wb2", "eth2"))},
		{"too many definitions", "10.0.0.5?, a:default/web Recorded, b:default/web Recorded",
			"definitions of more than 16 networks assign it", many},
	} {
		found := compared(t, All(pool, onMaster("wb", "eth1"), reporting()), All(pool, c.b, reporting()))
		if got := shared(found); got != c.want || whyOf(found) != c.why {
			t.Errorf("%s: got %s (%s), want %s (%s)", c.says, got, whyOf(found), c.want, c.why)
		}
	}
}

func TestCompare_Ranges(t *testing.T) {
	a := All(Pool("10.0.0.0-24", "10.0.0.0/24"), onMaster("wb", "eth1"), reporting())
	on := func(ipam string) Part {
		return NAD("wb", `{"type":"macvlan","master":"eth1","ipam":{"type":"whereabouts",`+ipam+`}}`)
	}
	for _, c := range []struct {
		says, want string
		b          Part
	}{
		{"the same range", "=[10.0.0.1-10.0.0.254][default/wb][default/wb]", on(`"range":"10.0.0.0/24"`)},
		{"of two definitions", "=[10.0.0.1-10.0.0.254][default/wb][default/other default/wb]",
			All(on(`"range":"10.0.0.0/24"`), onMaster("other", "eth1"))},
		{"a smaller range", "=[10.0.0.129-10.0.0.254][default/wb][default/wb]", on(`"range":"10.0.0.128/25"`)},
		{"a larger range", "=[10.0.0.1-10.0.0.254][default/wb][default/wb]", on(`"range":"10.0.0.0/16"`)},
		{"another range", "", on(`"range":"10.0.1.0/24"`)},
		{"what is left is excluded", "=[10.0.0.1-10.0.0.127][default/wb][default/wb]",
			on(`"range":"10.0.0.0/24","exclude":["10.0.0.128/25"]`)},
		{"all is excluded", "", on(`"range":"10.0.0.0/24","exclude":["10.0.0.0/24"]`)},
		{"node slices", "=[10.0.0.1-10.0.0.254][default/wb][default/wb]",
			on(`"range":"10.0.0.0/16","node_slice_size":"/26"`)},
		{"whereabouts refuses it", "", on(`"range":"10.0.0.0/24","exclude":["x"]`)},
		{"IPv6", "", on(`"range":"fd00::/64"`)},
		{"one range twice", "=[10.0.0.1-10.0.0.9][default/wb][default/wb]",
			on(`"ipRanges":[{"range":"10.0.0.0/24","range_end":"10.0.0.9"},{"range":"10.0.0.0/24"}]`)},
	} {
		found := compared(t, a, All(Pool("10.9.0.0-24", "10.9.0.0/24"), c.b, reporting()))
		if got := sharedRanges(found); got != c.want || found.IsShared() != (c.want != "") {
			t.Errorf("%s: got %s, want %s", c.says, got, c.want)
		}
		turned := compared(t, All(Pool("10.9.0.0-24", "10.9.0.0/24"), c.b, reporting()), a)
		if len(turned.Ranges) != len(found.Ranges) {
			t.Errorf("%s: the other way round: %s", c.says, sharedRanges(turned))
		}
	}
}

// Tenants write definitions. That more ranges are there than are listed is said, and nothing is taken for apart.
func TestCompare_TooManyRanges(t *testing.T) {
	parts := []Part{Pool("10.0.0.0-24", "10.0.0.0/24"), reporting()}
	for i := range 40 {
		parts = append(parts, onMaster(fmt.Sprint("wb-", i), fmt.Sprint("eth", i)))
	}
	found := compared(t, All(parts...), All(parts...))
	isInOrder := found.Ranges[39].Relation == ranges.Same && found.Ranges[40].Relation == ranges.Other
	if len(found.Ranges) != 1000 || !isInOrder ||
		!strings.Contains(strings.Join(found.Unknown, "\n"), "more ranges in common than the 1000 that are listed") {
		t.Errorf("%d ranges, unknown: %q", len(found.Ranges), found.Unknown)
	}
}

// What one snapshot lacks may hide what is in both.
func TestCompare_Incomplete(t *testing.T) {
	whole := All(Pool("10.0.0.0-24", "10.0.0.0/24"), onMaster("wb", "eth1", `"exclude":["10.0.0.128/25"]`), reporting())
	other := All(Pool("10.9.0.0-24", "10.9.0.0/24"), NAD("wb", WhereaboutsConfig("10.9.0.0/24", "")), reporting())
	no := errors.New("no")
	for _, c := range []struct {
		says, want string
		part       Part
	}{
		{"nothing", "", Nothing},
		{"reports", "sandboxreports cannot be read (forbidden)", ReportsUnknown("forbidden")},
		{"all agents", "there are no SandboxReports", func(o *Observed) {
			o.Reports = facts.Complete(o.Reports.Or(nil)[:0], "")
			o.AgentLeases = facts.Complete(false, "")
		}},
		{"reservations", "overlappingrangeipreservations cannot be read (no)", func(o *Observed) {
			o.Reservations = facts.Unknown[[]*ippool.Reservation](no)
		}},
		{"definitions", "network-attachment-definitions cannot be read (no)", func(o *Observed) {
			o.NADs = facts.Unknown[map[types.NamespacedName]*ippool.NAD](no)
		}},
		{"nodes", "nodes cannot be read", NodesUnknown},
		{"a definition", "default/broken", NAD("broken", "{")},
		{"a definition on the nodes", "are configured on the nodes, so their ranges are unknown: default/flat",
			NAD("flat", "")},
		{"a pod", "the addresses of these pods are unknown: default/dark", Pod("dark", NetworkStatus("{"),
			Requesting("wb"), OnNode("worker-7"))},
		{"a silent node", "no fresh SandboxReport, so their sandboxes may carry more: worker-8",
			All(Node("worker-8"), StaleReport("worker-8"))},
		{"an allocation", `allocation "x"`, Pool("red-10.0.0.0-24", "10.0.0.0/24", Alloc("x", "default/x", "b", "net1"))},
		{"a pool", "pool kube-system/10.8.0.0-24", RawPool("10.8.0.0-24", map[string]any{"range": "?"})},
		{"the pods of a namespace", "allocations or reservations and no pods, so what their pods carry cannot be seen: " +
			"export them, or use --pods-complete if they have none: lost",
			func(o *Observed) { o.LackingPods = []string{"lost"} }},
		{"all pods", "there are no pods", func(o *Observed) { clear(o.Pods) }},
		{"a manifest", "sysdump wrote pods.yaml, but", func(o *Observed) { o.Cut = "pods.yaml" }},
		{"guests", "the addresses of these pods are unknown: default/vm (VirtualMachineInstances: ", All(GuestsUnknown,
			Pod("vm", Launcher("vmi-1", ""), Carrying("10.7.0.9"), OnNode("worker-7")))},
		{"guests of a cluster without machines", "", GuestsUnknown},
		{"an object", "a pod could not be read", func(o *Observed) { o.Unreadable = []string{"a pod could not be read"} }},
	} {
		for label, found := range map[string]*ranges.Comparison{
			"a": compared(t, All(whole, c.part), other), "b": compared(t, other, All(whole, c.part)),
		} {
			text := strings.Join(found.Unknown, "\n")
			if found.IsUnknown() != (c.want != "") || !strings.Contains(text, c.want) ||
				c.want != "" && !strings.HasPrefix(text, label+": ") {
				t.Errorf("%s in %s: unknown is %q, want %q", c.says, label, text, c.want)
			}
		}
	}
}

func TestCompare_Statements(t *testing.T) {
	cluster := All(Pool("10.0.0.0-24", "10.0.0.0/24"), onMaster("wb", "eth1"), onMaster("wb2", "eth1"), reporting(),
		NAD("other", `{"ipam":{"type":"static"}}`), func(o *Observed) {
			here := types.NamespacedName{Namespace: "default", Name: "wb2"}
			there := *o.NADs.Or(nil)[here]
			there.Namespace = "elsewhere"
			o.NADs.Or(nil)[there.NamespacedName] = &there
		})
	j := Judged(Observe(cluster), facts.Policy{})
	for _, c := range []struct{ text, want string }{
		{"c/wb", `"c/wb": must begin with a/ or b/x/`},
		{"wb", `"wb": must begin with a/ or b/x/`},
		{"b/x/wb3", `no readable definition of b/x with whereabouts has the name wb3`},
		{"b/x/other", `no readable definition of b/x with whereabouts has the name other`},
		{"a/wb2", `several definitions have the name, give the namespace, too: default/wb2, elsewhere/wb2`},
		{"b/x/default/wb2", ""}, {"b/x/wb", ""},
	} {
		_, err := ranges.Compare(ranges.Cluster{Label: "a", Assessment: j}, ranges.Cluster{Label: "b/x", Assessment: j},
			[]ranges.Statement{{A: "a/wb", B: c.text}})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
}

// That two definitions are one segment says so of all definitions with their masters, too.
func TestCompare_StatementsOnSegments(t *testing.T) {
	pool := Pool("10.0.0.0-24", "10.0.0.0/24")
	a := All(pool, onMaster("wb", "eth1"), onMaster("wb2", "eth1"), onMaster("wb3", "eth3"), reporting())
	red := WhereaboutsConfig("10.0.0.0/24", "red")
	b := All(pool, onMaster("wb", "bond0"), onMaster("wb2", "eth3"), reporting(),
		NAD("red", strings.Replace(red, `"macvlan"`, `"macvlan","master":"bond0"`, 1)))
	found := compared(t, a, b, ranges.Statement{A: "a/wb", B: "b/wb"}, ranges.Statement{A: "b/wb", B: "b/wb2"})
	want := "=[10.0.0.1-10.0.0.254][default/wb default/wb2][default/wb]; " +
		"=[10.0.0.1-10.0.0.254][default/wb default/wb2][default/wb2]; " +
		"=[10.0.0.1-10.0.0.254][default/wb3][default/wb2]; " +
		"?[10.0.0.1-10.0.0.254][default/wb default/wb2][default/red]; " +
		"![10.0.0.1-10.0.0.254][default/wb3][default/red]; ![10.0.0.1-10.0.0.254][default/wb3][default/wb]"
	if got := sharedRanges(found); got != want {
		t.Errorf("got %s\nwant %s", strings.ReplaceAll(got, "; ", "\n"), want)
	}
}
