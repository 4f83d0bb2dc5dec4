package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/agent/cri"
)

// namespaces tell whether network namespaces are still there, by their paths. A
// missing path proves something only in a folder that is really the node's: one
// in which the namespace of a sandbox that runs was seen.
type namespaces struct {
	folders map[string]os.FileInfo // as named by flag, those that are there
	mine    []os.FileInfo          // those that were found to be the node's
}

// namespaces looks which folders hold the namespace of a sandbox that runs. A folder
// that once did stays the node's: were it unmounted, another would be in its place.
func (e *NodeInspector) namespaces(listed []cri.Sandbox) *namespaces {
	n := &namespaces{folders: map[string]os.FileInfo{}, mine: e.mine}
	for _, dir := range e.NetNSDirs {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			n.folders[filepath.Clean(dir)] = info
		}
	}
	var missing []os.FileInfo
	for _, s := range listed {
		path := e.known[s.ID].detail.NetNS
		folder := n.folders[filepath.Dir(path)]
		if !s.Ready || folder == nil {
			continue
		}
		if _, err := os.Lstat(path); err != nil {
			missing = append(missing, folder)
		} else if !n.trusted(folder) {
			n.mine = append(n.mine, folder)
		}
	}
	// One that lacks the namespace of a sandbox that runs is not to be relied upon.
	n.mine = slices.DeleteFunc(slices.Clone(n.mine), func(f os.FileInfo) bool {
		return slices.ContainsFunc(missing, func(m os.FileInfo) bool { return os.SameFile(m, f) })
	})
	e.mine = n.mine
	return n
}

// trusted reports whether a folder is one that was seen, by whatever name:
// /var/run/netns is /run/netns on most nodes.
func (n *namespaces) trusted(folder os.FileInfo) bool {
	for _, s := range n.mine {
		if os.SameFile(s, folder) {
			return true
		}
	}
	return false
}

// closed reports whether the namespaces at these paths are all gone (true), one of
// them is there (false), or nothing tells (nil).
func (n *namespaces) closed(paths []string) *bool {
	if len(paths) == 0 {
		return nil
	}
	closed, open := true, false
	for _, path := range paths {
		folder := n.folders[filepath.Dir(path)]
		if folder == nil {
			closed = false
			continue
		}
		switch _, err := os.Lstat(path); {
		case err == nil:
			return &open
		case !errors.Is(err, fs.ErrNotExist) || !n.trusted(folder):
			closed = false
		}
	}
	if !closed {
		return nil
	}
	return &closed
}
