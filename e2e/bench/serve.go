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
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ip-reconcile/ip-reconcile/e2e/bench/fill"
	"github.com/ip-reconcile/ip-reconcile/e2e/bench/used"
)

// A Process is a running serve.
type Process struct {
	cmd     *exec.Cmd
	metrics string
	stderr  bytes.Buffer
	ended   chan error
}

// StartServe starts serve, and returns after its first full pass.
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
	p.cmd = exec.CommandContext(ctx, b.program("ip-reconcile"), append([]string{"serve", "--kubeconfig", kubeconfig,
		"--leader-elect=false",
		"--cron", "0 0 1 1 *", "--metrics-bind-address", metrics, "--health-probe-bind-address", health}, more...)...)
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent"}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.cmd.Stderr = &p.stderr
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { p.ended <- p.cmd.Wait() }()
	deadline := time.Now().Add(5 * time.Minute)
	for ; p.Metric(`ip_reconcile_passes_total{result="done"}`) < 1; time.Sleep(100 * time.Millisecond) {
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

// Metric is the sum of all series with this prefix, 0 for none.
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

// Used is the cost until now; MiB is the resident memory now, Peak the most until now.
func (p *Process) Used() (*used.Used, error) {
	status, err1 := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	stat, err2 := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	u := &used.Used{}
	for line := range strings.Lines(string(status)) {
		for name, mib := range map[string]*float64{"VmRSS:": &u.MiB, "VmHWM:": &u.Peak} {
			if rest, ok := strings.CutPrefix(line, name); ok {
				fmt.Sscan(rest, mib)
				*mib /= 1024
			}
		}
	}
	// The fields from the third on follow the name in parentheses.
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

// Stop ends the process and returns its stderr.
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

// settling is the idle time before serve's memory is read: the Go runtime returns what only the first pass needed.
const settling = 20 * time.Second

// Serve measures an idle serve. Stale allocations stay unconfirmed.
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

// whereaboutsLimit is the memory that whereabouts' Deployment gives its reconciler
// (v0.9.4, doc/crds/reconciler-deployment.yaml).
const whereaboutsLimit = 50 << 20

// smallSizes are the numbers of pods at which the drop-in is measured with little memory.
var smallSizes = []int{1000, 2000, 4000, 6000, 8000, 10000}

// Small measures one pass of the drop-in and of upstream's reconciler within that memory, on larger and larger
// clusters. Agents prove what is stale, so nothing waits.
func Small(ctx context.Context, b *Bench) error {
	for _, pods := range smallSizes {
		content := &fill.Content{Pods: pods, Stale: pods / 20, Pools: 2, Reports: true}
		err := b.With(ctx, content, func(s *Server) error { return b.small(ctx, s) })
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *Bench) small(ctx context.Context, s *Server) error {
	for _, who := range []string{DropIn, Upstream} {
		program := b.release(Shipped, s.Kubeconfig())
		if who == DropIn {
			program = []string{b.program("ip-reconciler"), "-kubeconfig", s.Kubeconfig()}
		} else {
			program[2] = "-1" // so many deletes as fit in a second
		}
		u, err := b.within(ctx, whereaboutsLimit, program...)
		if err != nil {
			return err
		}
		r := &Result{Work: smallWork(s.Content.Pods), Who: who, Pods: s.Content.Pods, Runs: []*used.Used{u}}
		if r.Unreleased, r.WronglyReleased, err = s.Remaining(ctx); err != nil {
			return err
		}
		if err := b.put(r); err != nil {
			return err
		}
		if err := s.Refill(ctx); err != nil {
			return err
		}
	}
	return nil
}

func smallWork(pods int) string { return fmt.Sprint("drop-in-", pods) }

// within runs a program in a memory cgroup of its own, which the program sees as a container sees its own. MiB is then
// the cgroup's maximum, including the program's file.
func (b *Bench) within(ctx context.Context, limit int, program ...string) (*used.Used, error) {
	const memory = "/sys/fs/cgroup/memory" // version 1
	folder := filepath.Join(memory, fmt.Sprint("ip-reconcile-bench-", os.Getpid()))
	if err := os.Mkdir(folder, 0o755); err != nil {
		return nil, fmt.Errorf("making a memory cgroup (of version 1): %w", err)
	}
	defer os.Remove(folder)
	if err := os.WriteFile(filepath.Join(folder, "memory.limit_in_bytes"), []byte(strconv.Itoa(limit)),
		0o644); err != nil {
		return nil, err
	}
	const script = `echo $$ > "$1/cgroup.procs" && mount --bind "$1" ` + memory + ` && shift && exec "$@"`
	u, err := b.run(ctx, append([]string{"unshare", "-m", "sh", "-c", script, "sh", folder}, program...)...)
	if err != nil {
		return nil, err
	}
	most, err := os.ReadFile(filepath.Join(folder, "memory.max_usage_in_bytes"))
	if err != nil {
		return nil, err
	}
	var bytes float64
	fmt.Sscan(string(most), &bytes)
	u.MiB = bytes / (1 << 20)
	return u, nil
}
