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
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/flags"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/memory"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
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
	given, code := parse(args, stdout, stderr)
	if given == nil {
		return code
	}
	log := given.log
	cluster, _, err := given.Connect("reconciler", log)
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
		return onePass(ctx, given, cluster)
	}
	given.Metrics, given.Health = freeOrNone(log, "metrics", given.Metrics), freeOrNone(log, "probes", given.Health)
	if err := given.Run(ctx, log); err != nil {
		log.Error("the reconciler ends: " + err.Error())
		return exitServing
	}
	log.Info("shutting down reconciler")
	return exitDone
}

// ownedByJob reports whether a Job runs this pod: the CronJob of whereabouts v0.5.4
// gives no flag that tells it from the Deployment.
//
// An error, a 403 too, ends the program: whoever may not or cannot list pods can
// judge nothing in either form, and what started it starts it again. Taken for a
// Deployment's, a Job's pod would stand in the way of all later ones; taken for a
// Job's, a Deployment's would end for no reason.
//
// Where there is no such pod, as on the host's network, the long-running form is
// right: of those that are started without flags it is today's, and a Job that it
// keeps from ending still does its work.
func ownedByJob(ctx context.Context, cluster *kube.Cluster, log *slog.Logger) (bool, error) {
	// Not in WHEREABOUTS_NAMESPACE, which may be another.
	pod := types.NamespacedName{Namespace: new(flags.Common).Namespace(), Name: cluster.Pod}
	job, there, err := cluster.OwnedByJob(ctx, pod)
	if err == nil && !there {
		log.Warn("there is no pod of this name, so that it cannot be seen whether a Job runs it: taken for a Deployment's. In a Job give -timeout 30, or POD_NAME", "pod", pod)
	}
	return job, err
}

// freeOrNone is the address, or "0" for none where somebody else listens at it:
// whereabouts' program listens nowhere, so that nobody has kept it free.
func freeOrNone(log *slog.Logger, what, address string) string {
	l, err := net.Listen("tcp", address)
	if err != nil {
		log.Warn("there are no "+what+": the address cannot be had", "address", address, "error", err)
		return "0"
	}
	_ = l.Close()
	return address
}
