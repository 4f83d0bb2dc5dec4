package reconciler

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// irrelevantPart may be added to a cluster and is evidence of nothing: a change, and
// what it is in words; nil where the cluster does not allow for it.
func irrelevantPart(c Random, o *Observed) (Part, string) {
	newcomer := c.Pick("zz", "red", "blue-10", "n-1-x", "worker-1-10.0.0.16")
	node := newcomer
	if c.OneIn(2) {
		node = c.Node()
	}
	switch c.IntN(6) {
	case 0:
		os, up := c.Pick("linux", "windows"), c.OneIn(2)
		return amongNodes(newcomer, Node(newcomer, Label("kubernetes.io/os", os), func(n *corev1.Node) {
			if !up {
				NotReadyFor(time.Hour)(n)
			}
		})), fmt.Sprintf("a node %s of %s, Ready %v", newcomer, os, up)
	case 1: // that was never heard, or not for long
		if ReportOf(o, node) != nil {
			return nil, ""
		}
		return StaleReport(node), "an old and empty report of " + node
	case 2: // of a node that could run nothing
		report := FreshReport(newcomer, JustMade, Sandbox("box-77", "uid-77", OfPod("other")))
		return amongNodes(newcomer, All(Node(newcomer, WithoutAgent), report)), "a node " + newcomer + " with a fresh report of its own pod"
	case 3:
		return stranger(c, node), "a pod of another name on " + node
	case 4:
		return leftover(c, o)
	}
	return leftoverReservation(c), "a reservation of another"
}

// amongNodes adds a node where others are known: where Nodes may not be listed,
// none is. A name that is mentioned anywhere is not a new one.
func amongNodes(newcomer string, node Part) Part {
	return func(o *Observed) {
		if len(o.Nodes) > 0 && o.Nodes[newcomer] == nil && !mentioned(o, newcomer) {
			node(o)
		}
	}
}

func mentioned(o *Observed, node string) bool {
	for _, p := range o.Pods {
		if p.Node == node {
			return true
		}
	}
	return ReportOf(o, node) != nil
}

// nobodyToAsk: every node that should have an agent is proven dead.
func nobodyToAsk(o *Observed) bool {
	for _, n := range o.Nodes {
		if (judge.Policy{}).Selector()(n) && !n.Dead() {
			return false
		}
	}
	return len(o.Nodes) > 0
}

func stranger(c Random, node string) Part {
	edits := []PodEdit{UID("uid-77"), OnNode(node), Phase(corev1.PodPhase(c.Pick("Pending", "Running", "Failed")))}
	if c.OneIn(2) {
		edits = append(edits, CarryingOn(c.Pick("default/wb", "default/blue", "default/net-0"), "net1", "10.0.0.222"))
	}
	if c.OneIn(4) {
		edits = append(edits, DeletedAgo(time.Minute))
	}
	return Pod("stranger", edits...)
}

// leftover of somebody else in a report that is there: closed, or stopped, or gone,
// maybe with an address that is recorded.
func leftover(c Random, o *Observed) (Part, string) {
	if len(o.Reports) == 0 {
		return nil, ""
	}
	node, ip, network := o.Reports[c.IntN(len(o.Reports))].Name, c.IP(), c.Network()
	for _, p := range o.Pools {
		if len(p.Allocations) > 0 && c.OneIn(2) {
			ip = p.Allocations[c.IntN(len(p.Allocations))].Address.String()
		}
	}
	for _, r := range o.Reservations {
		if c.OneIn(4) {
			ip = r.Name
		}
	}
	what, says := c.IntN(4), ""
	var add ReportEdit
	switch a := Address(ip, network); what {
	case 0:
		add, says = Attachment("box-77", "uid-77", time.Hour, Closed, a), "a closed attachment"
	case 1:
		add, says = Attachment("box-77", "uid-77", time.Hour, nil, a), "an old attachment"
	case 2:
		add, says = Sandbox("box-77", "uid-77", OfPod("stranger"), NotReady(Closed), func(b *v1alpha1.Sandbox) { b.Addresses = []v1alpha1.Address{a} }), "a stopped sandbox"
	default:
		add, says = Gone("box-77", "uid-77"), "something gone"
	}
	return func(o *Observed) {
		for i, r := range o.Reports {
			if r.Name == node {
				more := *r
				more.SandboxReport = r.DeepCopy()
				add(&more)
				o.Reports[i] = &more
			}
		}
	}, fmt.Sprintf("%s with %s on %s", says, ip, node)
}

func leftoverReservation(c Random) Part {
	name := fmt.Sprint("10.0.0.", c.IntN(24))
	return func(o *Observed) {
		for _, r := range o.Reservations {
			if r.Name == name {
				return
			}
		}
		Reservation(name, "default/stranger", time.Hour)(o)
	}
}

// What is evidence of nothing frees nothing.
func TestWhatSaysNothingOfUseFreesNothing(t *testing.T) {
	tried := map[int]int{}
	manyTimes(t, 12, func(rt *rapid.T) {
		cluster, story := drawCluster(rt)
		seed := rapid.Uint64Range(0, 1<<20).Draw(rt, "beside")
		beside, says := irrelevantPart(NewRandom(seed, 2), ObserveDistinct(cluster))
		if beside == nil {
			return
		}
		tried[len(says)]++
		neverFrees(rt, cluster, story, "there is "+says+" besides", beside, func(o *Observed, _, _ *judge.Item) bool {
			return nobodyToAsk(o) // it was held for want of anybody, and not for what anybody said
		})
	})
	if len(tried) < 5 {
		t.Errorf("only %d kinds of things were added", len(tried))
	}
}
