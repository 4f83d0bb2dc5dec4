package harness

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// A process is a child that does not outlive the test process and writes a log.
type process struct {
	name, log string
	cmd       *exec.Cmd
	exited    chan struct{}
}

// startProcess starts a program of the kubeparts binary, whose log has the program's name and perhaps a suffix.
func startProcess(kubeparts, dir, name, suffix string, args ...string) (*process, error) {
	return startCommand(dir, name+suffix, &exec.Cmd{Path: kubeparts, Args: append([]string{name}, args...), Dir: dir,
		SysProcAttr: dieWithParent()})
}

// startCommand starts a command without output of its own. It dies with the test process if its SysProcAttr says so. It
// appends to <dir>/<name>.log, so a restarted program continues its log.
func startCommand(dir, name string, cmd *exec.Cmd) (*process, error) {
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	// Memory for time: starting the API server takes a fifth less.
	cmd.Env = append(cmd.Env, "GOGC=400")
	p := &process{name: name, log: filepath.Join(dir, name+".log"), cmd: cmd, exited: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	started := make(chan error)
	go func() {
		// The kernel sends the parent's death signal when the thread that started the child ends. Waiting here keeps that
		// thread as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.cmd.Wait()
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return p, nil
}

// kill ends the process with SIGKILL and waits for its end: an orderly end of the API server takes up to a minute
// without etcd.
func (p *process) kill() {
	if p == nil {
		return
	}
	p.cmd.Process.Kill()
	<-p.exited
}

func (p *process) runs() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// ended returns why the process ended, or nil while it runs.
func (p *process) ended() error {
	if p.runs() {
		return nil
	}
	return fmt.Errorf("%s ended by itself: %v; its log ends with:\n%s", p.name, p.cmd.ProcessState, tail(p.log))
}

// tail returns the last lines of a log, without the ends of very long ones.
func tail(path string) string {
	const lines, width = 30, 300
	log, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(log)), "\n")
	all = all[max(0, len(all)-lines):]
	for i, line := range all {
		all[i] = line[:min(len(line), width)]
	}
	return strings.Join(all, "\n")
}

// command runs a short program to its end.
func command(name string, args ...string) ([]byte, error) { return commandWith("", name, args...) }

// commandWith is command with input.
func commandWith(stdin, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("`%s %s`: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return out, nil
}

// iproute runs ip(8) of iproute2.
func iproute(args ...string) error {
	_, err := command("ip", args...)
	return err
}
