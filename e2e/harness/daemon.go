package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// A Daemon is a program on a node that a test may end, freeze and start again. It is the child of a process that keeps
// it in the node's namespaces.
type Daemon struct {
	mu     sync.Mutex
	holder *process
}

// start starts the daemon with a command of the node's.
func (d *Daemon) start(dir, name string, cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr, cmd.Cancel = dieWithParent(), nil
	p, err := startCommand(dir, name, cmd)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.holder = p
	return p, nil
}

func (d *Daemon) held() *process {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.holder
}

func (d *Daemon) runs() bool {
	p := d.held()
	return p != nil && p.runs()
}

// gone waits for the end, after the end of the node.
func (d *Daemon) gone() { d.held().kill() }

// Kill ends it as a crash would, frozen or not.
func (d *Daemon) Kill() {
	// When the program is gone, the process that keeps it ends; the other way round the program would live on for a
	// moment.
	if d.end(syscall.SIGKILL) != nil {
		d.gone()
	}
}

// Stop ends it in order, as its service's stop does.
func (d *Daemon) Stop() error { return d.end(syscall.SIGTERM) }

func (d *Daemon) end(s syscall.Signal) error {
	if err := d.signal(s); err != nil {
		return err
	}
	p := d.held()
	return poll(context.Background(), func(context.Context) (bool, error) { return p.ended() != nil, nil })
}

// Freeze stops all of it until Thaw.
func (d *Daemon) Freeze() error {
	if err := d.signal(sigStop); err != nil {
		return err
	}
	pid, err := d.pid()
	if err != nil {
		return err
	}
	// Each of its threads stops in its own time.
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
func (d *Daemon) Thaw() error { return d.signal(sigContinue) }

// signal sends a signal to the daemon itself, not to the process that keeps it.
func (d *Daemon) signal(s syscall.Signal) error {
	pid, err := d.pid()
	if err != nil {
		return err
	}
	child, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return child.Signal(s)
}

func (d *Daemon) pid() (int, error) {
	holder := d.held()
	if err := holder.ended(); err != nil {
		return 0, err
	}
	return childOf(holder.cmd.Process.Pid)
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

// statFields are the fields of a stat file in /proc from the state on, which the parent follows. Before them is a name
// in parentheses that may contain anything.
func statFields(path string) []string {
	stat, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
}
