package judgetest

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

// Random builds clusters of few names, addresses and ids, so that they often coincide.
type Random struct{ *rand.Rand }

// NewRandom is reproducible: the same seeds build the same.
func NewRandom(seed1, seed2 uint64) Random { return Random{rand.New(rand.NewPCG(seed1, seed2))} }

// Pick is one of the texts.
func (c Random) Pick(texts ...string) string { return texts[c.IntN(len(texts))] }

// OneIn reports true once in n times.
func (c Random) OneIn(n int) bool { return c.IntN(n) == 0 }

func (c Random) PodName() string { return fmt.Sprint("web-", c.IntN(5)) }
func (c Random) UID() string     { return fmt.Sprint("uid-", c.IntN(4)) }
func (c Random) ID() string      { return fmt.Sprint("box-", c.IntN(9)) }
func (c Random) Node() string    { return fmt.Sprint("worker-", c.IntN(4)) }
func (c Random) Network() string { return c.Pick("", "", "blue", "blue-10") }

func (c Random) IP() string {
	switch c.IntN(8) {
	case 0:
		return fmt.Sprint("fd00:0:0:1::", 1+c.IntN(4))
	case 1:
		return fmt.Sprint("192.168.9.", c.IntN(4))
	}
	return fmt.Sprint("10.0.0.", c.IntN(24))
}

// poolRanges are the pools there may be, by name: plain, named, on one range, in one
// another, of a base inside the range, wide, and a node's slice.
var poolRanges = map[string]string{
	"10.0.0.0-24": "10.0.0.0/24", "blue-10.0.0.0-24": "10.0.0.0/24", "blue-10-10.0.0.0-28": "10.0.0.0/28",
	"10.0.0.9-24": "10.0.0.9/24", "fd00---32": "fd00::/32", "worker-1-10.0.0.16-29": "10.0.0.16/29", "odd": "10.0.0.0/25",
	"worker-2-10.0.0.0-29": "10.0.0.0/29",
}

// own is most often the number itself, and otherwise any below n. So the pod web-1 most often has the UID uid-1, the
// sandbox box-1 and the address 10.0.0.2, and is on worker-1.
func (c Random) own(number, n int) int {
	if c.OneIn(4) {
		return c.IntN(n)
	}
	return number % n
}

func (c Random) ownIP(number int) string {
	if c.OneIn(4) {
		return c.IP()
	}
	return fmt.Sprint("10.0.0.", number+1)
}

func (c Random) Pool(name string) Part {
	entries := map[string]any{}
	for range c.IntN(6) {
		number := c.IntN(5)
		key := fmt.Sprint(c.own(number+1, 20))
		if c.OneIn(20) {
			key = c.Pick("x", "007", "-3", "99999999999")
		}
		podRef := fmt.Sprint("default/web-", number)
		if c.OneIn(12) {
			podRef = c.Pick("", "default/web-0_uid-1", "nonsense")
		}
		entry := map[string]any{"id": fmt.Sprint("box-", c.own(number, 9)), "podref": podRef,
			"ifname": c.Pick("net1", "net1", "net2")}
		if c.OneIn(10) {
			entry["ipamclaimref"] = fmt.Sprint("default/vm-", c.IntN(3))
		}
		entries[key] = entry
	}
	cidr := poolRanges[name]
	if c.OneIn(25) {
		cidr = "nonsense"
	}
	return RawPool(name, map[string]any{"range": cidr, "allocations": entries})
}

