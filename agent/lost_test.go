package agent_test

import (
	"testing"

	"github.com/ip-reconcile/ip-reconcile/agent"
	"github.com/ip-reconcile/ip-reconcile/agent/cri/critest"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

// A runtime that lost its state lists nothing, and somebody may have emptied the CNI
// caches with it. What runs on, runs on.
func TestInspect_UnlistedIsGoneOnlyWithItsNetwork(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(n *aNode, sandbox *critest.Sandbox) // after it was READY and reported
		restart bool                                     // of the agent, at the same time
		want    string
	}{
		"removed, with its namespace":                        {func(n *aNode, sandbox *critest.Sandbox) { n.remove(sandbox.NetNS) }, false, "gone"},
		"removed with its namespace while no agent ran":      {func(n *aNode, sandbox *critest.Sandbox) { n.remove(sandbox.NetNS) }, true, "gone"},
		"its namespace is there":                             {func(*aNode, *critest.Sandbox) {}, false, "open"},
		"its namespace is there, and the agent starts again": {func(*aNode, *critest.Sandbox) {}, true, "open"},
		"where the namespaces are cannot be seen":            {func(n *aNode, sandbox *critest.Sandbox) { n.remove(n.netns) }, false, "nowhere"},
		"the folder of namespaces was exchanged":             {func(n *aNode, sandbox *critest.Sandbox) { n.remove(n.netns); n.mkdir(n.netns) }, false, "nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, critest.CRIO)
			sandbox, other := web("1a"), web("2b")
			sandbox.NetNS, other.NetNS = n.namespace("a"), n.namespace("b")
			n.runs(sandbox, other)
			report := agent.NextReport(nil, n.inspect())
			c.happens(n, &sandbox)
			n.runs(other)
			if c.restart {
				n.NodeInspector = n.newInspector()
				n.Resume(stored(t, report), true)
			}
			for range 3 { // it stays so
				report = agent.NextReport(report, n.inspect())
			}
			equal(t, "it is", fate(report, sandbox.ID), c.want)
		})
	}
}

func fate(r *v1alpha1.SandboxReport, id string) string {
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
	file := n.cached("wb", sandbox.ID, "net1", sandbox.NetNS, "10.0.0.5/24")
	n.runs(sandbox, other)
	report := agent.NextReport(nil, n.inspect())
	n.runs(other)
	report = agent.NextReport(report, n.inspect())
	equal(t, "by its cache", fate(report, sandbox.ID), "open")
	n.remove(file)
	report = agent.NextReport(report, n.inspect())
	equal(t, "by its namespace", fate(report, sandbox.ID), "open")
	equal(t, "its address", report.Attachments[0].Addresses[0].IP, "10.0.0.5")
	equal(t, "its pod", report.Attachments[0].UID, sandbox.UID)
	n.remove(sandbox.NetNS)
	report = agent.NextReport(report, n.inspect())
	equal(t, "in the end", fate(report, sandbox.ID), "gone")
}
