package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/agent/cri"
)

// netnsDirs tell whether network namespaces are still there, by their paths. A
// missing path proves something only in a folder that is really the node's: one
// in which the namespace of a sandbox that runs was seen.
type netnsDirs struct {
	dirs     map[string]os.FileInfo // as named by flag, those that are there
	nodeDirs []os.FileInfo          // those that were found to be the node's
}

// findNetNSDirs looks which folders hold the namespace of a sandbox that runs. A folder
// that once did stays the node's: were it unmounted, another would be in its place.
func (e *NodeInspector) findNetNSDirs(listed []cri.Sandbox) *netnsDirs {
	n := &netnsDirs{dirs: map[string]os.FileInfo{}, nodeDirs: e.nodeDirs}
	for _, dir := range e.NetNSDirs {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			n.dirs[filepath.Clean(dir)] = info
		}
	}
	var missing []os.FileInfo
	for _, s := range listed {
		path := e.tracked[s.ID].detail.NetNS
		folder := n.dirs[filepath.Dir(path)]
		if !s.Ready || folder == nil {
			continue
		}
		if _, err := os.Lstat(path); err != nil {
			missing = append(missing, folder)
		} else if !n.isNodeDir(folder) {
			n.nodeDirs = append(n.nodeDirs, folder)
		}
	}
	// One that lacks the namespace of a sandbox that runs is not to be relied upon.
	n.nodeDirs = slices.DeleteFunc(slices.Clone(n.nodeDirs), func(f os.FileInfo) bool {
		return slices.ContainsFunc(missing, func(m os.FileInfo) bool { return os.SameFile(m, f) })
	})
	e.nodeDirs = n.nodeDirs
	return n
}

// isNodeDir reports whether a folder is one that was seen, by whatever name:
// /var/run/netns is /run/netns on most nodes.
func (n *netnsDirs) isNodeDir(folder os.FileInfo) bool {
	for _, s := range n.nodeDirs {
		if os.SameFile(s, folder) {
			return true
		}
	}
	return false
}

// closed reports whether the namespaces at these paths are all gone (true), one of
// them is there (false), or nothing tells (nil).
func (n *netnsDirs) closed(paths []string) *bool {
	if len(paths) == 0 {
		return nil
	}
	closed, open := true, false
	for _, path := range paths {
		folder := n.dirs[filepath.Dir(path)]
		if folder == nil {
			closed = false
			continue
		}
		switch _, err := os.Lstat(path); {
		case err == nil:
			return &open
		case !errors.Is(err, fs.ErrNotExist) || !n.isNodeDir(folder):
			closed = false
		}
	}
	if !closed {
		return nil
	}
	return &closed
}
