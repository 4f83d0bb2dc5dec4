// Command bench runs a filled API server to try things on by hand, and measures the
// product beside whereabouts' own reconciler.
//
// "bench up [flags] <folder>" starts one, and runs it until it is interrupted. Its
// kubeconfig is <folder>/kubeconfig. "bench refill <folder>" makes everything as it
// was before a run freed what is stale. "bench measure [flags] <work>..." measures
// (all without a work), "bench list" lists the works, and "bench report <page>" writes
// the tables and charts of what was measured. All want to be run in e2e or below.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/ip-reconcile/ip-reconcile/e2e/bench"
	"github.com/ip-reconcile/ip-reconcile/e2e/bench/fill"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	args := append(os.Args[1:], "")
	err := errors.New("usage: bench up [flags] <folder> | bench refill <folder> | bench measure [flags] [<work>...] | bench report [flags] <page> | bench list")
	switch command, args := args[0], os.Args[min(2, len(os.Args)):]; {
	case command == "up":
		err = up(ctx, args)
	case command == "refill" && len(args) == 1:
		err = refill(ctx, args[0])
	case command == "measure":
		err = measure(ctx, args)
	case command == "report":
		err = report(args)
	case command == "list":
		err = nil
		for _, w := range append(bench.Works, bench.OneCore) {
			fmt.Println(w.Name)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// running is what refill has to know of the server that up runs.
type running struct {
	Etcd    fill.Etcd
	Content *fill.Content
}

func up(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("bench up", flag.ExitOnError)
	c := &fill.Content{Made: time.Now().UTC().Truncate(time.Second)}
	flags.IntVar(&c.Pods, "pods", 10000, "pods, each with an address")
	flags.IntVar(&c.Pending, "pending", 0, "how many of them are Pending and have no network status")
	flags.IntVar(&c.Stale, "stale", 500, "entries without a pod")
	flags.IntVar(&c.Pools, "pools", 2, "pools that the entries are spread over")
	flags.IntVar(&c.Nodes, "nodes", 0, "nodes (default one for 100 pods)")
	flags.BoolVar(&c.NoGrace, "no-grace", false, "have pods without a grace period, whose addresses are free as soon as they are deleted")
	flags.BoolVar(&c.Reports, "reports", false, "have SandboxReports and their Leases; without it the API serves none")
	flags.Parse(args)
	if flags.NArg() != 1 {
		return errors.New("name one folder, for the kubeconfig")
	}
	if c.Nodes == 0 {
		c.Nodes = max(1, c.Pods/100)
	}
	folder, err := filepath.Abs(flags.Arg(0))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	began := time.Now()
	server, err := bench.NewServer(ctx, c)
	if server != nil {
		defer func() { err = errors.Join(err, server.Close()) }()
	}
	if err != nil {
		return err
	}
	state, err := json.Marshal(running{fill.Etcd(server.EtcdServer()), c})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "bench.json"), state, 0o644); err != nil {
		return err
	}
	kubeconfig, err := os.ReadFile(server.Kubeconfig())
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "kubeconfig"), kubeconfig, 0o600); err != nil {
		return err
	}
	fmt.Printf("%d pods, %d entries in %d pools, %d of them stale, %d nodes: ready after %.1f s, until Ctrl-C.\n\n  %s run --confirm-after 0s --kubeconfig %s\n",
		c.Pods, c.Entries(), c.Pools, c.Stale, c.Nodes, time.Since(began).Seconds(), "ip-reconcile", filepath.Join(folder, "kubeconfig"))
	<-ctx.Done()
	return nil
}

func refill(ctx context.Context, folder string) error {
	state, err := os.ReadFile(filepath.Join(folder, "bench.json"))
	if err != nil {
		return fmt.Errorf("reading what runs (bench up writes it): %w", err)
	}
	var r running
	if err := json.Unmarshal(state, &r); err != nil {
		return fmt.Errorf("reading %s: %w", folder, err)
	}
	return r.Content.Refill(ctx, r.Etcd)
}

// open reads the flags that measure and report share, and the results so far.
func open(flags *flag.FlagSet, args []string) (b *bench.Bench, err error) {
	b = &bench.Bench{Log: os.Stderr}
	flags.StringVar(&b.Programs, "programs", "../bin", "folder with ip-reconcile, ip-reconciler, launch, upstream and lists")
	flags.StringVar(&b.Path, "results", "../bin/bench.json", "where results are kept; those measured again take the place of earlier ones")
	flags.Parse(args)
	if b.Programs, err = filepath.Abs(b.Programs); err != nil {
		return nil, err
	}
	b.Book, err = bench.OpenBook(b.Path)
	return b, err
}

func report(args []string) error {
	flags := flag.NewFlagSet("bench report", flag.ExitOnError)
	b, err := open(flags, args)
	if err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("name one page, such as ../docs/performance.md")
	}
	return bench.Report(b.Book, b.Programs, flags.Arg(0))
}

func measure(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("bench measure", flag.ExitOnError)
	runs := flags.Int("runs", 5, "how often each is measured, for the median")
	b, err := open(flags, args)
	if err != nil {
		return err
	}
	b.Runs = *runs
	wanted := flags.Args()
	for _, w := range append(bench.Works, bench.OneCore) {
		if slices.Contains(wanted, w.Name) || len(wanted) == 0 && w.Name != bench.OneCore.Name {
			if err := w.Do(ctx, b); err != nil {
				return fmt.Errorf("%s: %w", w.Name, err)
			}
		}
	}
	return nil
}
