package agent_test

import (
	"testing"

	"github.com/ip-reconcile/ip-reconcile/podstate/agent"
	"github.com/ip-reconcile/ip-reconcile/podstate/cri/critest"
	"github.com/ip-reconcile/ip-reconcile/podstate/v1alpha1"
)

// A runtime that lost its state lists nothing, and somebody may have emptied the CNI
// caches with it. What runs on, runs on.
func TestASandboxThatIsListedNoMoreIsGoneOnlyWhereItsNetworkIs(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(n *aNode, box *critest.Sandbox) // after it was READY and reported
		restart bool                                 // of the agent, at the same time
		want    string
	}{
		"removed, with its namespace":                        {func(n *aNode, box *critest.Sandbox) { n.remove(box.NetNS) }, false, "gone"},
		"removed with its namespace while no agent ran":      {func(n *aNode, box *critest.Sandbox) { n.remove(box.NetNS) }, true, "gone"},
		"its namespace is there":                             {func(*aNode, *critest.Sandbox) {}, false, "open"},
		"its namespace is there, and the agent starts again": {func(*aNode, *critest.Sandbox) {}, true, "open"},
		"where the namespaces are cannot be seen":            {func(n *aNode, box *critest.Sandbox) { n.remove(n.netns) }, false, "nowhere"},
		"the folder of namespaces was exchanged":             {func(n *aNode, box *critest.Sandbox) { n.remove(n.netns); n.mkdir(n.netns) }, false, "nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, critest.CRIO)
			box, other := web("1a"), web("2b")
			box.NetNS, other.NetNS = n.namespace("a"), n.namespace("b")
			n.runs(box, other)
			report := agent.Next(nil, n.look())
			c.happens(n, &box)
			n.runs(other)
			if c.restart {
				n.Eyes = n.newEyes()
				n.Recall(stored(t, report))
			}
			for range 3 { // it stays so
				report = agent.Next(report, n.look())
			}
			equal(t, "it is", fate(report, box.ID), c.want)
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
			return told(a.NetworkClosed)
		}
	}
	return "nowhere"
}

func TestASandboxThatLivesOnIsKeptWithItsAddressesUntilItsNetworkCloses(t *testing.T) {
	n := newNode(t, critest.Containerd)
	box, other := web("1a"), web("2b")
	box.NetNS, other.NetNS = n.namespace("a"), n.namespace("b")
	file := n.cached("wb", box.ID, "net1", box.NetNS, "10.0.0.5/24")
	n.runs(box, other)
	report := agent.Next(nil, n.look())
	n.runs(other)
	report = agent.Next(report, n.look())
	equal(t, "by its cache", fate(report, box.ID), "open")
	n.remove(file)
	report = agent.Next(report, n.look())
	equal(t, "by its namespace", fate(report, box.ID), "open")
	equal(t, "its address", report.Attachments[0].Addresses[0].IP, "10.0.0.5")
	equal(t, "its pod", report.Attachments[0].UID, box.UID)
	n.remove(box.NetNS)
	report = agent.Next(report, n.look())
	equal(t, "in the end", fate(report, box.ID), "gone")
}

func TestAfterARebootWhatWasListedIsGoneWhateverIsThere(t *testing.T) {
	before := stored(t, agent.Next(nil, look(0, box("a"))))
	before.BootID = "boot-1"
	after := look(1)
	after.BootID = "boot-2"
	equal(t, "gone", goneIDs(agent.Next(before, after)), "a")
	after.BootID = "" // it is not known whether the node has booted
	equal(t, "gone", goneIDs(agent.Next(before, after)), "")
}
