package harness

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Kill ends containerd as a crash would, frozen or not. Shims and pods live on.
func (r *Runtime) Kill() {
	// When it is gone, the process that holds it ends; the other way round it
	// would live on for a moment.
	if r.end(syscall.SIGKILL) != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.containerd.kill()
	}
}

// Stop ends containerd in order, as its service's stop does. Shims and pods live on.
func (r *Runtime) Stop() error { return r.end(syscall.SIGTERM) }

func (r *Runtime) end(s syscall.Signal) error {
	if err := r.signal(s); err != nil {
		return err
	}
	r.mu.Lock()
	p := r.containerd
	r.mu.Unlock()
	return poll(context.Background(), func(context.Context) (bool, error) { return p.ended() != nil, nil })
}

// Freeze keeps containerd from answering until Thaw.
func (r *Runtime) Freeze() error {
	if err := r.signal(sigStop); err != nil {
		return err
	}
	pid, err := r.containerdPID()
	if err != nil {
		return err
	}
	// Each of its threads takes its own moment to stop.
	return poll(context.Background(), func(context.Context) (bool, error) {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		for _, t := range threads {
			if fields := statFields(t); len(fields) > 0 && fields[0] != "T" {
				return false, nil
			}
		}
		return len(threads) > 0, err
	})
}

// Thaw ends Freeze.
func (r *Runtime) Thaw() error { return r.signal(sigContinue) }

// LoseState takes from containerd, which must not run, all that it knows. Pods run
// on, with their network namespaces and addresses, and the CNI caches stay.
func (r *Runtime) LoseState() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.containerd.ended() == nil {
		return errors.New("containerd runs: Kill or Stop it first")
	}
	r.lost++
	root := filepath.Join("/proc", strconv.Itoa(r.init.cmd.Process.Pid), "root")
	for _, dir := range []string{StateDir, RootDir} {
		// Moved, since the pods' own disks are below.
		if err := os.Rename(filepath.Join(root, dir), filepath.Join(root, fmt.Sprint(dir, ".lost", r.lost))); err != nil {
			return err
		}
	}
	return nil
}

// PowerOff ends all that runs on the node at once, network namespaces too, and
// empties its /run. What is on its disk stays.
func (r *Runtime) PowerOff() {
	r.mu.Lock()
	init, containerd := r.init, r.containerd
	r.mu.Unlock()
	init.kill()
	containerd.kill()
}

// Reboot is PowerOff and Boot. What the Node object says of the boot is the
// caller's: Node.SetBootID.
func (r *Runtime) Reboot(ctx context.Context) error {
	r.PowerOff()
	return r.Boot(ctx)
}

func (r *Runtime) close() error {
	if r.init != nil {
		r.PowerOff()
	}
	var err error
	if r.conn != nil {
		err = r.conn.Close()
	}
	return errors.Join(err, removeCgroups(r.cgroup()))
}

// cgroup is the parent of all cgroups of the node's pods. It has the prefix of the
// run's links, by which scrub finds it.
func (r *Runtime) cgroup() string {
	return linkPrefix(r.Node.cluster.run.id) + "-" + r.Node.Name
}

// removeCgroups removes the cgroups with this beginning of a name, in every
// hierarchy. Those of processes that have just been killed need a moment.
func removeCgroups(prefix string) error {
	var tops []string
	for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
		found, err := filepath.Glob(pattern + prefix + "*")
		if err != nil {
			return err
		}
		tops = append(tops, found...)
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

// childOf finds the child of a process.
func childOf(parent int) (int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	for _, path := range stats {
		if fields := statFields(path); len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			return strconv.Atoi(filepath.Base(filepath.Dir(path)))
		}
	}
	return 0, fmt.Errorf("process %d has no child", parent)
}

// statFields are those of a stat file in /proc from the state on, which the parent
// follows. Before them there is a name in parentheses that may hold anything.
func statFields(path string) []string {
	stat, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
}

// LoseDELs makes whereabouts' part of every DEL succeed without being done, or ends
// that. The links go all the same, as where its API access is cut: whereabouts
// 0.9.4 swallows the errors of a DEL.
func (r *Runtime) LoseDELs(lose bool) error {
	link := filepath.Join(r.dir, "plugins", "whereabouts")
	whereabouts := filepath.Join(r.Node.cluster.bin, "whereabouts")
	next := link + ".next"
	if !lose {
		return errors.Join(os.Symlink(whereabouts, next), os.Rename(next, link))
	}
	script := fmt.Sprintf("#!/bin/sh\n[ \"$CNI_COMMAND\" = DEL ] && exit 0\nexec %s \"$@\"\n", whereabouts)
	return errors.Join(os.WriteFile(next, []byte(script), 0o755), os.Rename(next, link))
}
