package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/e2e/bench/fill"
	"github.com/ip-reconcile/ip-reconcile/e2e/bench/used"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// The counted periods: the start, an idle period, and one in which pods and a pool change.
const (
	TrafficStart = "traffic-start"
	TrafficRest  = "traffic-rest"
	TrafficChurn = "traffic-churn"
	ControlLoop  = "control-loop" // of one of upstream's control loops, which every node has
)

const (
	restPeriod  = 3 * time.Minute
	churnPeriod = 2 * time.Minute
	poolPause   = 5 * time.Second // between two changes of a pool
)

// Traffic counts the requests and bytes of serve, and of one of upstream's control loops under the same events.
func Traffic(ctx context.Context, b *Bench) error {
	return b.With(ctx, main10000(), func(s *Server) error {
		ours, err := NewProxy(s.Config())
		if err != nil {
			return err
		}
		defer ours.Close()
		theirs, err := newTLSProxy(s.Config())
		if err != nil {
			return err
		}
		defer theirs.Close()
		stop, err := startControlLoop(ctx, theirs, fill.NodeName(0))
		if err != nil {
			return err
		}
		defer stop()
		p, err := b.StartServe(ctx, ours.Kubeconfig(), "--confirm-after", "24h", "--leader-elect=true", "--repair")
		if err != nil {
			return err
		}
		defer p.Stop()
		time.Sleep(10 * time.Second) // all that a start causes
		take := func(work string, began time.Time) error {
			seconds := time.Since(began).Seconds()
			for _, one := range []struct {
				who string
				Counts
			}{{Ours, ours.Take()}, {ControlLoop, theirs.Take()}} {
				r := &Result{Work: work, Who: one.who, Pods: s.Content.Pods, Requests: one.Requests, Bytes: one.Bytes,
					Runs: []*used.Used{{Seconds: seconds}}}
				if err := b.put(r); err != nil {
					return err
				}
				fmt.Fprintf(b.Log, "  %v, %d bytes\n", one.Requests, one.Bytes)
			}
			return nil
		}
		began := time.Now()
		if err := take(TrafficStart, began); err != nil {
			return err
		}
		time.Sleep(restPeriod)
		if err := take(TrafficRest, began); err != nil {
			return err
		}
		began = time.Now()
		end := s.Churn(ctx, churnSecond)
		for i := 0; time.Since(began) < churnPeriod; i++ {
			if err := s.changePool(ctx, i%2 == 0); err != nil {
				return err
			}
			time.Sleep(poolPause)
		}
		rate, err := end()
		fmt.Fprintf(b.Log, "%.0f pods changed a second, and a pool every %s\n", rate, poolPause)
		return errors.Join(err, take(TrafficChurn, began))
	})
}

// changePool adds an entry as an ADD does, or removes it as a DEL does.
func (s *Server) changePool(ctx context.Context, add bool) error {
	patch := `[{"op":"remove","path":"/spec/allocations/60000"}]`
	if add {
		patch = `[{"op":"add","path":"/spec/allocations/60000","value":{"id":"` + strings.Repeat("f", 64) +
			`","podref":"default/churn","ifname":"net1"}}]`
	}
	_, err := s.Dynamic().Resource(harness.IPPools).Namespace(metav1.NamespaceSystem).
		Patch(ctx, fill.PoolName(0), types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// startControlLoop starts upstream's control loop of a node.
func startControlLoop(ctx context.Context, p *Proxy, node string) (stop func(), err error) {
	programs, err := harness.UpstreamPrograms()
	if err != nil {
		return nil, err
	}
	root, err := os.MkdirTemp("", "bench-control-loop")
	if err != nil {
		return nil, err
	}
	program, err := os.ReadFile(filepath.Join(programs, "ip-control-loop"))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(root, "ip-control-loop"), program, 0o755); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "/ip-control-loop", "-log-level", "error")
	if cmd.Env, err = p.inCluster(root); err != nil {
		return nil, err
	}
	cmd.Env = append(cmd.Env, "NODENAME="+node)
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Chroot: root, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting upstream's control loop: %w", err)
	}
	return func() {
		cmd.Process.Kill()
		cmd.Wait()
		os.RemoveAll(root)
	}, nil
}

func trafficTable(b *Book, _ string) string {
	s := head("", "requests an hour", "MiB an hour", "seen in")
	for _, period := range []struct{ name, work string }{
		{"at rest", TrafficRest}, {fmt.Sprintf("%d pods changing a second, and a pool every %.0f s", churnSecond,
			poolPause.Seconds()), TrafficChurn},
	} {
		for _, who := range []struct{ name, who string }{{"`serve`", Ours}, {"a control loop", ControlLoop}} {
			r := b.Get(period.work, who.who)
			if r == nil {
				continue
			}
			hours := r.Runs[0].Seconds / 3600
			s += row(period.name+": "+who.name, grouped(float64(Counts{Requests: r.Requests}.Total())/hours),
				grouped(float64(int(float64(r.Bytes)/(1<<20)/hours*10))/10), fmt.Sprintf("%.0f s", r.Runs[0].Seconds))
		}
	}
	return s
}
