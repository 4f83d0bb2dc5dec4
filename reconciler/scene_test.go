package reconciler

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// chance makes scenes of few names, addresses and ids, so that everything meets
// everything.
type chance struct{ *rand.Rand }

func (c chance) pick(texts ...string) string { return texts[c.IntN(len(texts))] }

func (c chance) oneIn(n int) bool { return c.IntN(n) == 0 }

func (c chance) podName() string { return fmt.Sprint("web-", c.IntN(5)) }
func (c chance) uid() string     { return fmt.Sprint("uid-", c.IntN(4)) }
func (c chance) id() string      { return fmt.Sprint("box-", c.IntN(9)) }
func (c chance) node() string    { return fmt.Sprint("worker-", c.IntN(4)) }
func (c chance) network() string { return c.pick("", "", "blue", "blue-10") }

func (c chance) ip() string {
	switch c.IntN(8) {
	case 0:
		return fmt.Sprint("fd00:0:0:1::", 1+c.IntN(4))
	case 1:
		return fmt.Sprint("192.168.9.", c.IntN(4))
	}
	return fmt.Sprint("10.0.0.", c.IntN(24))
}

// shapes are the pools there may be, by name: plain, named, on one range, in one
// another, of a base inside the range, wide, and a node's slice.
var shapes = map[string]string{
	"10.0.0.0-24": "10.0.0.0/24", "blue-10.0.0.0-24": "10.0.0.0/24", "blue-10-10.0.0.0-28": "10.0.0.0/28",
	"10.0.0.9-24": "10.0.0.9/24", "fd00---32": "fd00::/32", "worker-1-10.0.0.16-29": "10.0.0.16/29", "odd": "10.0.0.0/25",
}

func (c chance) pool(name string) part {
	var allocs []alloc
	for range c.IntN(6) {
		key := fmt.Sprint(c.IntN(20))
		if c.oneIn(20) {
			key = c.pick("x", "007", "-3", "99999999999")
		}
		podRef := "default/" + c.podName()
		if c.oneIn(12) {
			podRef = c.pick("", "default/web-0_uid-1", "nonsense")
		}
		allocs = append(allocs, alloc{key, podRef, c.id(), c.pick("net1", "net1", "net2")})
	}
	cidr := shapes[name]
	if c.oneIn(25) {
		cidr = "nonsense"
	}
	return aPool(name, cidr, allocs...)
}

func (c chance) aPodNamed(name string) part {
	edits := []podEdit{uid(c.uid()), onNode(c.node()), phaseIs(corev1.PodPhase(c.pick("Running", "Running", "Running", "Pending", "Failed", "Succeeded")))}
	switch c.IntN(6) {
	case 0:
		edits = append(edits, noStatusAtAll)
	case 1:
		edits = append(edits, status("nonsense"))
	case 2:
		edits = append(edits, status(fmt.Sprintf(`[{"name":"cbr0","interface":"eth0","ips":[%q],"default":true},{"name":%q,"interface":"net1","ips":[%q,%q]}]`,
			c.ip(), c.pick("default/wb", "default/blue"), c.ip(), c.ip())))
	default:
		edits = append(edits, attached(c.pick("default/wb", "default/wb", "default/blue", "default/sliced", "default/other", "default/unknown"), c.pick("net1", "net2"), c.ip()))
	}
	if c.oneIn(4) {
		edits = append(edits, podIPs(c.ip()))
	}
	if c.oneIn(5) {
		edits = append(edits, deletedAgo(time.Duration(c.IntN(900)-200)*time.Second), grace(time.Duration(c.IntN(100))*time.Second))
	}
	if c.oneIn(4) {
		edits = append(edits, stoppedByKubelet(time.Duration(c.IntN(900))*time.Second))
	}
	if c.oneIn(4) {
		edits = append(edits, func(p *corev1.Pod) {
			p.CreationTimestamp = metav1.NewTime(now.Add(-time.Duration(c.IntN(200)) * time.Second))
		})
	}
	if c.oneIn(12) {
		edits = append(edits, func(p *corev1.Pod) { p.Spec.NodeName = "" })
	}
	return aPod(name, edits...)
}

