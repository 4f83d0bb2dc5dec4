package statuscmd

import (
	"cmp"
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
	"github.com/ip-reconcile/ip-reconcile/reconciler/schedule"
)

const (
	// leaderGone is how old a renewal of the Lease may be. Another replica takes the Lease after 15 s.
	leaderGone = 60 * time.Second
	// late is how late a pass may be.
	late = 5 * time.Minute
	// lateJob is late for a CronJob. Its Job waits for confirmations, for an hour at most (activeDeadlineSeconds in
	// deploy/cronjob).
	lateJob = 80 * time.Minute
)

func (p *Probe) reconciler(context.Context) (line, error) {
	own := p.own
	switch {
	case own == nil && p.unlisted != nil:
		return line{}, p.unlisted
	case own == nil && len(p.reconcilers()) > 0:
		return warn(listReconcilers, "The reconciler is in another namespace than %s: name it with --reconciler-namespace.",
			p.namespace)
	case own == nil:
		return warn("helm install ip-reconcile deploy/helm/ip-reconcile -n "+p.namespace+
			" --set image.repository=IMAGE_REPOSITORY",
			"No Deployment or CronJob of ip-reconcile exists. Only commands by hand release addresses.")
	case own.Kind == "CronJob" && own.Suspended:
		return fail(kubectl(own.Namespace, `patch cronjob %s -p '{"spec":{"suspend":false}}'`, own.Name),
			"%s is suspended. Nothing is released.", own)
	case own.Kind == "CronJob":
		return ok("%s has the schedule %q.", own, own.Schedule)
	case own.Wanted == 0:
		return fail(own.do("scale", "--replicas=2"), "%s is scaled to 0 replicas. Nothing is released.", own)
	case own.Ready == 0:
		return fail(own.pods(), "%s has 0 of %d replicas ready. Nothing is released.", own, own.Wanted)
	case own.Ready < own.Wanted:
		return warn(own.pods(), "%s has %d of %d replicas ready.", own, own.Ready, own.Wanted)
	}
	return ok("%s has %d of %d replicas ready.", own, own.Ready, own.Wanted)
}

func (p *Probe) leader(ctx context.Context) (line, error) {
	if p.own.Kind != "Deployment" || p.own.argument("--leader-elect") == "false" {
		return line{}, nil
	}
	lease, err := p.lease(ctx, kube.OwnLease)
	if err != nil {
		return line{}, err
	}
	holder, since := ptr.Deref(lease.Spec.HolderIdentity, ""), p.Now.Sub(renewTime(lease))
	switch {
	case holder == "":
		return fail(p.own.logs(), "Lease %s/%s has no holder. Nothing is released.", p.namespace, kube.OwnLease)
	case since > leaderGone:
		return fail(p.own.logs(), "The lease holder %s has not renewed Lease %s/%s for %s. Nothing is released.",
			holder, p.namespace, kube.OwnLease, ago(since))
	}
	return ok("%s is the lease holder since %s.", holder, clock(ptr.Deref(lease.Spec.AcquireTime,
		metav1.MicroTime{}).Time))
}

func (p *Probe) lastPass(ctx context.Context) (line, error) {
	lease, err := p.lease(ctx, kube.PassLease)
	if err != nil {
		return line{}, err
	}
	last, err := reconciler.ReadPass(lease.Annotations[kube.PassAnnotation])
	switch {
	case err != nil:
		return warn(kubectl(p.namespace, "delete lease %s", kube.PassLease), "The last pass is unknown: %v.", err)
	case last == nil:
		return unknown("No pass is recorded. No pass has ended yet, or the reconciler cannot write Lease %s/%s.", p.namespace,
			kube.PassLease)
	case last.Result == reconciler.PassFailed:
		before := "no earlier pass has succeeded"
		if !last.Succeeded.IsZero() {
			before = "the last success was at " + clock(last.Succeeded)
		}
		return fail(p.own.logs(), "The pass at %s failed (%s); %s.", clock(last.At), last.Message, before)
	}
	mayBeLate := late
	if p.own.Kind == "CronJob" {
		mayBeLate = lateJob
	}
	since := ago(p.Now.Sub(last.Succeeded))
	text := fmt.Sprintf("The last pass succeeded %s ago (it took %s and released %d)", since, last.Took, last.Released)
	due, err := schedule.Next(cmp.Or(p.own.Schedule, last.Schedule), last.Succeeded)
	switch {
	case err == nil && p.Now.Sub(due) > mayBeLate:
		return fail(p.own.logs(), "The last pass was %s ago, at %s. The next is overdue since %s.", since,
			clock(last.Succeeded), clock(due))
	case last.Refused[reconciler.Breaker] > 0:
		return fail("ip-reconcile run --dry-run",
			"The breaker refused %d unconfirmed releases in the last pass, more than half of all allocations. "+
				"If the verdicts are right, use run --allow-mass-release.", last.Refused[reconciler.Breaker])
	case err != nil: // an older version has not recorded its schedule
		return ok("%s.", text)
	}
	return ok("%s. The next is due at %s.", text, clock(due))
}

func (p *Probe) versions(context.Context) (line, error) {
	reconciler, agents := p.own.version(), "none"
	tags := []string{reconciler, p.Version}
	for _, w := range p.daemonSets() {
		agents = w.version()
		tags = append(tags, agents)
	}
	known := sets.New[string]()
	for _, tag := range tags {
		if v, err := version.ParseGeneric(tag); err == nil { // "devel" is none
			known.Insert(v.String())
		}
	}
	text := fmt.Sprintf("The reconciler is version %s, the agents %s, this command %s", cmp.Or(reconciler, "unknown"),
		cmp.Or(agents, "unknown"), p.Version)
	if known.Len() > 1 {
		return warn(p.own.do("get", "-o wide"),
			"%s. They may judge differently, and the reconciler ignores reports of newer agents.", text)
	}
	return ok("%s.", text)
}
