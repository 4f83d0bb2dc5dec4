package agent_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/agent/cri/critest"
)

// A missing path is proof only in the node's own folder: a running sandbox has its namespace there at the same
// inspection.
func TestInspect_MissingPathProvesOnlyInNodeFolder(t *testing.T) {
	for name, c := range map[string]struct {
		want string
		with func(n *testNode, gone *critest.Sandbox, runs *critest.Sandbox)
	}{
		"its path is there": {"open", func(n *testNode, gone, runs *critest.Sandbox) {
			gone.NetNS, runs.NetNS = n.namespace("a"), n.namespace("b")
		}},
		"its path is there, and nothing runs": {"open", func(n *testNode, gone, runs *critest.Sandbox) {
			gone.NetNS = n.namespace("a")
		}},
		"its path is missing beside one that runs": {"closed", func(n *testNode, gone, runs *critest.Sandbox) {
			gone.NetNS, runs.NetNS = filepath.Join(n.netns, "a"), n.namespace("b")
		}},
		"its path is missing in an empty folder": {"not known", func(n *testNode, gone, runs *critest.Sandbox) {
			gone.NetNS, runs.NetNS = filepath.Join(n.netns, "a"), filepath.Join(n.netns, "b")
		}},
		"its path is missing in a folder that has only unknown files": {"not known", func(n *testNode, gone,
			runs *critest.Sandbox) {
			n.namespace("c")
			gone.NetNS, runs.NetNS = filepath.Join(n.netns, "a"), filepath.Join(n.netns, "b")
		}},
		"the one that is there is not ready": {"not known", func(n *testNode, gone, runs *critest.Sandbox) {
			gone.NetNS, runs.NetNS = filepath.Join(n.netns, "a"), n.namespace("b")
			runs.NotReady = true
		}},
		"the one that runs has its in another folder": {"not known", func(n *testNode, gone, runs *critest.Sandbox) {
			other := n.TempDir()
			n.NetNSDirs = append(n.NetNSDirs, other)
			gone.NetNS, runs.NetNS = filepath.Join(n.netns, "a"), n.file(filepath.Join(other, "b"), "")
		}},
		"the folder is missing": {"not known", func(n *testNode, gone, runs *critest.Sandbox) {
			gone.NetNS, runs.NetNS = filepath.Join(n.netns, "a"), n.namespace("b")
			n.remove(n.netns)
		}},
		"the folder is none of the node's": {"not known", func(n *testNode, gone, runs *critest.Sandbox) {
			other := n.TempDir()
			gone.NetNS, runs.NetNS = filepath.Join(other, "a"), n.file(filepath.Join(other, "b"), "")
		}},
		"the path has none of its own (the process')": {"not known", func(n *testNode, gone, runs *critest.Sandbox) {
			gone.NetNS, runs.NetNS = "/proc/4711/ns/net", n.namespace("b")
		}},
		"no path": {"not known", func(n *testNode, gone, runs *critest.Sandbox) { runs.NetNS = n.namespace("b") }},
		"the folder is named by an alias": {"closed", func(n *testNode, gone, runs *critest.Sandbox) {
			alias := filepath.Join(n.TempDir(), "netns")
			if err := os.Symlink(n.netns, alias); err != nil {
				n.Fatal(err)
			}
			n.NetNSDirs = append(n.NetNSDirs, alias+"/")
			gone.NetNS, runs.NetNS = filepath.Join(alias, "a"), n.namespace("b")
		}},
		"by an alias, and there": {"open", func(n *testNode, gone, runs *critest.Sandbox) {
			alias := filepath.Join(n.TempDir(), "netns")
			if err := os.Symlink(n.netns, alias); err != nil {
				n.Fatal(err)
			}
			n.NetNSDirs = append(n.NetNSDirs, alias)
			n.namespace("a")
			gone.NetNS, runs.NetNS = filepath.Join(alias, "a"), n.namespace("b")
		}},
		"the path is the CNI cache's, and missing": {"closed", func(n *testNode, gone, runs *critest.Sandbox) {
			n.addCache("wb", gone.ID, "net1", filepath.Join(n.netns, "a"), "10.0.0.5/24")
			runs.NetNS = n.namespace("b")
		}},
		"the runtime's path has precedence over the CNI cache's": {"open", func(n *testNode, gone, runs *critest.Sandbox) {
			n.addCache("wb", gone.ID, "net1", filepath.Join(n.netns, "a"), "10.0.0.5/24")
			gone.NetNS, runs.NetNS = n.namespace("c"), n.namespace("b")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, critest.CRIO)
			gone, runs := web("1a"), web("2b")
			gone.NotReady = true
			c.with(n, &gone, &runs)
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
