package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ip-reconcile/ip-reconcile/podstate/cri"
)

// namespaces tell whether network namespaces are still there, by their paths. A
// missing path proves something only in a folder that is really the node's: one
// in which the namespace of a sandbox that runs is seen at this very look.
type namespaces struct {
	folders map[string]os.FileInfo // as named by flag, those that are there
	seen    []os.FileInfo          // those that were found to be the node's
}

// namespaces looks which folders hold the namespace of a sandbox that runs.
func (e *Eyes) namespaces(listed []cri.Sandbox) *namespaces {
	n := &namespaces{folders: map[string]os.FileInfo{}}
	for _, dir := range e.NetNSDirs {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			n.folders[filepath.Clean(dir)] = info
		}
	}
	for _, s := range listed {
		path := e.known[s.ID].detail.NetNS
		folder := n.folders[filepath.Dir(path)]
		if !s.Ready || folder == nil || n.trusted(folder) {
			continue
		}
		if _, err := os.Lstat(path); err == nil {
			n.seen = append(n.seen, folder)
		}
	}
	return n
}

// trusted says whether a folder is one that was seen, by whatever name:
// /var/run/netns is /run/netns on most nodes.
func (n *namespaces) trusted(folder os.FileInfo) bool {
	for _, s := range n.seen {
		if os.SameFile(s, folder) {
			return true
		}
	}
	return false
}

// closed says whether the namespaces at these paths are all gone (true), one of
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
