package agent_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/ip-reconcile/ip-reconcile/agent"
	"github.com/ip-reconcile/ip-reconcile/agent/cri"
	"github.com/ip-reconcile/ip-reconcile/agent/cri/critest"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

// there and missing are paths in the node's folder of namespaces, with and without a file.
func there(name string) func(*testNode) string {
	return func(n *testNode) string { return n.namespace(name) }
}

func missing(name string) func(*testNode) string {
	return func(n *testNode) string { return filepath.Join(n.netns, name) }
}

func fixed(text string) func(*testNode) string { return func(*testNode) string { return text } }

// byAlias is a path in the node's folder by a symbolic link, whose name ends so.
func byAlias(name, end string) func(*testNode) string {
	return func(n *testNode) string {
		alias := filepath.Join(n.TempDir(), "netns")
		check(n, os.Symlink(n.netns, alias))
		n.NetNSDirs = append(n.NetNSDirs, alias+end)
		return filepath.Join(alias, name)
	}
}

// A missing path is proof only in the node's own folder: a running sandbox has its namespace there at the same
// inspection.
func TestInspect_MissingPathProvesOnlyInNodeFolder(t *testing.T) {
	none := fixed("")
	hasCache := func(n *testNode, gone, _ *critest.Sandbox) {
		n.addCache("wb", gone.ID, "net1", filepath.Join(n.netns, "a"), "10.0.0.5/24")
	}
	for name, c := range map[string]struct {
		want       string
		gone, runs func(*testNode) string // the paths of the sandbox and of another one, which runs
		also       func(n *testNode, gone, runs *critest.Sandbox)
	}{
		"its path is there":                        {"open", there("a"), there("b"), nil},
		"its path is there, and nothing runs":      {"open", there("a"), none, nil},
		"its path is missing beside one that runs": {"closed", missing("a"), there("b"), nil},
		"its path is missing in an empty folder":   {"not known", missing("a"), missing("b"), nil},
		"its path is missing in a folder that has only unknown files": {"not known", missing("a"), missing("b"),
			func(n *testNode, _, _ *critest.Sandbox) { n.namespace("c") }},
		"the one that is there is not ready": {"not known", missing("a"), there("b"),
			func(_ *testNode, _, runs *critest.Sandbox) { runs.NotReady = true }},
		"the one that runs has its in another folder": {"not known", missing("a"), none,
			func(n *testNode, _, runs *critest.Sandbox) {
				other := n.TempDir()
				n.NetNSDirs, runs.NetNS = append(n.NetNSDirs, other), n.file(filepath.Join(other, "b"), "")
			}},
		"the folder is missing": {"not known", missing("a"), there("b"),
			func(n *testNode, _, _ *critest.Sandbox) { n.remove(n.netns) }},
		"the folder is none of the node's": {"not known", none, none, func(n *testNode, gone, runs *critest.Sandbox) {
			other := n.TempDir()
			gone.NetNS, runs.NetNS = filepath.Join(other, "a"), n.file(filepath.Join(other, "b"), "")
		}},
		"the path has none of its own (the process')": {"not known", fixed("/proc/4711/ns/net"), there("b"), nil},
		"no path":                         {"not known", none, there("b"), nil},
		"the folder is named by an alias": {"closed", byAlias("a", "/"), there("b"), nil},
		"by an alias, and there": {"open", byAlias("a", ""), there("b"),
			func(n *testNode, _, _ *critest.Sandbox) { n.namespace("a") }},
		"the path is the CNI cache's, and missing":               {"closed", none, there("b"), hasCache},
		"the runtime's path has precedence over the CNI cache's": {"open", there("c"), there("b"), hasCache},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, critest.CRIO)
			gone, runs := web("1a"), web("2b")
			gone.NotReady, gone.NetNS, runs.NetNS = true, c.gone(n), c.runs(n)
			if c.also != nil {
				c.also(n, &gone, &runs)
			}
			n.setSandboxes(gone, runs)
			equal(t, "network", networkState(n.sandbox(gone.ID).NetworkClosed), c.want)
		})
	}
}

func TestInspect_PathsAreReadEachTime(t *testing.T) {
	n := newNode(t, critest.CRIO)
	gone, runs := web("1a"), web("2b")
	gone.NotReady, gone.NetNS, runs.NetNS = true, n.namespace("a"), n.namespace("b")
	n.setSandboxes(gone, runs)
	equal(t, "at first", networkState(n.sandbox(gone.ID).NetworkClosed), "open")
	n.remove(gone.NetNS)
	equal(t, "closed", networkState(n.sandbox(gone.ID).NetworkClosed), "closed")
	n.remove(runs.NetNS)
	equal(t, "with the folder's content", networkState(n.sandbox(gone.ID).NetworkClosed), "not known")
}

