// Command ip-reconciler takes the place of whereabouts' program of that name,
// with nothing but the image changed: that of the CronJob of v0.5
// (doc/crds/ip-reconciler-job.yaml, cmd/reconciler/ip.go) and that of the
// Deployment of v0.9.4 (doc/crds/reconciler-deployment.yaml, cmd/reconciler/main.go).
//
// It makes one pass where -kubeconfig or -timeout is given or a Job owns its pod,
// and else runs until it is told to end. Exit codes:
//
//	0  the pass left nothing that it should have freed, or it was told to end
//	1  the long-running form could not be set up, or has lost its Lease
//	2  a flag is bad, or the cluster could not be read
//	3  the pass failed to free allocations
//	4  the pass failed to free reservations, and no allocations
//
// 2 to 4 are those of v0.5 (cmd/reconciler/errors.go). v0.9.4 has 1 to 3 for a
// scheduler, a file watch or a schedule that cannot be made: the first two are
// 1 here, the third ends nothing.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/flags"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/memory"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/servecmd"
	"github.com/ip-reconcile/ip-reconcile/internal/version"
)

const (
	exitDone         = 0
	exitServing      = 1
	exitNotObserved  = 2
	exitAllocations  = 3
	exitReservations = 4
)

func main() {
	flags.DropClientLogs()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// What is read around each page by default is more than whereabouts' 50Mi leave
	// beside the heap.
	memory.ReadFileSparsely()
	memory.KeepDroppingFilePages()
	memory.Bound(40, 0)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program; it logs to stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	given, code := parse(args, stderr)
	if given == nil {
		return code
	}
	if given.version {
		fmt.Fprintln(stdout, "ip-reconciler version", version.Get())
		return exitDone
	}
	options, log, err := given.options(stderr)
	if err != nil {
		slog.New(slog.NewTextHandler(stderr, nil)).Error(err.Error())
		return exitNotObserved
	}
	if given.badLevel != "" {
		log.Warn("-log-level " + given.badLevel + " is not known: it is debug, verbose, info, warn, error or panic; taken for debug")
	}
	cluster, _, err := options.Connect("reconciler", log)
	if err != nil {
		log.Error("reconciler run failed: " + err.Error())
		return exitNotObserved
	}
	once := given.once
	if !once {
		once, err = ownedByJob(ctx, cluster, log)
	}
	switch {
	case ctx.Err() != nil:
		return exitDone
	case err != nil:
		log.Error("reconciler run failed: it cannot be told whether a Job runs this pod: " + err.Error())
		return exitNotObserved
	case once:
		return onePass(ctx, options, cluster, log)
	}
	return serveOn(ctx, options, log)
}

// serveOn is the long-running form.
func serveOn(ctx context.Context, options *servecmd.Options, log *slog.Logger) int {
	options.Metrics = freeOrNone(log, "metrics", options.Metrics)
	options.Health = freeOrNone(log, "probes", options.Health)
	if err := options.Run(ctx, log); err != nil {
		log.Error("the reconciler ends: " + err.Error())
		return exitServing
	}
	log.Info("shutting down reconciler")
	return exitDone
}
