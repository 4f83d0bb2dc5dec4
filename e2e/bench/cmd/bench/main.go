// Command bench measures the product beside whereabouts' own reconciler, on a filled API server.
//
// "bench measure [flags] <work>..." measures (all without a work), "bench list" lists the works, and
// "bench report <page>" writes the tables of what was measured. All want to be run in e2e or below.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/ip-reconcile/ip-reconcile/e2e/bench"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	args := append(os.Args[1:], "")
	err := errors.New("usage: bench measure [flags] [<work>...] | bench report [flags] <page> | bench list")
	switch command, args := args[0], os.Args[min(2, len(os.Args)):]; {
	case command == "measure":
		err = measure(ctx, args)
	case command == "report":
		err = report(args)
	case command == "list":
		err = nil
		for _, w := range bench.Works {
			fmt.Println(w.Name)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// open reads the flags that measure and report share, and the results so far.
func open(flags *flag.FlagSet, args []string) (b *bench.Bench, err error) {
	b = &bench.Bench{Log: os.Stderr}
	flags.StringVar(&b.Programs, "programs", "../bin",
		"folder with ip-reconcile, ip-reconciler, launch, upstream and lists")
	flags.StringVar(&b.Path, "results", "../bin/bench.json",
		"where results are kept; those measured again take the place of earlier ones")
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
		return errors.New("name one page, such as ../docs/explain/performance.md")
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
	for _, w := range bench.Works {
		if slices.Contains(wanted, w.Name) || len(wanted) == 0 {
			if err := w.Do(ctx, b); err != nil {
				return fmt.Errorf("%s: %w", w.Name, err)
			}
		}
	}
	return nil
}