func (c chance) reservation() part {
	name := c.pick("10.0.0.", "10.0.0.", "blue-10.0.0.", "blue-10-10.0.0.") + fmt.Sprint(c.IntN(24))
	if c.oneIn(6) {
		name = c.pick("nonsense", "fd00-0-0-1--3", "blue-fd00-0-0-1--1", "fd00-0-0-1--1")
	}
	return aReservation(name, "default/"+c.podName(), time.Duration(c.IntN(500))*time.Second)
}

func (c chance) closedOrNot() *bool { return []*bool{nil, open, closed}[c.IntN(3)] }

func (c chance) address() v1alpha1.Address {
	return v1alpha1.Address{IP: c.ip(), IfName: "net1", Network: "wb", NetworkName: c.network(), Range: c.pick("10.0.0.0/24", "10.0.0.0/24", "10.0.0.0/28", "nonsense")}
}

func (c chance) report(node string) part {
	var what []content
	for range c.IntN(5) {
		edits := []boxEdit{of(c.podName()), createdAgo(time.Duration(c.IntN(200)) * time.Second)}
		for range c.IntN(3) {
			edits = append(edits, func(b *v1alpha1.Sandbox) { b.Addresses = append(b.Addresses, c.address()) })
		}
		if c.oneIn(4) {
			edits = append(edits, notReady(c.closedOrNot()))
		}
		id := c.uid()
		if c.oneIn(10) {
			id = ""
		}
		what = append(what, box(c.id(), id, edits...))
	}
	for range c.IntN(2) {
		what = append(what, attachment(c.id(), c.uid(), time.Duration(c.IntN(1800))*time.Second, c.closedOrNot(), c.address()))
	}
	for range c.IntN(2) {
		what = append(what, gone(c.id(), c.uid()))
	}
	if c.oneIn(6) {
		what = append(what, bootID("boot-0"))
	}
	if c.oneIn(8) {
		what = append(what, unvouched)
	}
	return reportFrom(node, time.Duration(c.IntN(100))*time.Second, what...)
}

// scene is what a pass may see.
func (c chance) scene() []part {
	var parts []part
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		if c.oneIn(2) {
			parts = append(parts, c.pool(name))
		}
	}
	parts = append(parts, aNAD("wb", whereabouts("10.0.0.0/24", "")), aNAD("other", `{"ipam":{"type":"static"}}`))
	if c.oneIn(2) {
		parts = append(parts, aNAD("blue", whereabouts("10.0.0.0/24", "blue", `"enable_overlapping_ranges":false`)), aNAD("sliced", whereabouts("10.0.0.0/24", "", `"node_slice_size":"/29"`)))
	}
	for i := range 5 {
		if !c.oneIn(4) {
			parts = append(parts, c.aPodNamed(fmt.Sprint("web-", i)))
		}
	}
	for range c.IntN(8) {
		parts = append(parts, c.reservation())
	}
	nodes, agents := !c.oneIn(4), !c.oneIn(5)
	for i := range 4 {
		name := fmt.Sprint("worker-", i)
		if nodes && !c.oneIn(4) {
			var edits []nodeEdit
			if c.oneIn(4) {
				edits = append(edits, notReadyFor(time.Duration(c.IntN(1200))*time.Second))
			}
			if c.oneIn(6) {
				edits = append(edits, outOfService)
			}
			parts = append(parts, aNode(name, edits...))
		}
		if agents && !c.oneIn(4) {
			parts = append(parts, c.report(name))
		}
	}
	return parts
}

// sceneOf observes a scene; a name that comes twice counts once.
func sceneOf(parts []part) *observed {
	o := observe(parts...)
	seen := map[string]bool{}
	kept := o.Reservations[:0]
	for _, r := range o.Reservations {
		if !seen[r.Ref()] {
			seen[r.Ref()] = true
			kept = append(kept, r)
		}
	}
	o.Reservations = kept
	return o
}

func (c chance) policy() judge.Policy {
	p := judge.Policy{AgentsRequired: c.oneIn(5)}
	if c.oneIn(3) {
		p.UnreachableNodeTimeout = 10 * time.Minute
	}
	return p
}