func TestInspect_RuntimesStateBeforePath(t *testing.T) {
	n := newNode(t, critest.Containerd)
	closed, open, runs := web("1a"), web("2b"), web("3c")
	runs.NetNS = n.namespace("r")
	closed.NotReady, closed.Closed, closed.NetNS = true, true, n.namespace("c")
	open.NotReady, open.NetNS = true, filepath.Join(n.netns, "missing")
	n.setSandboxes(closed, open, runs)
	equal(t, "closed by the runtime, the path exists", networkState(n.sandbox(closed.ID).NetworkClosed), "closed")
	equal(t, "open by the runtime, the path is missing", networkState(n.sandbox(open.ID).NetworkClosed), "open")
}

func TestInspect_CachedIDIsAttachment(t *testing.T) {
	for name, c := range map[string]struct {
		want string
		path func(n *testNode) string
	}{
		"its network is there":      {"open", there("a")},
		"its network is gone":       {"closed", missing("a")},
		"its network is elsewhere":  {"not known", fixed("/elsewhere/a")},
		"it names no network":       {"not known", fixed("")},
		"its network has no folder": {"not known", fixed("a")},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, critest.Containerd)
			runs := web("2b")
			runs.NetNS = n.namespace("b")
			n.setSandboxes(runs)
			n.addCache("wb", runs.ID, "net1", runs.NetNS, "10.0.0.6/24")
			file := n.addCache("wb", id("1a"), "net1", c.path(n), "10.0.0.5/24")
			since := noon.Add(-time.Hour + 900*time.Millisecond)
			check(t, os.Chtimes(file, noon, since))
			got := n.attachment()
			equal(t, "network", networkState(got.NetworkClosed), c.want)
			want := c.path(n)
			if !filepath.IsAbs(want) {
				want = ""
			}
			equal(t, "its path", got.NetNS, want)
			got.NetworkClosed, got.NetNS = nil, ""
			equal(t, "attachment", got, v1alpha1.Attachment{
				ID: id("1a"), Since: at(-time.Hour), Namespace: "default", Name: "web-0", UID: "uid-1",
				Addresses: []v1alpha1.Address{{IP: "10.0.0.5", IfName: "net1", Network: "wb", Range: "10.0.0.0/24"}},
			})
		})
	}
}

// A sandbox that is being set up has no whereabouts address in the caches yet, but may get one.
func TestInspect_AttachmentsOfAnyNetwork(t *testing.T) {
	n := newNode(t, critest.Containerd)
	n.addCache("kindnet", id("3c"), "eth0", "/x", "10.244.0.5/24")
	n.file(filepath.Join(n.results(), "wb-"+id("1a")+"-net1"), "{")
	n.file(filepath.Join(n.cni, "multus", id("2b")), "[]")
	var ids []string
	for _, a := range n.inspect().Attachments {
		ids = append(ids, a.ID)
	}
	equal(t, "attachments, by id", ids, []string{id("1a"), id("2b"), id("3c")})
	equal(t, "unread files", len(n.Unreadable()), 2)
}

// A sandbox is always in the list or an attachment, and neither after its end.
func TestInspect_AttachmentBecomesSandbox(t *testing.T) {
	n := newNode(t, critest.Containerd)
	sandbox := web("1a")
	file := n.addCache("wb", sandbox.ID, "net1", "/x", "10.0.0.5/24")
	equal(t, "while it is set up", n.attachment().ID, sandbox.ID)
	n.setSandboxes(sandbox)
	inspection := n.inspect()
	equal(t, "attachments when it runs", len(inspection.Attachments), 0)
	equal(t, "sandboxes when it runs", len(inspection.Sandboxes), 2)
	n.setSandboxes()
	equal(t, "after a lost DEL", n.attachment().ID, sandbox.ID)
	n.remove(file)
	inspection = n.inspect()
	equal(t, "attachments in the end", len(inspection.Attachments), 0)
	equal(t, "sandboxes in the end", len(inspection.Sandboxes), 1)
}

// hookedRuntime calls onList after each list.
type hookedRuntime struct {
	*critest.Server
	onList func()
}

func (d *hookedRuntime) ListPodSandbox(ctx context.Context,
	r *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	answer, err := d.Server.ListPodSandbox(ctx, r)
	d.onList()
	return answer, err
}

// A sandbox whose setup ends during an inspection is in the cache, because the runtime is read first.
func TestInspect_ReadsRuntimeBeforeCaches(t *testing.T) {
	n := newNode(t, critest.Containerd)
	n.setSandboxes(web("2b"))
	socket := filepath.Join(filepath.Dir(n.runtime.Socket), "during.sock")
	listener, err := net.Listen("unix", socket)
	check(t, err)
	server := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(server, &hookedRuntime{n.runtime,
		func() { n.addCache("wb", id("1a"), "net1", "/x", "10.0.0.5/24") }})
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	if n.Runtime, err = cri.Dial(socket); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Runtime.Close() })
	equal(t, "attachment", n.attachment().ID, id("1a"))
}