func (c Random) Pod(name string) Part {
	number := int(name[len(name)-1] - '0')
	edits := []PodEdit{UID(fmt.Sprint("uid-", c.own(number, 4))), OnNode(fmt.Sprint("worker-", c.own(number, 4))),
		Phase(corev1.PodPhase(c.Pick("Running", "Running", "Running", "Pending", "Failed", "Succeeded")))}
	switch c.IntN(6) {
	case 0:
		edits = append(edits, NoNetworkStatus)
	case 1:
		edits = append(edits, NetworkStatus("nonsense"))
	case 2:
		edits = append(edits, NetworkStatus(fmt.Sprintf(`[{"name":"cbr0","interface":"eth0","ips":[%q],"default":true},{`+
			`"name":%q,"interface":"net1","ips":[%q,%q]}]`,
			c.IP(), c.Pick("default/wb", "default/blue"), c.ownIP(number), c.IP())))
	default:
		edits = append(edits, CarryingOn(c.Pick("default/wb", "default/wb", "default/blue", "default/sliced", "default/other",
			"default/unknown"), c.Pick("net1", "net2"), c.ownIP(number)))
	}
	if c.OneIn(3) {
		edits = append(edits, Requesting(c.Pick("wb", "wb", "blue", "sliced", "unknown")))
	}
	if c.OneIn(4) {
		edits = append(edits, PodIPs(c.IP()))
	}
	if c.OneIn(5) {
		edits = append(edits, DeletedAgo(time.Duration(c.IntN(900)-200)*time.Second),
			GracePeriod(time.Duration(c.IntN(100))*time.Second))
	}
	if c.OneIn(4) {
		edits = append(edits, StoppedByKubelet(time.Duration(c.IntN(900))*time.Second))
	}
	if c.OneIn(4) {
		created := metav1.NewTime(Now.Add(-time.Duration(c.IntN(200)) * time.Second))
		edits = append(edits, func(p *corev1.Pod) { p.CreationTimestamp = created })
	}
	if c.OneIn(12) {
		edits = append(edits, func(p *corev1.Pod) { p.Spec.NodeName = "" })
	}
	if c.OneIn(6) {
		edits = append(edits, Launcher(fmt.Sprint("vmi-", c.IntN(3)), c.Pick("", "", "migration-1")))
	}
	return Pod(name, edits...)
}

func (c Random) Reservation() Part {
	name := c.Pick("10.0.0.", "10.0.0.", "blue-10.0.0.", "blue-10-10.0.0.") + fmt.Sprint(c.IntN(24))
	if c.OneIn(6) {
		name = c.Pick("nonsense", "fd00-0-0-1--3", "blue-fd00-0-0-1--1", "fd00-0-0-1--1")
	}
	return Reservation(name, "default/"+c.PodName(), time.Duration(c.IntN(500))*time.Second)
}

func (c Random) ClosedOrNot() *bool { return []*bool{nil, Open, Closed}[c.IntN(3)] }

func (c Random) Address() v1alpha1.Address {
	return v1alpha1.Address{IP: c.IP(), IfName: "net1", Network: "wb", NetworkName: c.Network(),
		Range: c.Pick("10.0.0.0/24", "10.0.0.0/24", "10.0.0.0/28", "nonsense")}
}

func (c Random) Report(node string) Part {
	var what []ReportEdit
	for range c.IntN(5) {
		number := c.own(int(node[len(node)-1]-'0'), 5)
		edits := []SandboxEdit{OfPod(fmt.Sprint("web-", number)),
			CreatedAgo(time.Duration(c.IntN(200)) * time.Second)}
		for range c.IntN(3) {
			address := c.Address()
			address.IP = c.ownIP(number)
			edits = append(edits, func(b *v1alpha1.Sandbox) { b.Addresses = append(b.Addresses, address) })
		}
		if c.OneIn(4) {
			edits = append(edits, NotReady(c.ClosedOrNot()))
		}
		if c.OneIn(10) {
			edits = append(edits, func(b *v1alpha1.Sandbox) { b.AddressesUnread = true })
		}
		id := fmt.Sprint("uid-", c.own(number, 4))
		if c.OneIn(10) {
			id = ""
		}
		what = append(what, Sandbox(fmt.Sprint("box-", c.own(number, 9)), id, edits...))
	}
	for range c.IntN(2) {
		what = append(what, Attachment(c.ID(), c.UID(), time.Duration(c.IntN(1800))*time.Second, c.ClosedOrNot(),
			c.Address()))
	}
	for range c.IntN(2) {
		what = append(what, Gone(c.ID(), c.UID()))
	}
	if c.OneIn(6) {
		what = append(what, FromBoot("boot-0"))
	}
	if c.OneIn(8) {
		what = append(what, FromMachine(v1alpha1.Machine{SystemUUID: c.Pick("", MachineOf(node).SystemUUID)}))
	}
	if c.OneIn(8) {
		what = append(what, WithoutMatchingLease)
	}
	return ReportRenewed(node, time.Duration(c.IntN(100))*time.Second, what...)
}

