//go:build linux

// Command nodens makes the namespaces of a node, and runs programs in them.
//
// "nodens init <dir> <others>" is the node's process 1 and expects mount and PID namespaces of its own. It takes from
// the node what is mounted below the folder others, which is none of its business and would live on with it. It gives
// the node a /run as after a boot, a /var/lib, a /var/log and the changes to /etc that are kept in the folder, and a
// /proc, in which the files of the folder's proc hide the machine's. All of the node's processes end with it: the
// kernel sees to that.
//
// "nodens run <pid> <program> <arguments>" runs a program in the namespaces of that
// process 1, and hands on signals and the exit status. The program ends with it.
//
// "nodens show <file>" is a hook of a container that is being made: it gives it the
// node's own file, in the place of what the container has there.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ready exists when the node runs.
const ready = "/run/node-ready"

func main() {
	var err error
	switch {
	case len(os.Args) == 4 && os.Args[1] == "init":
		err = start(os.Args[2], os.Args[3])
	case len(os.Args) > 2 && os.Args[1] == "become":
		err = become(os.Args[2], os.Args[2:])
	case len(os.Args) == 3 && os.Args[1] == "show":
		err = bind(os.Args[2], "."+os.Args[2])
	case len(os.Args) > 3 && os.Args[1] == "run":
		err = run("/proc/"+os.Args[2]+"/ns/", os.Args[3], os.Args[4:])
	default:
		err = errors.New("usage: nodens init <dir> <others> | run <pid> <program> <arguments> | show <file>")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "nodens:", err)
		os.Exit(1)
	}
}

func start(dir, others string) error {
	if os.Getpid() != 1 {
		return errors.New("not process 1 of a PID namespace")
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unmountBelow(others); err != nil {
		return err
	}
	overlay := fmt.Sprintf("lowerdir=/etc,upperdir=%s,workdir=%s", filepath.Join(dir, "etc"),
		filepath.Join(dir, "etc-work"))
	for _, m := range []struct {
		source, target, kind string
		flags                uintptr
		data                 string
	}{
		// As on a usual node: containers can use network namespaces that are created after them.
		{"", "/", "", unix.MS_REC | unix.MS_SHARED, ""},
		{"proc", "/proc", "proc", 0, ""},
		{"tmpfs", "/run", "tmpfs", 0, "mode=755"},
		{filepath.Join(dir, "var-lib"), "/var/lib", "", unix.MS_BIND, ""},
		{filepath.Join(dir, "var-log"), "/var/log", "", unix.MS_BIND, ""},
		{"overlay", "/etc", "overlay", 0, overlay},
	} {
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("mounting %q on %s: %w", m.source, m.target, err)
		}
	}
	if err := hide(filepath.Join(dir, "proc")); err != nil {
		return err
	}
	if err := os.Mkdir("/run/netns", 0o755); err != nil {
		return err
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGCHLD)
	if err := os.WriteFile(ready, nil, 0o600); err != nil {
		return err
	}
	for range signals {
		for {
			if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
	return nil
}

func unmountBelow(dir string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], dir+"/") {
			// A mount ends when its owner removes its file, even just now: first the mount (EINVAL), then the file.
			err := unix.Unmount(fields[4], unix.MNT_DETACH)
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.EINVAL) {
				return fmt.Errorf("unmounting %s: %w", fields[4], err)
			}
		}
	}
	return nil
}

// hide mounts the folder's files over those of /proc.
func hide(proc string) error {
	err := filepath.WalkDir(proc, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return bind(path, "/proc"+strings.TrimPrefix(path, proc))
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func bind(source, target string) error {
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting %s on %s: %w", source, target, err)
	}
	return nil
}

func run(namespaces, program string, args []string) error {
	// A thread's namespaces are its own, and the child gets those of this one.
	runtime.LockOSThread()
	wd, err := os.Getwd()
	if err != nil {
		return err
	}
	program, err = exec.LookPath(program)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := enter(namespaces); err != nil {
		return fmt.Errorf("entering the node: %w", err)
	}
	cmd := exec.Command(self, append([]string{"become", program}, args...)...)
	cmd.Dir = wd
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2)
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		for s := range signals {
			cmd.Process.Signal(s)
		}
	}()
	err = cmd.Wait()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		if status := exit.Sys().(syscall.WaitStatus); status.Signaled() {
			os.Exit(128 + int(status.Signal()))
		}
		os.Exit(exit.ExitCode())
	}
	return err
}

// become turns into the program, which ends with its parent. Go's own way takes a parent that is out of sight, in
// another PID namespace, for dead.
func become(program string, args []string) error {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return err
	}
	if os.Getppid() != 0 {
		return errors.New("the parent has ended")
	}
	return unix.Exec(program, args, os.Environ())
}

func enter(namespaces string) error {
	var fds []int
	for _, kind := range strings.Fields("pid net mnt") {
		fd, err := unix.Open(namespaces+kind, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		fds = append(fds, fd)
	}
	// The kernel requires a thread without a shared root and working folder.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	for _, fd := range fds {
		if err := unix.Setns(fd, 0); err != nil {
			return err
		}
	}
	return nil
}