func TestReport_ContinuesEarlierReport(t *testing.T) {
	n := newNode(t, critest.Containerd)
	sandbox, other := web("1a"), web("2b")
	sandbox.NetNS, other.NetNS = n.namespace("a"), n.namespace("b")
	n.setSandboxes(sandbox, other)
	first, err := n.Report(t.Context(), nil)
	check(t, err)
	n.setSandboxes(other)
	n.remove(sandbox.NetNS)
	last, err := n.Report(t.Context(), first)
	if err != nil || len(last.Sandboxes) != 1 || goneIDs(last) != sandbox.ID {
		t.Errorf("sandboxes %v, gone %v, %v", last.Sandboxes, last.Gone, err)
	}
	n.OwnUID = "another"
	if r, err := n.Report(t.Context(), last); err == nil {
		t.Errorf("a report of an inspection that failed: %v", r)
	}
}

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

// A cache may name several namespaces, also one that a plugin's result makes up. The sandbox may run in any of them.
func TestInspect_VanishedKeepsEachNamespaceOfItsCache(t *testing.T) {
	n := newNode(t, critest.Containerd)
	runs := web("2b")
	runs.NetNS = n.namespace("b")
	n.addCache("wb", runs.ID, "net1", runs.NetNS, "10.0.0.6/24")
	n.setSandboxes(runs)
	first := n.addCache("kindnet", id("1a"), "eth0", filepath.Join(n.netns, "a"), "10.244.0.5/24") // does not exist
	second := n.addCache("wb", id("1a"), "net1", n.namespace("z"), "10.0.0.5/24")
	equal(t, "while it is cached", networkState(n.attachment().NetworkClosed), "open")
	n.remove(first)
	n.remove(second)
	inspection := n.inspect()
	equal(t, "proven to be gone", inspection.NamespaceGone[id("1a")], false)
	equal(t, "attachments", len(inspection.Attachments), 1)
}

// A sandbox was in the caches before the runtime listed it, and the runtime cannot give its status.
func TestInspect_ListedKeepsEachNamespaceOfItsCache(t *testing.T) {
	n := newNode(t, critest.Containerd)
	runs := web("2b")
	runs.NetNS = n.namespace("b")
	n.addCache("wb", runs.ID, "net1", runs.NetNS, "10.0.0.6/24")
	n.addCache("kindnet", id("1a"), "eth0", filepath.Join(n.netns, "a"), "10.244.0.5/24") // does not exist
	n.addCache("wb", id("1a"), "net1", n.namespace("z"), "10.0.0.5/24")
	n.setSandboxes(runs)
	equal(t, "while it is cached", networkState(n.attachment().NetworkClosed), "open")
	sandbox := web("1a")
	sandbox.NotReady, sandbox.HasBrokenStatus = true, true
	n.setSandboxes(runs, sandbox)
	equal(t, "when it is listed", networkState(n.sandbox(sandbox.ID).NetworkClosed), "open")
	n.NodeInspector = n.newInspector()
	equal(t, "to an agent that starts now", networkState(n.sandbox(sandbox.ID).NetworkClosed), "open")
}

// The runtime has lost a sandbox, which runs on, and whose cache file cannot be read any more. What is known of its
// addresses was known while the runtime listed it.
func TestInspect_CachedAttachmentKeepsWhatWasUnread(t *testing.T) {
	n := newNode(t, critest.Containerd)
	runs, lost := web("2b"), web("1a")
	runs.NetNS, lost.NetNS = n.namespace("b"), n.namespace("a")
	n.addCache("wb", runs.ID, "net1", runs.NetNS, "10.0.0.6/24")
	file := n.addCache("wb", lost.ID, "net1", lost.NetNS, "10.0.0.5/24")
	n.setSandboxes(runs, lost)
	equal(t, "unread at first", n.sandbox(lost.ID).AddressesUnread, false)
	n.file(file, "{")
	listed := n.sandbox(lost.ID)
	equal(t, "unread", listed.AddressesUnread, true)
	equal(t, "addresses that were known", len(listed.Addresses), 1)
	n.setSandboxes(runs)
	got := n.attachment()
	if !got.AddressesUnread || len(got.Addresses) != 1 {
		t.Errorf("the attachment has the addresses %v, unread: %v", got.Addresses, got.AddressesUnread)
	}
	equal(t, "network", networkState(got.NetworkClosed), "open")
	n.remove(lost.NetNS)
	equal(t, "network in the end", networkState(n.attachment().NetworkClosed), "closed")
}
