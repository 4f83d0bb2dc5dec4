// Command ip-reconciler takes the place of whereabouts' program of that name,
// with nothing but the image changed: that of the CronJob of v0.5
// (doc/crds/ip-reconciler-job.yaml, cmd/reconciler/ip.go) and that of the
// Deployment of v0.9.4 (doc/crds/reconciler-deployment.yaml, cmd/reconciler/main.go).
//
// It makes one pass where -kubeconfig or -timeout is given or a Job owns its pod, and else runs until it is terminated.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/flags"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/memory"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/servecmd"
	"github.com/ip-reconcile/ip-reconcile/internal/version"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
	"github.com/ip-reconcile/ip-reconcile/reconciler/serve"
)

// The exit codes of v0.5 (cmd/reconciler/errors.go), and exitServing.
const (
	exitDone         = 0 // the pass left nothing that it should have released, or it was told to end
	exitServing      = 1 // serving could not be set up, or has lost its Lease
	exitNotObserved  = 2 // a flag is bad, or the cluster could not be read
	exitAllocations  = 3 // the pass failed to release allocations
	exitReservations = 4 // the pass failed to release reservations, and no allocations
)

func main() {
	flags.DropClientLogs()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	memory.KeepSmall(40)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// command is what the command line says: the options of `ip-reconcile serve`, with its defaults.
type command struct {
	servecmd.Options
	once bool // a flag that only the one-shot form had is given
	log  *slog.Logger
}

// levels are whereabouts' log levels (v0.9.4, pkg/logging/logging.go) as --log-level takes them, with two
// of ours. In whereabouts nothing is more urgent than panic, and little is said there; here nothing.
var levels = map[string]string{"debug": "debug", "verbose": "info", "info": "info", "warn": "warn", "error": "error", "panic": "error+4"}

// parse reads the flags of whereabouts v0.5.4 (cmd/reconciler/ip.go), of which v0.9.4 has -log-level only, and
// -trust-network-status, which is ours, and makes of them those of serve. Where it returns nil the program ends with the code.
func parse(args []string, stdout, stderr io.Writer) (given *command, code int) {
	f := flag.NewFlagSet("ip-reconciler", flag.ContinueOnError)
	f.SetOutput(stderr)
	kubeconfig := f.String("kubeconfig", "", "make one pass, with this kubeconfig file; empty: with the pod's own account")
	level := f.String("log-level", "debug", "debug, verbose, info, warn, error or panic")
	timeout := f.Int("timeout", 30, "make one pass; the limit of each of its requests, in seconds")
	printVersion := f.Bool("version", false, "print the version and end")
	trust := f.Bool("trust-network-status", false, "release what the network-status of a running pod lacks, as whereabouts does: whoever may edit a pod can then have its address assigned to another while it is in use")
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil, exitDone
	case err != nil:
		return nil, exitNotObserved
	case *timeout <= 0:
		fmt.Fprintf(stderr, "-timeout %d: must be above zero\n", *timeout)
		return nil, exitNotObserved
	case *printVersion:
		fmt.Fprintln(stdout, "ip-reconciler version", version.Get())
		return nil, exitDone
	}
	given = &command{}
	f.Visit(func(f *flag.Flag) { given.once = given.once || f.Name == "kubeconfig" || f.Name == "timeout" })
	known := levels[strings.ToLower(*level)]
	ours := pflag.NewFlagSet("", pflag.ContinueOnError)
	given.Add(ours, cmp.Or(known, "debug"))
	err := ours.Parse([]string{
		"--kubeconfig=" + *kubeconfig,
		// WHEREABOUTS_NAMESPACE is the pod's own namespace in whereabouts' manifests; its programs keep
		// their pools and Leases there (v0.9.4, pkg/controlloop/pod.go: ipPoolsNamespace).
		"--reconciler-namespace=" + os.Getenv("WHEREABOUTS_NAMESPACE"),
		fmt.Sprintf("--request-timeout=%ds", *timeout),
		fmt.Sprintf("--trust-network-status=%v", *trust),
		"--without-pause",                                           // whereabouts' own ClusterRole has no right to namespaces
		"--metrics-bind-address=0", "--health-probe-bind-address=0", // whereabouts' program listens nowhere
	})
	log, logErr := given.Logger(stderr)
	if err := errors.Join(err, logErr); err != nil {
		fmt.Fprintln(stderr, err)
		return nil, exitNotObserved
	}
	given.log = log
	if known == "" {
		log.Warn("-log-level " + *level + " is not known: it is debug, verbose, info, warn, error or panic; taken for debug")
	}
	return given, exitDone
}

