package harness

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// cgroup is the parent of all cgroups of the node's pods. It has the prefix of the
// run's links, by which scrub finds it.
func (r *Runtime) cgroup() string {
	return linkPrefix(r.Node.cluster.run.id) + "-" + r.Node.Name
}

// makeCgroup creates a cgroup in every hierarchy, as kubelet requires of its root.
func makeCgroup(name string) error {
	tops := []string{"/sys/fs/cgroup"}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil { // version 1
		if tops, err = filepath.Glob("/sys/fs/cgroup/*"); err != nil {
			return err
		}
	}
	for _, top := range tops {
		if err := os.MkdirAll(filepath.Join(top, name), 0o755); err != nil {
			return err
		}
	}
	// In version 1 a new cpuset is empty, and accepts no process.
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		content, err := os.ReadFile(filepath.Join("/sys/fs/cgroup/cpuset", file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join("/sys/fs/cgroup/cpuset", name, file), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// MemoryLimit creates a cgroup in which processes together have so many bytes of memory, until the run ends. It returns
// the file into which a process writes its id to join.
func (c *ControlPlane) MemoryLimit(name string, bytes int64) (procs string, err error) {
	name = linkPrefix(c.run.id) + "-" + name
	if err := makeCgroup(name); err != nil {
		return "", err
	}
	folder, file := filepath.Join("/sys/fs/cgroup/memory", name), "memory.limit_in_bytes"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		folder, file = filepath.Join("/sys/fs/cgroup", name), "memory.max"
		if err := os.WriteFile("/sys/fs/cgroup/cgroup.subtree_control", []byte("+memory"), 0o644); err != nil {
			return "", err
		}
	}
	err = os.WriteFile(filepath.Join(folder, file), strconv.AppendInt(nil, bytes, 10), 0o644)
	return filepath.Join(folder, "cgroup.procs"), err
}

// removeCgroups removes the cgroups with this prefix, in every hierarchy. Those of processes that were just killed need
// a moment.
func removeCgroups(prefix string) error {
	tops, err := cgroups(prefix)
	if err != nil {
		return err
	}
	for _, top := range tops {
		var last error
		err := poll(context.Background(), func(context.Context) (bool, error) {
			last = removeTree(top)
			return last == nil, nil
		})
		if err != nil {
			return fmt.Errorf("removing cgroups: %w", last)
		}
	}
	return nil
}

// cgroups are those with this prefix, in every hierarchy.
func cgroups(prefix string) ([]string, error) {
	one, err := filepath.Glob("/sys/fs/cgroup/" + prefix + "*")
	each, err1 := filepath.Glob("/sys/fs/cgroup/*/" + prefix + "*") // version 1
	return append(one, each...), errors.Join(err, err1)
}

// removeTree removes folders from the leaves up; their files are the kernel's.
func removeTree(top string) error {
	entries, err := os.ReadDir(top)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if e.IsDir() {
			err = errors.Join(err, removeTree(filepath.Join(top, e.Name())))
		}
	}
	if err != nil {
		return err
	}
	return os.Remove(top)
}
