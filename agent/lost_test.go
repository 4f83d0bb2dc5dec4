package agent_test

import (
	"testing"

	"github.com/ip-reconcile/ip-reconcile/agent"
	"github.com/ip-reconcile/ip-reconcile/agent/cri/critest"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

// A runtime that lost its state lists nothing, and somebody may have emptied the CNI caches. The sandboxes still
// run.
func TestInspect_UnlistedIsGoneOnlyWithItsNetwork(t *testing.T) {
	removeNamespace := func(n *testNode, sandbox *critest.Sandbox) { n.remove(sandbox.NetNS) }
	for name, c := range map[string]struct {
		happens func(n *testNode, sandbox *critest.Sandbox) // after it was READY and reported
		restart bool                                        // of the agent, at the same time
		want    string
	}{
		"removed, with its namespace":                        {removeNamespace, false, "gone"},
		"removed with its namespace while no agent ran":      {removeNamespace, true, "gone"},
		"its namespace is there":                             {func(*testNode, *critest.Sandbox) {}, false, "open"},
		"its namespace is there, and the agent starts again": {func(*testNode, *critest.Sandbox) {}, true, "open"},
		"the folder of namespaces is missing": {func(n *testNode, _ *critest.Sandbox) {
			n.remove(n.netns)
		}, false, "nowhere"},
		"the folder of namespaces was replaced": {func(n *testNode, sandbox *critest.Sandbox) {
			n.remove(n.netns)
			n.mkdir(n.netns)
		}, false, "nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, critest.CRIO)
			sandbox, other := web("1a"), web("2b")
			sandbox.NetNS, other.NetNS = n.namespace("a"), n.namespace("b")
			n.setSandboxes(sandbox, other)
			report := agent.NextReport(nil, n.inspect())
			c.happens(n, &sandbox)
			n.setSandboxes(other)
			if c.restart {
				n.NodeInspector = n.newInspector()
				n.Resume(roundTrip(t, report), true)
			}
			for range 3 { // the state is stable
				report = agent.NextReport(report, n.inspect())
			}
			equal(t, "it is", stateInReport(report, sandbox.ID), c.want)
		})
	}
}

func stateInReport(r *v1alpha1.SandboxReport, id string) string {
	for _, g := range r.Gone {
		if g.ID == id {
			return "gone"
		}
	}
	for _, a := range r.Attachments {
		if a.ID == id {
			return networkState(a.NetworkClosed)
		}
	}
	return "nowhere"
}

func TestInspect_UnlistedKeepsAddresses(t *testing.T) {
	n := newNode(t, critest.Containerd)
	sandbox, other := web("1a"), web("2b")
	sandbox.NetNS, other.NetNS = n.namespace("a"), n.namespace("b")
	file := n.addCache("wb", sandbox.ID, "net1", sandbox.NetNS, "10.0.0.5/24")
	n.setSandboxes(sandbox, other)
	report := agent.NextReport(nil, n.inspect())
	n.setSandboxes(other)
	report = agent.NextReport(report, n.inspect())
	equal(t, "by its cache", stateInReport(report, sandbox.ID), "open")
	n.remove(file)
	report = agent.NextReport(report, n.inspect())
	equal(t, "by its namespace", stateInReport(report, sandbox.ID), "open")
	equal(t, "its address", report.Attachments[0].Addresses[0].IP, "10.0.0.5")
	equal(t, "its pod", report.Attachments[0].UID, sandbox.UID)
	n.remove(sandbox.NetNS)
	report = agent.NextReport(report, n.inspect())
	equal(t, "in the end", stateInReport(report, sandbox.ID), "gone")
}
