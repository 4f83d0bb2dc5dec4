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
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
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
}

func (c Random) Pool(name string) Part {
	var allocs []Allocation
	for range c.IntN(6) {
		key := fmt.Sprint(c.IntN(20))
		if c.OneIn(20) {
			key = c.Pick("x", "007", "-3", "99999999999")
		}
		podRef := "default/" + c.PodName()
		if c.OneIn(12) {
			podRef = c.Pick("", "default/web-0_uid-1", "nonsense")
		}
		allocs = append(allocs, Alloc(key, podRef, c.ID(), c.Pick("net1", "net1", "net2")))
	}
	cidr := poolRanges[name]
	if c.OneIn(25) {
		cidr = "nonsense"
	}
	return Pool(name, cidr, allocs...)
}

func (c Random) Pod(name string) Part {
	edits := []PodEdit{UID(c.UID()), OnNode(c.Node()),
		Phase(corev1.PodPhase(c.Pick("Running", "Running", "Running", "Pending", "Failed", "Succeeded")))}
	switch c.IntN(6) {
	case 0:
		edits = append(edits, NoNetworkStatus)
	case 1:
		edits = append(edits, NetworkStatus("nonsense"))
	case 2:
		edits = append(edits, NetworkStatus(fmt.Sprintf(`[{"name":"cbr0","interface":"eth0","ips":[%q],"default":true},{`+
			`"name":%q,"interface":"net1","ips":[%q,%q]}]`,
			c.IP(), c.Pick("default/wb", "default/blue"), c.IP(), c.IP())))
	default:
		edits = append(edits, CarryingOn(c.Pick("default/wb", "default/wb", "default/blue", "default/sliced", "default/other",
			"default/unknown"), c.Pick("net1", "net2"), c.IP()))
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
		edits = append(edits, func(p *corev1.Pod) {
			p.CreationTimestamp = metav1.NewTime(Now.Add(-time.Duration(c.IntN(200)) * time.Second))
		})
	}
	if c.OneIn(12) {
		edits = append(edits, func(p *corev1.Pod) { p.Spec.NodeName = "" })
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
		edits := []SandboxEdit{OfPod(c.PodName()), CreatedAgo(time.Duration(c.IntN(200)) * time.Second)}
		for range c.IntN(3) {
			edits = append(edits, func(b *v1alpha1.Sandbox) { b.Addresses = append(b.Addresses, c.Address()) })
		}
		if c.OneIn(4) {
			edits = append(edits, NotReady(c.ClosedOrNot()))
		}
		id := c.UID()
		if c.OneIn(10) {
			id = ""
		}
		what = append(what, Sandbox(c.ID(), id, edits...))
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
	parts = append(parts, NAD("wb", WhereaboutsConfig("10.0.0.0/24", "")), NAD("other", `{"ipam":{"type":"static"}}`))
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
	nodes, agents := !c.OneIn(4), !c.OneIn(5)
	for i := range 4 {
		name := fmt.Sprint("worker-", i)
		if nodes && !c.OneIn(4) {
			var edits []NodeEdit
			if c.OneIn(4) {
				edits = append(edits, NotReadyFor(time.Duration(c.IntN(1200))*time.Second))
			}
			if c.OneIn(6) {
				edits = append(edits, OutOfService)
			}
			parts = append(parts, Node(name, edits...))
		}
		if agents && !c.OneIn(4) {
			parts = append(parts, c.Report(name))
		}
	}
	return parts
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

func (c Random) Policy() judge.Policy {
	p := judge.Policy{AgentsRequired: c.OneIn(5)}
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
