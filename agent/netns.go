package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/agent/cri"
)

// netnsDirs are the folders in which a path shows whether a network namespace exists. A missing path proves that
// only in a folder that is really the node's: it holds the namespace of a running sandbox.
type netnsDirs struct {
	dirs map[string]os.FileInfo // those of NetNSDirs that exist, by path
	// nodeDirs are those that are confirmed to be the node's. /var/run/netns is /run/netns on most nodes.
	nodeDirs []os.FileInfo
	// mountDirs contain a mounted namespace of a running sandbox. plainDirs contain one as a plain file, so mounts
	// of the node do not reach this process there.
	mountDirs, plainDirs []os.FileInfo
}

// findNetNSDirs finds the folders that hold the namespace of a running sandbox. Such a folder stays the node's:
// after an unmount another folder would be in its place.
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
		if !contains(n.nodeDirs, dir) {
			n.nodeDirs = append(n.nodeDirs, dir)
		}
		if isNamespace(path) {
			n.mountDirs = append(n.mountDirs, dir)
		} else {
			n.plainDirs = append(n.plainDirs, dir)
		}
	}
	// A folder that lacks the namespace of a running sandbox proves nothing.
	n.nodeDirs = slices.DeleteFunc(slices.Clone(n.nodeDirs), func(f os.FileInfo) bool { return contains(incomplete, f) })
	ni.nodeDirs = n.nodeDirs
	return n
}

// contains reports whether a folder is one of several, under any name.
func contains(dirs []os.FileInfo, dir os.FileInfo) bool {
	return slices.ContainsFunc(dirs, func(d os.FileInfo) bool { return os.SameFile(d, dir) })
}

// isLeftover reports whether a path is the file of an unmounted namespace. It is a plain file, all running
// sandboxes have mounts in its folder, and new mounts of the node reach this process.
func (n *netnsDirs) isLeftover(path string, dir os.FileInfo) bool {
	return contains(n.nodeDirs, dir) && contains(n.mountDirs, dir) && !contains(n.plainDirs, dir) &&
		!isNamespace(path) && receivesMounts(filepath.Dir(path))
}

// networkClosed reports whether all namespaces at these paths are gone (true), one exists (false), or neither is
// known (nil), as for the path "". The file of an unmounted namespace is gone only for a listed sandbox. A runtime
// that lost its state and its mounts may have an unlisted sandbox that still runs.
func (n *netnsDirs) networkClosed(paths []string, listed bool) *bool {
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
		case !errors.Is(err, fs.ErrNotExist) || !contains(n.nodeDirs, dir):
			closed = false
		}
	}
	if !closed {
		return nil
	}
	return &closed
}
