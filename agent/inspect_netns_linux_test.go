package agent_test

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/agent/cnicache"
	"github.com/ip-reconcile/ip-reconcile/agent/cri/critest"
	"github.com/ip-reconcile/ip-reconcile/agent/hostdir"
)

// An unmounted namespace leaves a plain file. It is closed if running sandboxes have mounts, and mounts of the node
// reach the agent. Otherwise a plain file may be a namespace.
func TestInspect_UnmountedNamespaceIsClosed(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may mount")
	}
	for says, c := range map[string]struct {
		mount, private, plain bool
		want                  string
	}{
		"beside a mount":                              {mount: true, want: "closed"},
		"beside plain files":                          {want: "open"},
		"beside a mount and a plain file":             {mount: true, plain: true, want: "open"},
		"beside a mount that the agent made or found": {mount: true, private: true, want: "open"},
	} {
		t.Run(says, func(t *testing.T) {
			n := newNode(t, critest.CRIO)
			mount := func(from, to string, flags uintptr) {
				t.Helper()
				check(t, syscall.Mount(from, to, "", flags, ""))
			}
			mount(n.netns, n.netns, syscall.MS_BIND)
			t.Cleanup(func() { _ = syscall.Unmount(n.netns, syscall.MNT_DETACH) })
			propagation := uintptr(syscall.MS_SHARED)
			if c.private {
				propagation = syscall.MS_PRIVATE
			}
			mount("", n.netns, propagation)
			gone, runs, other := web("1a"), web("2b"), web("3c")
			gone.NotReady = true
			gone.NetNS, runs.NetNS, other.NetNS = n.namespace("a"), n.namespace("b"), n.namespace("c")
			if c.mount {
				mount("/proc/self/ns/net", runs.NetNS, syscall.MS_BIND)
			}
			all := []critest.Sandbox{gone, runs}
			if c.plain {
				all = append(all, other)
			}
			n.setSandboxes(all...)
			equal(t, "network", networkState(n.sandbox(gone.ID).NetworkClosed), c.want)
		})
	}
}

// A folder of the node is deleted and created again. The mount still shows the deleted one, as a path through an open
// file does.
func TestInspect_FolderIsReplacedUnderItsMount(t *testing.T) {
	for name, c := range map[string]struct {
		folders func(mount string) cnicache.Folders
		isEarly bool // the folder is deleted before the first inspection
	}{
		"the folder above the results": {func(mount string) cnicache.Folders {
			return cnicache.Folders{Results: mount + "/results", Multus: mount + "/multus"}
		}, false},
		"the folder above the results, before they exist": {func(mount string) cnicache.Folders {
			return cnicache.Folders{Results: mount + "/results", Multus: mount + "/multus"}
		}, true},
		"Multus' cniDir": {func(mount string) cnicache.Folders {
			return cnicache.Folders{Multus: mount}
		}, false},
		"Multus' cniDir, before the first inspection": {func(mount string) cnicache.Folders {
			return cnicache.Folders{Multus: mount}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, critest.Containerd)
			path := filepath.Join(t.TempDir(), "folder")
			n.mkdir(filepath.Join(path, "results"))
			open, err := os.Open(path)
			check(t, err)
			defer open.Close()
			folders := c.folders(fmt.Sprintf("/proc/self/fd/%d", open.Fd()))
			folders.Results = cmp.Or(folders.Results, n.results())
			n.Caches = cnicache.New(folders)
			if !c.isEarly {
				n.inspect()
			}
			n.remove(path)
			n.mkdir(filepath.Join(path, "results"))
			if err := n.inspectError(); !errors.Is(err, hostdir.ErrReplaced) {
				t.Errorf("got %v", err)
			}
		})
	}
}
