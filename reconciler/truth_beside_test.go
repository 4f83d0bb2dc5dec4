package reconciler

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Something that may stand beside a scene and says nothing of use: a change, and
// what it is in words; nil where the scene does not allow for it.
func beside(c chance, o *observed) (part, string) {
	newcomer := c.pick("zz", "red", "blue-10", "n-1-x", "worker-1-10.0.0.16")
	node := newcomer
	if c.oneIn(2) {
		node = c.node()
	}
	switch c.IntN(6) {
	case 0:
		os, up := c.pick("linux", "windows"), c.oneIn(2)
		return amongNodes(newcomer, aNode(newcomer, label("kubernetes.io/os", os), func(n *nodeObject) {
			if !up {
				notReadyFor(time.Hour)(n)
			}
		})), fmt.Sprintf("a node %s of %s, Ready %v", newcomer, os, up)
	case 1: // that was never heard, or not for long
		if reportOf(o, node) != nil {
			return nil, ""
		}
		return staleReport(node), "an old and empty report of " + node
	case 2: // of a node that could run nothing
		return amongNodes(newcomer, all(aNode(newcomer, noAgentRuns), freshReport(newcomer, box("box-77", "uid-77", of("other"))))), "a node " + newcomer + " with a fresh report of its own pod"
	case 3:
		return stranger(c, node), "a pod of another name on " + node
	case 4:
		return leftover(c, o)
	}
	return leftoverReservation(c), "a reservation of another"
}

// amongNodes adds a node where others are known: where Nodes may not be listed,
// none is. A name that something speaks of is no newcomer's.
func amongNodes(newcomer string, node part) part {
	return func(o *observed) {
		if len(o.Nodes) > 0 && o.Nodes[newcomer] == nil && !mentioned(o, newcomer) {
			node(o)
		}
	}
}

func mentioned(o *observed, node string) bool {
	for _, p := range o.Pods {
		if p.Node == node {
			return true
		}
	}
	return reportOf(o, node) != nil
}

// nobodyToAsk: every node that should have an agent is proven dead.
func nobodyToAsk(o *observed) bool {
	for _, n := range o.Nodes {
		if (judge.Policy{}).Selector()(n) && !n.Dead() {
			return false
		}
	}
	return len(o.Nodes) > 0
}

func stranger(c chance, node string) part {
	edits := []podEdit{uid("uid-77"), onNode(node), phaseIs(corev1.PodPhase(c.pick("Pending", "Running", "Failed")))}
	if c.oneIn(2) {
		edits = append(edits, attached(c.pick("default/wb", "default/blue", "default/net-0"), "net1", "10.0.0.222"))
	}
	if c.oneIn(4) {
		edits = append(edits, deletedAgo(time.Minute))
	}
	return aPod("stranger", edits...)
}

// leftover of somebody else in a report that is there: closed, or stopped, or gone,
// maybe with an address that is recorded.
func leftover(c chance, o *observed) (part, string) {
	if len(o.Reports) == 0 {
		return nil, ""
	}
	node, ip, network := o.Reports[c.IntN(len(o.Reports))].Name, c.ip(), c.network()
	for _, p := range o.Pools {
		if len(p.Allocations) > 0 && c.oneIn(2) {
			ip = p.Allocations[c.IntN(len(p.Allocations))].Address.String()
		}
	}
	for _, r := range o.Reservations {
		if c.oneIn(4) {
			ip = r.Name
		}
	}
	what, says := c.IntN(4), ""
	var add content
	switch a := address(ip, network); what {
	case 0:
		add, says = attachment("box-77", "uid-77", time.Hour, closed, a), "a closed attachment"
	case 1:
		add, says = attachment("box-77", "uid-77", time.Hour, nil, a), "an old attachment"
	case 2:
		add, says = box("box-77", "uid-77", of("stranger"), notReady(closed), func(b *reportedBox) { b.Addresses = []v1alpha1.Address{a} }), "a stopped sandbox"
	default:
		add, says = gone("box-77", "uid-77"), "something gone"
	}
	return func(o *observed) {
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

func leftoverReservation(c chance) part {
	name := fmt.Sprint("10.0.0.", c.IntN(24))
	return func(o *observed) {
		for _, r := range o.Reservations {
			if r.Name == name {
				return
			}
		}
		aReservation(name, "default/stranger", time.Hour)(o)
	}
}

// Nothing is free because of something that says nothing of it.
func TestWhatSaysNothingOfUseFreesNothing(t *testing.T) {
	tried := map[int]int{}
	manyTimes(t, 12, func(rt *rapid.T) {
		scene, story := drawCluster(rt)
		seed := rapid.Uint64Range(0, 1<<20).Draw(rt, "beside")
		beside, says := beside(chance{rand.New(rand.NewPCG(seed, 2))}, sceneOf(scene))
		if beside == nil {
			return
		}
		tried[len(says)]++
		never(rt, scene, story, "there is "+says+" besides", beside, func(o *observed, _, _ *judge.Item) bool {
			return nobodyToAsk(o) // it was held for want of anybody, and not for what anybody said
		})
	})
	if len(tried) < 5 {
		t.Errorf("only %d kinds of things were added", len(tried))
	}
}
