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
)

// Folders are where the caches lie on this node.
type Folders struct {
	// Results is libcni's own, of the container runtime: /var/lib/cni/results
	// (libcni v1.3.0, libcni/api.go, getCacheFilePath).
	Results string
	// Multus is its cniDir: /var/lib/cni/multus, with a file for each container
	// and its delegates' results in results/ below it (Multus v4.2.4,
	// pkg/multus/multus.go, saveScratchNetConf and confAdd).
	// What Multus' own configs in the runtime's results name is read besides.
	Multus string
}

// Cache reads the folders whenever Read is called and keeps what it parsed of files
// that did not change, so that a Read costs a readdir, and a stat per file. It
// is not for concurrent use.
type Cache struct {
	folders    Folders
	results    *folder
	multus     map[string][]*folder // by cniDir
	unreadable map[string]error
}

// New returns a Cache that has read nothing yet.
func New(f Folders) *Cache {
	f.Multus = filepath.Clean(f.Multus)
	// libcni makes its folder with the first result: a node on which no pod has had a
	// network yet has only the parent folder.
	c := &Cache{folders: f, results: &folder{path: f.Results, kind: runtimeResults, parent: filepath.Dir(f.Results)}}
	c.findMultus(nil)
	return c
}

// Read returns the entries by container id; they are the caller's own. It is an
// error when a folder could not be listed, or the metadata of its files not be read. A
// folder may be missing as long as this Cache has never seen it; for that of the
// runtime's results, the parent folder must be there.
func (c *Cache) Read() (map[string]*Entry, error) {
	c.unreadable = map[string]error{}
	now := time.Now()
	builders := map[string]*entryBuilder{}
	if err := c.readFolder(c.results, now, builders); err != nil {
		return nil, err
	}
	c.findMultus(builders)
	for _, folders := range c.multus {
		for _, f := range folders {
			if err := c.readFolder(f, now, builders); err != nil {
				return nil, err
			}
		}
	}
	entries := make(map[string]*Entry, len(builders))
	for id, b := range builders {
		entries[id] = b.build(id)
	}
	return entries, nil
}

// findMultus finds Multus' folders: that of Folders, and those that its own configs among the runtime's results name.
func (c *Cache) findMultus(builders map[string]*entryBuilder) {
	known := c.multus
	c.multus = map[string][]*folder{}
	add := func(cniDir string) {
		if c.multus[cniDir] != nil {
			return
		}
		if c.multus[cniDir] = known[cniDir]; known[cniDir] == nil {
			c.multus[cniDir] = []*folder{
				{path: cniDir, kind: multusDelegates},
				{path: filepath.Join(cniDir, "results"), kind: multusResults},
			}
		}
	}
	add(c.folders.Multus)
	for _, b := range builders {
		if b.cniDir != "" {
			add(b.cniDir)
		}
	}
}

// MissingResults returns the folder of the runtime's results if the last Read found
// none, and "" if it is there.
func (c *Cache) MissingResults() string {
	if !c.results.existed {
		return c.folders.Results
	}
	return ""
}

// Results returns the folder of the runtime's results.
func (c *Cache) Results() string { return c.folders.Results }

// MultusDirs returns the cniDirs of the last Read.
func (c *Cache) MultusDirs() []string { return slices.Sorted(maps.Keys(c.multus)) }

// Unreadable returns the files that could not be read in full in the last Read, by path, with the error. They affect
// only the entries of their own containers.
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
	if errors.Is(err, fs.ErrNotExist) && !f.existed {
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
	f.existed = true
	return nil
}
