package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ip-reconcile/ip-reconcile/e2e/bench/used"
)

// A Process is the long-running form while it runs.
type Process struct {
	cmd     *exec.Cmd
	metrics string
	stderr  bytes.Buffer
	ended   chan error
}

// StartServe starts the long-running form, and returns when it has made its first
// full pass.
func (b *Bench) StartServe(ctx context.Context, kubeconfig string, more ...string) (*Process, error) {
	metrics, err := freeAddress()
	if err != nil {
		return nil, err
	}
	health, err := freeAddress()
	if err != nil {
		return nil, err
	}
	p := &Process{metrics: metrics, ended: make(chan error, 1)}
	p.cmd = exec.CommandContext(ctx, b.program("ip-reconcile"), append([]string{"serve", "--kubeconfig", kubeconfig, "--leader-elect=false",
		"--cron", "0 0 1 1 *", "--metrics-bind-address", metrics, "--health-probe-bind-address", health}, more...)...)
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent"}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.cmd.Stderr = &p.stderr
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { p.ended <- p.cmd.Wait() }()
	for deadline := time.Now().Add(5 * time.Minute); p.Metric(`ip_reconcile_passes_total{result="done"}`) < 1; time.Sleep(100 * time.Millisecond) {
		select {
		case err := <-p.ended:
			return nil, fmt.Errorf("serve ended by itself: %w: %s", err, p.stderr.String())
		default:
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			p.Stop()
			return nil, fmt.Errorf("serve has not made a pass in time: %s", p.stderr.String())
		}
	}
	return p, nil
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// Metric is the sum of all series that begin so, 0 where there are none.
func (p *Process) Metric(series string) (sum float64) {
	response, err := http.Get("http://" + p.metrics + "/metrics")
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if at := strings.LastIndexByte(lines.Text(), ' '); at > 0 && strings.HasPrefix(lines.Text(), series) {
			value, _ := strconv.ParseFloat(lines.Text()[at+1:], 64)
			sum += value
		}
	}
	return sum
}

// Used is what it took until now; MiB is what is resident now.
func (p *Process) Used() (*used.Used, error) {
	status, err1 := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	stat, err2 := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	u := &used.Used{}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			fmt.Sscan(rest, &u.MiB)
			u.MiB /= 1024
		}
	}
	// After the name in parentheses come the fields from the third on.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	for _, field := range fields[11:13] { // utime and stime, in hundredths
		ticks, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return nil, err
		}
		u.CPU += ticks / 100
	}
	return u, nil
}

// Stop ends it and returns what it wrote to stderr.
func (p *Process) Stop() string {
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(20 * time.Second):
		p.cmd.Process.Kill()
		<-p.ended
	}
	return p.stderr.String()
}

// settling is how long the long-running form is left alone before its memory is read: the
// Go runtime gives back what the first pass needed and nothing needs now.
const settling = 20 * time.Second

// Serve measures the long-running form at rest. What is stale stays: it is not
// confirmed.
func (b *Bench) Serve(ctx context.Context, s *Server, work string) error {
	began := time.Now()
	p, err := b.StartServe(ctx, s.Kubeconfig(), "--confirm-after", "24h")
	if err != nil {
		return err
	}
	defer p.Stop()
	ready := time.Since(began).Seconds()
	time.Sleep(settling)
	u, err := p.Used()
	if err != nil {
		return err
	}
	u.Seconds = ready
	return b.put(&Result{Work: work, Who: Ours, Pods: s.Content.Pods, Runs: []*used.Used{u}})
}
