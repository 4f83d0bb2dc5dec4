// Package cnicache reads the CNI caches of a node: libcni's results for the container runtime, libcni's results for
// Multus, and Multus' list of networks of each container. A sandbox is in these caches before the runtime lists it,
// and stays there after a lost DEL. They have the addresses that are really configured.
package cnicache

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/ip-reconcile/ip-reconcile/agent/hostdir"
)

// Folders are the folders of the caches on this node.
type Folders struct {
	// Results is libcni's folder for the container runtime, /var/lib/cni/results (libcni v1.3.0, libcni/api.go,
	// getCacheFilePath).
	Results string
	// Multus is Multus' cniDir, /var/lib/cni/multus. It has a file for each container, and the results of its
	// delegates in results/ (Multus v4.2.4, pkg/multus/multus.go, saveScratchNetConf and confAdd). A cniDir that
	// Multus' config in a runtime result names is read as well.
	Multus string
}

// Cache reads the folders at each Read, and parses only files that changed. It is not safe for concurrent use.
type Cache struct {
	Folders
	runtimeFolder *folder
	multusFolders map[string][]*folder // by cniDir
	unreadable    map[string]error
}

// New returns a Cache without content.
func New(f Folders) *Cache {
	f.Multus = filepath.Clean(f.Multus)
	// libcni creates its folder with the first result. Before that, a node has only the parent folder.
	c := &Cache{Folders: f, runtimeFolder: &folder{path: f.Results, kind: runtimeResults, parent: filepath.Dir(f.Results)}}
	c.findMultus(nil)
	return c
}

// Read returns the entries by container id. It fails if a folder cannot be listed, or a file has no metadata. A folder
// may be missing until this Cache has read it, but the parent of the runtime's results must exist.
func (c *Cache) Read() (map[string]*Entry, error) {
	c.unreadable = map[string]error{}
	now := time.Now()
	builders := map[string]*entryBuilder{}
	if err := c.readFolder(c.runtimeFolder, now, builders); err != nil {
		return nil, err
	}
	c.findMultus(builders)
	for _, folders := range c.multusFolders {
		for _, f := range folders {
			if err := c.readFolder(f, now, builders); err != nil {
				return nil, err
			}
		}
	}
	entries := make(map[string]*Entry, len(builders))
	for id, b := range builders {
		entries[id] = b.build()
	}
	return entries, nil
}

// findMultus finds the folders of Multus: those of Folders, and those that a Multus config in a runtime result names.
func (c *Cache) findMultus(builders map[string]*entryBuilder) {
	dirs := sets.New(c.Multus)
	for _, b := range builders {
		if b.cniDir != "" {
			dirs.Insert(b.cniDir)
		}
	}
	known := c.multusFolders
	c.multusFolders = map[string][]*folder{}
	for dir := range dirs {
		if c.multusFolders[dir] = known[dir]; known[dir] == nil {
			results := filepath.Join(dir, "results")
			c.multusFolders[dir] = []*folder{{path: dir, kind: multusDelegates}, {path: results, kind: multusResults}}
		}
	}
}

// HasResults reports whether a Read has found the folder of the runtime's results.
func (c *Cache) HasResults() bool { return c.runtimeFolder.hasExisted }

// MultusDirs returns the cniDirs of the last Read.
func (c *Cache) MultusDirs() []string { return slices.Sorted(maps.Keys(c.multusFolders)) }

// Unreadable returns the error of each file that the last Read could not read in full, by path.
func (c *Cache) Unreadable() map[string]error { return c.unreadable }

func (c *Cache) readFolder(f *folder, now time.Time, builders map[string]*entryBuilder) error {
	err := f.read(now, func(id, name string, r *parsedFile) {
		b := builders[id]
		if b == nil {
			b = &entryBuilder{}
			builders[id] = b
		}
		b.add(f.kind, r)
		if r.problem != nil {
			c.unreadable[filepath.Join(f.path, name)] = r.problem
		}
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = hostdir.Explain(f.path, err)
	}
	if errors.Is(err, fs.ErrNotExist) && !errors.Is(err, hostdir.ErrReplaced) && !f.hasExisted {
		if f.parent == "" {
			return nil
		}
		if _, aerr := os.ReadDir(f.parent); aerr == nil {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("CNI cache: %w", err)
	}
	f.hasExisted = true
	return nil
}
