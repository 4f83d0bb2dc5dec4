package main

import (
	"context"
	"log/slog"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/flags"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// ownedByJob reports whether a Job runs this pod: the CronJob of whereabouts v0.5.4
// gives no flag that tells it from the Deployment.
//
// An error, a 403 too, ends the program: whoever may not or cannot list pods can
// judge nothing in either form, and what started it starts it again, when it may
// be answered. Taken for a Deployment's, a Job's pod would stand in the way of
// all later ones; taken for a Job's, a Deployment's would end for no reason.
//
// Where there is no such pod, as on the host's network, where the host name is
// not the pod's, the long-running form is right: of those that are started
// without flags it is today's, and a Job that it keeps from ending still does
// its work.
func ownedByJob(ctx context.Context, cluster *kube.Cluster, log *slog.Logger) (bool, error) {
	// Not in WHEREABOUTS_NAMESPACE, which may be another.
	pod := types.NamespacedName{Namespace: new(flags.Common).Namespace(), Name: cluster.Pod}
	job, there, err := cluster.OwnedByJob(ctx, pod)
	if err == nil && !there {
		log.Warn("there is no pod of this name, so that it cannot be seen whether a Job runs it: taken for a Deployment's. In a Job give -timeout 30, or POD_NAME", "pod", pod)
	}
	return job, err
}
