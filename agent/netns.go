package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/agent/cri"
)

// netnsDirs are the folders of network namespaces in which a path shows whether the
// namespace still exists. A missing path proves that only in a folder that is really the
// node's: one in which the namespace of a sandbox that runs was found.
type netnsDirs struct {
	dirs     map[string]os.FileInfo // those of NetNSDirs that exist, by path
	nodeDirs []os.FileInfo          // those that were found to be the node's
	// mounts are those in which namespaces of sandboxes that run are mounts, plain those in which one is a
	// file: there mounts of the node do not reach this process.
	mounts, plain []os.FileInfo
}

// findNetNSDirs finds the folders that hold the namespace of a sandbox that runs. A folder
// that once did stays the node's: were it unmounted, another would be in its place.
func (ni *NodeInspector) findNetNSDirs(listed []cri.Sandbox) *netnsDirs {
	n := &netnsDirs{dirs: map[string]os.FileInfo{}, nodeDirs: ni.nodeDirs}
	for _, dir := range ni.NetNSDirs {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			n.dirs[filepath.Clean(dir)] = info
		}
	}
	var incomplete []os.FileInfo
	for _, s := range listed {
		path := ni.tracked[s.ID].detail.NetNS
		dir := n.dirs[filepath.Dir(path)]
		if !s.Ready || dir == nil {
			continue
		}
		if _, err := os.Lstat(path); err != nil {
			incomplete = append(incomplete, dir)
			continue
		}
		if !n.isNodeDir(dir) {
			n.nodeDirs = append(n.nodeDirs, dir)
		}
		if isNamespace(path) {
			n.mounts = append(n.mounts, dir)
		} else {
			n.plain = append(n.plain, dir)
		}
	}
	// A folder without the namespace of a sandbox that runs proves nothing.
	n.nodeDirs = slices.DeleteFunc(slices.Clone(n.nodeDirs), func(f os.FileInfo) bool { return contains(incomplete, f) })
	ni.nodeDirs = n.nodeDirs
	return n
}

// isNodeDir reports whether a folder was found to be the node's, by whatever name:
// /var/run/netns is /run/netns on most nodes.
func (n *netnsDirs) isNodeDir(dir os.FileInfo) bool { return contains(n.nodeDirs, dir) }

func contains(dirs []os.FileInfo, dir os.FileInfo) bool {
	return slices.ContainsFunc(dirs, func(d os.FileInfo) bool { return os.SameFile(d, dir) })
}

// isLeftover reports whether a path is the file of a namespace that was unmounted: a plain file, where
// those of all sandboxes that run are mounts, and mounts that the node makes reach this process.
func (n *netnsDirs) isLeftover(path string, dir os.FileInfo) bool {
	return n.isNodeDir(dir) && contains(n.mounts, dir) && !contains(n.plain, dir) && !isNamespace(path) && seesMounts(filepath.Dir(path))
}

// closed reports whether the namespaces at these paths are all gone (true), one of
// them exists (false), or neither is known (nil). The file of one that was unmounted is gone only for a sandbox
// that the runtime lists: one that lost its state, and its mounts, may have left it running.
func (n *netnsDirs) closed(paths []string, listed bool) *bool {
	if len(paths) == 0 {
		return nil
	}
	closed, open := true, false
	for _, path := range paths {
		dir := n.dirs[filepath.Dir(path)]
		if dir == nil {
			closed = false
			continue
		}
		switch _, err := os.Lstat(path); {
		case err == nil && listed && n.isLeftover(path, dir):
		case err == nil:
			return &open
		case !errors.Is(err, fs.ErrNotExist) || !n.isNodeDir(dir):
			closed = false
		}
	}
	if !closed {
		return nil
	}
	return &closed
}
