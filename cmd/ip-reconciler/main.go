// Command ip-reconciler replaces whereabouts' program of that name, in manifests where only the image changes: the
// CronJob of v0.5 (doc/crds/ip-reconciler-job.yaml, cmd/reconciler/ip.go) and the Deployment of v0.9.4
// (doc/crds/reconciler-deployment.yaml, cmd/reconciler/main.go).
//
// With -kubeconfig or -timeout, or in the pod of a Job, it makes one pass. Otherwise it runs until it is terminated.
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

	"github.com/ip-reconcile/ip-reconcile/internal/cli/border"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/flags"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/memory"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/servecmd"
	"github.com/ip-reconcile/ip-reconcile/internal/version"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
	"github.com/ip-reconcile/ip-reconcile/reconciler/serve"
)

// The exit codes of v0.5 (cmd/reconciler/errors.go), and exitServing.
const (
	exitDone         = 0 // the pass released all that it should, or the program was terminated
	exitServing      = 1 // serving could not be set up, or lost its Lease
	exitNotObserved  = 2 // a flag is bad, or the cluster could not be read
	exitAllocations  = 3 // the pass failed to release allocations
	exitReservations = 4 // the pass failed to release reservations, and no allocations
)

func main() {
	flags.DropClientLogs()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	memory.KeepSmall(40)
	os.Exit(run(ctx, os.Args[1:], border.Writer(os.Stdout), border.Writer(os.Stderr)))
}

type command struct {
	servecmd.Options
	once bool // a flag of the one-shot form is given
	log  *slog.Logger
}

// levels are whereabouts' log levels (v0.9.4, pkg/logging/logging.go) and two more, with their values of --log-level.
// panic is the highest level of whereabouts; here it logs nothing.
var levels = map[string]string{"debug": "debug", "verbose": "info", "info": "info", "warn": "warn", "error": "error",
	"panic": "error+4"}

// parse parses the flags of whereabouts v0.5.4 (cmd/reconciler/ip.go), of which v0.9.4 has only -log-level, and the
// additional -trust-network-status. It returns the options of serve, or nil if the program ends with the code.
func parse(args []string, stdout, stderr io.Writer) (given *command, code int) {
	f := flag.NewFlagSet("ip-reconciler", flag.ContinueOnError)
	f.SetOutput(stderr)
	kubeconfig := f.String("kubeconfig", "", "make one pass, with this kubeconfig file; empty: with the pod's own account")
	level := f.String("log-level", "debug", "debug, verbose, info, warn, error or panic")
	timeout := f.Int("timeout", 30, "make one pass; the limit of each of its requests, in seconds")
	printVersion := f.Bool("version", false, "print the version and end")
	trust := f.Bool("trust-network-status", false,
		"release an address that the running pod's network-status lacks, as whereabouts does; "+
			"whoever may edit a pod can then have its address assigned to another pod while it is in use")
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil, exitDone
	case err != nil:
		return nil, exitNotObserved
	case f.NArg() > 0: // flags behind it would be ignored, and "-trust-network-status false" would mean true
		fmt.Fprintf(stderr, "%q is no flag: ip-reconciler takes no arguments; write a value as -flag=value\n", f.Arg(0))
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
		// The ClusterRole of whereabouts forbids reading namespaces.
		"--without-pause",
		"--metrics-bind-address=0", "--health-probe-bind-address=0", // whereabouts' program listens nowhere
	})
	log, logErr := given.Logger(stderr)
	if err := errors.Join(err, logErr); err != nil {
		fmt.Fprintln(stderr, err)
		return nil, exitNotObserved
	}
	given.log = log
	if known == "" {
		log.Warn("Unknown -log-level, using debug: must be debug, verbose, info, warn, error or panic", "level", *level)
	}
	return given, exitDone
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	given, code := parse(args, stdout, stderr)
	if given == nil {
		return code
	}
	r, cluster, _, err := given.Connect("reconciler", given.log)
	if err == nil && !given.once {
		given.once, err = ownedByJob(ctx, cluster, given.log)
	}
	switch {
	case ctx.Err() != nil:
		return exitDone
	case err != nil:
		given.log.Error("reconciler run failed", "error", err)
		return exitNotObserved
	case given.once:
		trail, err := given.Trail(cluster, "ip-reconciler", given.log, func(int) {})
		if err != nil {
			given.log.Error("reconciler run failed", "error", err)
			return exitNotObserved
		}
		defer trail.Start()()
		r.OnOutcome = trail.Record
		return makePass(ctx, r)
	}
	if err := given.Run(ctx, given.log); err != nil {
		given.log.Error("Stopped serving", "error", err)
		return exitServing
	}
	given.log.Info("Shutting down")
	return exitDone
}

// ownedByJob reports whether a Job runs this pod: the CronJob of whereabouts v0.5.4 has the same flags as the
// Deployment. An error ends the program, and kubelet restarts it. If the pod is unknown, for example on the host's
// network, the program serves: a Job then does its work, too, but does not end.
func ownedByJob(ctx context.Context, cluster *kube.Cluster, log *slog.Logger) (bool, error) {
	// The pod may be in another namespace than WHEREABOUTS_NAMESPACE.
	pod := types.NamespacedName{Namespace: new(flags.Common).Namespace(), Name: cluster.Pod}
	job, there, err := cluster.OwnedByJob(ctx, pod)
	switch {
	case err != nil:
		err = fmt.Errorf("find out whether a Job runs this pod: %w", err)
	case !there:
		log.Warn("Own pod not found, serving as a Deployment; in a Job give -timeout 30, or POD_NAME", "pod", pod)
	}
	return job, err
}

func makePass(ctx context.Context, r *reconciler.Reconciler) (code int) {
	serve.Once(r.Log, func() (*reconciler.Result, error) {
		out, err := r.Run(ctx)
		switch {
		case ctx.Err() != nil:
			code, err = exitDone, errors.New("terminated")
		case err != nil:
			code = exitNotObserved
		default:
			code, err = exitCode(out)
		}
		return out, err
	})
	return code
}

// exitCode returns the exit code of a pass. Items that are paused, or that wait for the agents after an etcd restore,
// are no failure, nor are those that appeared while the pass waited for others. An unconfirmed item has a time of
// confirmation only if the cluster became unreadable.
func exitCode(out *reconciler.Result) (code int, err error) {
	count := map[int]int{}
	for _, x := range out.Refused {
		switch {
		case x.Why == plan.Paused || x.Why == plan.EtcdRestored:
		case x.Why == plan.AwaitingConfirmation && x.Gate.At.IsZero():
		case x.Why == plan.AwaitingConfirmation:
			count[exitNotObserved]++
		case x.Allocation != nil:
			count[exitAllocations]++
		default:
			count[exitReservations]++
		}
	}
	for _, code := range []int{exitAllocations, exitReservations} {
		if count[code] > 0 {
			return code, fmt.Errorf("%d allocations and %d reservations are stale and could not be released",
				count[exitAllocations], count[exitReservations])
		}
	}
	if n := count[exitNotObserved]; n > 0 {
		return exitNotObserved, fmt.Errorf("%d allocations and reservations are unconfirmed, and the cluster could not be "+
			"read any more", n)
	}
	return exitDone, nil
}