// Cluster is the parts of an observation.
func (c Random) Cluster() []Part {
	var parts []Part
	for _, name := range slices.Sorted(maps.Keys(poolRanges)) {
		if c.OneIn(2) {
			parts = append(parts, c.Pool(name))
		}
	}
	cidr := "10.0.0.0/24"
	if c.OneIn(6) { // its range was edited
		cidr = c.Pick("10.0.0.0/23", "10.0.0.0/25")
	}
	parts = append(parts, NAD("wb", WhereaboutsConfig(cidr, "")), NAD("other", `{"ipam":{"type":"static"}}`))
	if c.OneIn(2) {
		parts = append(parts, NAD("blue", WhereaboutsConfig("10.0.0.0/24", "blue", `"enable_overlapping_ranges":false`)),
			NAD("sliced", WhereaboutsConfig("10.0.0.0/24", "", `"node_slice_size":"/29"`)))
	}
	for i := range 5 {
		if !c.OneIn(4) {
			parts = append(parts, c.Pod(fmt.Sprint("web-", i)))
		}
	}
	for range c.IntN(8) {
		parts = append(parts, c.Reservation())
	}
	for i := range 3 {
		if c.OneIn(2) {
			parts = append(parts, IPAMClaim(fmt.Sprint("vm-", i), c.IP()))
		}
		if c.OneIn(3) {
			parts = append(parts, GuestNamed(fmt.Sprint("vm-", i), fmt.Sprint("vmi-", i), c.OneIn(4),
				c.Pick("default/wb", "default/wb", "default/blue", "default/unknown"), c.ownIP(i)))
		}
	}
	return append(append(parts, GuestsOfPods), c.Nodes()...)
}

// Nodes are Nodes and their reports: agents run everywhere, on some nodes, or nowhere.
func (c Random) Nodes() (parts []Part) {
	nodes, agents, everywhere := !c.OneIn(4), !c.OneIn(4), c.OneIn(3)
	for i := range 4 {
		name := fmt.Sprint("worker-", i)
		if nodes && (everywhere || !c.OneIn(4)) {
			parts = append(parts, c.NodeNamed(name))
		}
		if agents && (everywhere || !c.OneIn(4)) {
			parts = append(parts, c.Report(name))
		}
	}
	return append(parts, LeasesOfReports)
}

// NodeNamed is a Node that may not be Ready, be dead, or lack a label, a machine ID or a condition.
func (c Random) NodeNamed(name string) Part {
	var edits []NodeEdit
	if c.OneIn(4) {
		edits = append(edits, NotReadyFor(time.Duration(c.IntN(1200))*time.Second))
	}
	if c.OneIn(6) {
		edits = append(edits, OutOfService)
	}
	if c.OneIn(8) {
		edits = append(edits, WithoutLabel(corev1.LabelOSStable))
	}
	if c.OneIn(12) {
		edits = append(edits, WithoutAgent)
	}
	if c.OneIn(10) {
		edits = append(edits, OnMachine(v1alpha1.Machine{MachineID: c.Pick("", MachineOf(name).MachineID)}))
	}
	if c.OneIn(12) {
		edits = append(edits, func(n *corev1.Node) { n.Status.Conditions = nil })
	}
	return Node(name, edits...)
}

// ObserveDistinct observes the parts; of reservations of one name the first counts.
func ObserveDistinct(parts []Part) *Observed {
	o := Observe(parts...)
	seen := map[string]bool{}
	kept := o.Reservations.Or(nil)[:0]
	for _, r := range o.Reservations.Or(nil) {
		if !seen[r.Ref()] {
			seen[r.Ref()] = true
			kept = append(kept, r)
		}
	}
	o.Reservations = o.Reservations.With(kept)
	return o
}

func (c Random) Policy() facts.Policy {
	p := facts.Policy{AgentsRequired: c.OneIn(5)}
	if c.OneIn(3) {
		p.UnreachableNodeTimeout = 10 * time.Minute
	}
	return p
}

// Seeds is how many seeds a property is tried with, in rapid's depth: n for 100 -rapid.checks,
// which is the default, and with -short a fifth.
func Seeds(n uint64) uint64 {
	if checks := flag.Lookup("rapid.checks"); checks != nil {
		n = n * uint64(checks.Value.(flag.Getter).Get().(int)) / 100
	}
	if testing.Short() {
		return n / 5
	}
	return n
}
