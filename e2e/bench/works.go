package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

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
	{"1000", size(1000, 1)},
	{"5000", size(5000, 1)},
	{"10000", size(10000, 2)},
	{"10000-slow", func(ctx context.Context, b *Bench) error {
		return b.With(ctx, main10000(), func(s *Server) error {
			return b.Releases(ctx, s, "run-10000-slow", 50*time.Millisecond, min(b.Runs, 3), Ours, Upstream)
		})
	}},
	{"10000-shipped", func(ctx context.Context, b *Bench) error {
		return b.With(ctx, main10000(), func(s *Server) error {
			return b.Releases(ctx, s, "run-10000", 0, 1, Shipped)
		})
	}},
	{"10000-5000", func(ctx context.Context, b *Bench) error {
		return b.With(ctx, &fill.Content{Pods: 10000, Stale: 5000, Pools: 3}, func(s *Server) error {
			return b.Releases(ctx, s, "run-10000-5000", 0, min(b.Runs, 3), Ours, Upstream)
		})
	}},
	{"10000-snapshot", func(ctx context.Context, b *Bench) error {
		return b.With(ctx, main10000(), func(s *Server) error { return b.Snapshots(ctx, s) })
	}},
	{"adds", Adds},
	{"latency", Latency(false, 2)},
	{"latency-reports", Latency(true, 2)},
	{"latency-small-pools", Latency(true, 40)},
	{"traffic", Traffic},
	{"drop-in", Small},
	{"25000", size(25000, 6)},
	{"50000", size(50000, 12)},
	{"100000", func(ctx context.Context, b *Bench) error { // upstream's takes half an hour
		return b.With(ctx, &fill.Content{Pods: 100_000, Stale: 5000, Pools: 24}, func(s *Server) error {
			if err := b.Checks(ctx, s, "check-100000", 1, Ours, Lists); err != nil {
				return err
			}
			if err := b.Releases(ctx, s, "run-100000", 0, 1, Ours); err != nil {
				return err
			}
			return b.Serve(ctx, s, "serve-100000")
		})
	}},
}

// OneCore runs in a process of its own that has only one core, together with the API server.
var OneCore = Work{"one-core", func(ctx context.Context, b *Bench) error {
	return b.With(ctx, main10000(), func(s *Server) error {
		return b.Releases(ctx, s, "run-10000-one-core", 0, min(b.Runs, 3), Ours, Upstream)
	})
}}

func main10000() *fill.Content { return &fill.Content{Pods: 10000, Stale: 500, Pools: 2} }

// size is a judgement and a release with one in twenty stale.
func size(pods, pools int) func(context.Context, *Bench) error {
	return func(ctx context.Context, b *Bench) error {
		return b.With(ctx, &fill.Content{Pods: pods, Stale: pods / 20, Pools: pools}, func(s *Server) error {
			runs := b.Runs
			if pods > 10000 {
				runs = min(runs, 3)
			}
			if err := b.Checks(ctx, s, fmt.Sprint("check-", pods), runs, Ours, Lists, PlainLists, Upstream); err != nil {
				return err
			}
			if err := b.Releases(ctx, s, fmt.Sprint("run-", pods), 0, runs, Ours, Upstream); err != nil {
				return err
			}
			return b.Serve(ctx, s, fmt.Sprint("serve-", pods))
		})
	}
}

// Snapshots measures checks of the same cluster in files.
func (b *Bench) Snapshots(ctx context.Context, s *Server) error {
	for _, format := range []string{"json", "yaml"} {
		folder, err := os.MkdirTemp("", "bench-snapshot")
		if err != nil {
			return err
		}
		defer os.RemoveAll(folder)
		out, errs, err := s.Kubectl(ctx, "get",
			"ippools.whereabouts.cni.cncf.io,overlappingrangeipreservations.whereabouts.cni.cncf.io,pods,nodes,net-attach-def",
			"-A", "-o", format, "--chunk-size=500")
		if err != nil {
			return fmt.Errorf("kubectl get: %w: %s", err, errs)
		}
		if err := os.WriteFile(filepath.Join(folder, "cluster."+format), []byte(out), 0o644); err != nil {
			return err
		}
		r := &Result{Work: "snapshot-" + format, Who: Ours, Pods: s.Content.Pods}
		for range b.Runs {
			u, err := b.run(ctx, b.program("ip-reconcile"), "check", "--snapshot", folder, "--now",
				time.Now().UTC().Format(time.RFC3339))
			if err != nil {
				return err
			}
			if u.Code > 1 {
				return fmt.Errorf("check --snapshot failed: %s", u.Output)
			}
			r.Runs = append(r.Runs, u)
		}
		if err := b.put(r); err != nil {
			return err
		}
	}
	return nil
}
