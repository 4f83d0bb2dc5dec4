package harness

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	sigStop     = syscall.SIGSTOP
	sigContinue = syscall.SIGCONT
)

// dieWithParent ends a child when the thread that started it ends.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// ownNamespaces is dieWithParent for the first process of a node, which gets mounts, process ids and perhaps a network
// of its own. Its children die with it.
func ownNamespaces(network bool) *syscall.SysProcAttr {
	flags := uintptr(syscall.CLONE_NEWNS | syscall.CLONE_NEWPID)
	if network {
		flags |= syscall.CLONE_NEWNET
	}
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Cloneflags: flags}
}

// lock waits for the lock on a file. The kernel releases it when the process dies, however it dies.
func lock(path string) (unlock func(), err error) { return flock(path, syscall.LOCK_EX) }

// tryLock is lock without waiting: errLocked means that another process has it.
func tryLock(path string) (unlock func(), err error) {
	return flock(path, syscall.LOCK_EX|syscall.LOCK_NB)
}

func flock(path string, how int) (func(), error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), how)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = errLocked
		}
		return nil, &os.PathError{Op: "lock", Path: path, Err: err}
	}
}

// unmountBelow unmounts everything that is mounted below a folder.
func unmountBelow(dir string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	defer f.Close()
	var errs []error
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 4 && strings.HasPrefix(fields[4], dir+"/") {
			errs = append(errs, unmount(fields[4]))
		}
	}
	return errors.Join(errs...)
}

func unmount(path string) error {
	if err := syscall.Unmount(path, syscall.MNT_DETACH); err != nil {
		return &os.PathError{Op: "unmount", Path: path, Err: err}
	}
	return nil
}