// run is the program; it logs to stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	given, code := parse(args, stdout, stderr)
	if given == nil {
		return code
	}
	cluster, _, err := given.Connect("reconciler", given.log)
	once := given.once
	if err == nil && !once {
		once, err = ownedByJob(ctx, cluster, given.log)
	}
	switch {
	case ctx.Err() != nil:
		return exitDone
	case err != nil:
		given.log.Error("reconciler run failed", "error", err)
		return exitNotObserved
	case once:
		r, err := given.Reconciler(given.log)
		if err != nil {
			given.log.Error("reconciler run failed", "error", err)
			return exitNotObserved
		}
		r.Source, r.Writer, r.BreakerStore, r.RestoreStore, r.PassStore = cluster, cluster, cluster.BreakerStore(), cluster.RestoreStore(), cluster.PassStore()
		return makePass(ctx, r)
	}
	if err := given.Run(ctx, given.log); err != nil {
		given.log.Error("the reconciler ends: " + err.Error())
		return exitServing
	}
	given.log.Info("shutting down reconciler")
	return exitDone
}

// ownedByJob reports whether a Job runs this pod: the CronJob of whereabouts v0.5.4 gives no flag that tells it from the
// Deployment. An error ends the program, and whatever started it starts it again. Where there is no such pod, as on the
// host's network, the program serves: a Job that this keeps from ending still does its work.
func ownedByJob(ctx context.Context, cluster *kube.Cluster, log *slog.Logger) (bool, error) {
	// Not in WHEREABOUTS_NAMESPACE, which may be another.
	pod := types.NamespacedName{Namespace: new(flags.Common).Namespace(), Name: cluster.Pod}
	job, there, err := cluster.OwnedByJob(ctx, pod)
	switch {
	case err != nil:
		err = fmt.Errorf("it cannot be told whether a Job runs this pod: %w", err)
	case !there:
		log.Warn("there is no pod of this name, so that it cannot be seen whether a Job runs it: taken for a Deployment's. In a Job give -timeout 30, or POD_NAME", "pod", pod)
	}
	return job, err
}

// makePass makes one pass, which waits for what is not confirmed.
func makePass(ctx context.Context, r *reconciler.Reconciler) (code int) {
	serve.Once(r.Log, func() (*reconciler.Result, error) {
		out, err := r.Run(ctx)
		switch {
		case ctx.Err() != nil:
			code, err = exitDone, errors.New("it was told to end")
		case err != nil:
			code = exitNotObserved
		default:
			code, err = exitCode(out)
		}
		return out, err
	})
	return code
}

// exitCode says what a pass came to. What an operator has paused, and what waits for the agents after a restore of etcd,
// is no failure. A pass waits until nothing is unconfirmed, unless the cluster cannot be observed any more.
func exitCode(out *reconciler.Result) (code int, err error) {
	count := map[int]int{}
	for _, x := range out.Refused {
		switch {
		case x.Why == reconciler.Paused || x.Why == reconciler.EtcdRestored:
		case x.Why == reconciler.AwaitingConfirmation:
			count[exitNotObserved]++
		case x.Allocation != nil:
			count[exitAllocations]++
		default:
			count[exitReservations]++
		}
	}
	for _, code := range []int{exitAllocations, exitReservations} {
		if count[code] > 0 {
			return code, fmt.Errorf("%d allocations and %d reservations are stale and could not be freed", count[exitAllocations], count[exitReservations])
		}
	}
	if n := count[exitNotObserved]; n > 0 {
		return exitNotObserved, fmt.Errorf("%d allocations and reservations seem stale, and the cluster could not be read until that was confirmed", n)
	}
	return exitDone, nil
}
