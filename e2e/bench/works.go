package bench

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"

	"github.com/ip-reconcile/ip-reconcile/e2e/bench/fill"
)

// A Work is a server and the measurements on it.
type Work struct {
	Name string
	Do   func(context.Context, *Bench) error
}

// Works are all works, in order of their duration.
var Works = []Work{
	{"empty", func(ctx context.Context, b *Bench) error {
		return b.With(ctx, &fill.Content{Nodes: 1}, func(s *Server) error {
			return b.Checks(ctx, s, "check-0", b.Runs, Ours, Lists, Upstream)
		})
	}},
	{"10000", size(10000, 2, 5, Upstream)},
	{"10000-5000", func(ctx context.Context, b *Bench) error {
		return b.With(ctx, &fill.Content{Pods: 10000, Stale: 5000, Pools: 3}, func(s *Server) error {
			return b.Releases(ctx, s, "run-10000-5000", min(b.Runs, 3), Ours, Upstream)
		})
	}},
	{"10000-busy", func(ctx context.Context, b *Bench) error {
		return b.With(ctx, main10000(), func(s *Server) error {
			return besideOthers(ctx, 2*runtime.NumCPU(), func() error {
				return b.Releases(ctx, s, "run-10000-busy", b.Runs, Ours, Upstream)
			})
		})
	}},
	{"adds", Adds},
	{"latency", Latency(false)},
	{"latency-reports", Latency(true)},
	{"traffic", Traffic},
	{"drop-in", Small},
	{"50000", size(50000, 12, 3, Upstream)},
	{"100000", size(100_000, 24, 1)}, // upstream's takes half an hour
}

func main10000() *fill.Content { return &fill.Content{Pods: 10000, Stale: 500, Pools: 2} }

// size is a judgement and a release with one in twenty stale, measured so often at most, beside others.
func size(pods, pools, most int, others ...string) func(context.Context, *Bench) error {
	return func(ctx context.Context, b *Bench) error {
		return b.With(ctx, &fill.Content{Pods: pods, Stale: pods / 20, Pools: pools}, func(s *Server) error {
			runs, all := min(b.Runs, most), append([]string{Ours, Lists, PlainLists}, others...)
			if err := b.Checks(ctx, s, fmt.Sprint("check-", pods), runs, all...); err != nil {
				return err
			}
			if err := b.Releases(ctx, s, fmt.Sprint("run-", pods), runs, append([]string{Ours}, others...)...); err != nil {
				return err
			}
			return b.Serve(ctx, s, fmt.Sprint("serve-", pods))
		})
	}
}

// besideOthers does something while so many other processes never wait.
func besideOthers(ctx context.Context, processes int, do func() error) error {
	ctx, end := context.WithCancel(ctx)
	var all []*exec.Cmd
	defer func() {
		end()
		for _, c := range all {
			_ = c.Wait() // it was killed
		}
	}()
	for range processes {
		c := exec.CommandContext(ctx, "sh", "-c", "while :; do :; done")
		if err := c.Start(); err != nil {
			return fmt.Errorf("starting a process that never waits: %w", err)
		}
		all = append(all, c)
	}
	return do()
}
