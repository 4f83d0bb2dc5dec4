package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/ip-reconcile/ip-reconcile/e2e/bench/fill"
	"github.com/ip-reconcile/ip-reconcile/e2e/bench/used"
)

// whereaboutsLimit is the memory that whereabouts' Deployment gives its reconciler
// (v0.9.4, doc/crds/reconciler-deployment.yaml).
const whereaboutsLimit = 50 << 20

// Small measures one pass of the drop-in and of upstream's reconciler within that memory. Agents prove what is stale,
// so nothing waits.
func Small(ctx context.Context, b *Bench) error {
	return b.With(ctx, &fill.Content{Pods: 10000, Stale: 500, Pools: 2, Reports: true}, func(s *Server) error {
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
			r := &Result{Work: "drop-in-10000", Who: who, Pods: s.Content.Pods, Runs: []*used.Used{u}}
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
	})
}

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
