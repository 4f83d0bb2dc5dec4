package statuscmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/screen"
	build "github.com/ip-reconcile/ip-reconcile/internal/version"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
	"github.com/ip-reconcile/ip-reconcile/reconciler/schedule"
)

func (p *Probe) paused(ctx context.Context) (line, error) {
	if p.Observation.Paused {
		namespaces, own := corev1.SchemeGroupVersion.WithResource("namespaces"), types.NamespacedName{Name: p.namespace}
		what := "has the annotation, or cannot be read"
		if by := p.setBy(ctx, namespaces, own); by != "" {
			what = "has the annotation" + by
		}
		return warn(fmt.Sprintf("kubectl annotate namespace %s %s-", p.namespace, ippool.PausedAnnotation),
			"All releases are paused: namespace %s %s.", p.namespace, what)
	}
	var names []string
	next := ""
	for _, pool := range p.Observation.Pools {
		if pool.Paused {
			name := pool.Ref()
			if len(names) < pausesAsked {
				name += p.setBy(ctx, ippool.PoolResource, pool.NamespacedName)
			}
			names = append(names, name)
			next = commandOn("kubectl annotate ippools.whereabouts.cni.cncf.io -n %s %s "+ippool.PausedAnnotation+"-",
				pool.Namespace, pool.Name)
		}
	}
	if len(names) > 0 {
		return warn(next, "Releases are paused in %s: %s.", screen.Count(len(names), "pool"), few(names))
	}
	return ok("Nothing is paused.")
}

// pausesAsked is for how many pools it is asked who paused them.
const pausesAsked = 5

// setBy says which program set the annotation that pauses releases, and when, "" where that is unknown.
func (p *Probe) setBy(ctx context.Context, resource schema.GroupVersionResource, name types.NamespacedName) string {
	if p.annotated == nil {
		return ""
	}
	program, at, err := p.annotated(ctx, resource, name, ippool.PausedAnnotation)
	if err != nil || program == "" {
		return ""
	}
	return fmt.Sprintf(" (by %s since %s)", program, clock(at))
}

func (p *Probe) restore(context.Context) (line, error) {
	for _, g := range p.Plan.CommonGates {
		if g.Why == plan.EtcdRestored {
			return fail("ip-reconcile check", "Releases are paused: %s. See %s.", g.Detail,
				build.Page("operate/restore.md"))
		}
	}
	return ok("No etcd restore pauses releases.")
}

func (p *Probe) breaker(ctx context.Context) (line, error) {
	if p.Core == nil {
		return line{}, nil
	}
	lease, err := p.lease(ctx, kube.OwnLease)
	if err != nil {
		return line{}, err
	}
	switch s, err := plan.ReadBreaker(lease.Annotations[kube.ReleasedAnnotation], p.Now, p.Total); {
	case err != nil:
		return fail(kubectl(p.namespace, "annotate lease %s %s-", kube.OwnLease, kube.ReleasedAnnotation),
			"No unconfirmed address is released: %v.", err)
	case s.Refusal != "":
		return fail("ip-reconcile run --dry-run",
			"The breaker has tripped: %d unconfirmed releases within an hour, of %d allocations. "+
				"It refuses more until %s. Only --allow-mass-release overrides it.", s.Releases, s.Of, clock(s.Until))
	}
	return ok("The breaker has not tripped.")
}

func (p *Probe) stale(context.Context) (line, error) {
	if p.Unjudged != nil {
		return fail("ip-reconcile check", "Addresses cannot be judged: %v.", p.Unjudged)
	}
	in := fmt.Sprintf("%s in %s", screen.Count(p.Total, "allocation"), screen.Count(len(p.Observation.Pools), "pool"))
	count := map[plan.Refusal]int{}
	for _, x := range p.Plan.Refused {
		count[x.Why]++
	}
	var parts []string
	if n := len(p.Plan.Release); n > 0 {
		parts = append(parts, fmt.Sprintf("%d without a gate", n))
	}
	for _, why := range plan.Refusals() {
		if n := count[why]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, why))
		}
	}
	text := in + ": none is stale."
	if len(parts) > 0 {
		n := len(p.Plan.Release) + len(p.Plan.Refused)
		text = fmt.Sprintf("%s, %d of them stale: %s.", in, n, strings.Join(parts, ", "))
	}
	if sources := p.unknownSources(); sources != "" {
		return unknown("%s More may be stale: that rests on %s, which could not be read.", text, sources)
	}
	return ok("%s", text)
}

// unknownSources names the sources that could not be read and that something depends on, "" for none.
func (p *Probe) unknownSources() string {
	return strings.Join(lists.Map(p.Observation.UnknownSources(),
		func(s facts.SourceState) string { return string(s.Name) }), " and ")
}

// nearlyFull is the fill of a pool above which status warns, as the alert for nearly full pools does.
const nearlyFull = 0.9

func (p *Probe) fullPools(context.Context) (line, error) {
	var waited, full, unread []string
	pods := 0
	for _, pool := range p.pools.All {
		fill, isKnown := pool.Fill()
		switch {
		case len(pool.Waiting) > 0:
			waited = append(waited, pool.Ref())
			pods += len(pool.Waiting)
		case isKnown && fill > nearlyFull:
			full = append(full, fmt.Sprintf("%s (%.0f %%)", pool.Ref(), 100*fill))
		case pool.Unknown != "":
			unread = append(unread, pool.Ref()+" ("+pool.Unknown+")")
		case pool.FreeUnknown != "":
			unread = append(unread, pool.Ref()+" ("+pool.FreeUnknown+")")
		}
	}
	more := ""
	switch why := p.Observation.NADs.Why(); {
	case why != "":
		more = fmt.Sprintf(" How full pools are, and which pods wait for an address, is unknown: %s.", why)
	case len(unread) > 0:
		more = fmt.Sprintf(" How full these pools are, and which pods wait for them, is unknown: %s.", few(unread))
	}
	switch {
	case len(waited) > 0:
		return fail(commandOn("ip-reconcile pools %s", waited[0]), "%s cannot start: no free address in %s.%s",
			screen.Count(pods, "pod"), few(waited), more)
	case len(full) > 0:
		return warn("ip-reconcile pools", "%s nearly full: %s.%s", screen.Count(len(full), "pool"), few(full), more)
	case more != "":
		return unknown("%s", strings.TrimSpace(more))
	}
	return ok("No pod waits for an address, and no pool is nearly full.")
}

func (p *Probe) findings(context.Context) (line, error) {
	count, unlisted := map[findings.Kind]int{}, 0
	var holders []string
	for _, x := range p.Findings {
		if count[x.Kind] += x.Count(); x.IsRest() {
			unlisted += x.Count()
		}
		if x.Kind == findings.UnreadSandbox {
			holders = append(holders, strings.Join(x.Pods, " and ")+" on "+x.Node)
		}
	}
	say, unknownKinds := warn, findings.UnknownKinds(p.Observation)
	var texts, names, missed []string
	for _, k := range []findings.Kind{findings.Conflict, findings.Unrecorded, findings.Misrecorded, findings.Phantom,
		findings.MissingReservation, findings.UnreadSandbox, findings.UnsupportedRangeFinding,
		findings.MalformedFinding} {
		if slices.Contains(unknownKinds, k) {
			missed = append(missed, string(k))
		}
		if count[k] == 0 {
			continue
		}
		texts, names = append(texts, fmt.Sprintf("%d %s", count[k], k)), append(names, string(k))
		if k == findings.Conflict || k == findings.Unrecorded || k == findings.Misrecorded { // two pods may carry one
			say = fail
		}
	}
	more := ""
	if len(holders) > 0 {
		more = fmt.Sprintf("Stale addresses of others are held because the networks of %s are unknown. ", few(holders))
	}
	if unlisted > 0 {
		more += fmt.Sprintf("Findings that neither the commands nor the page list, which have 1,000 of a kind: %d. ",
			unlisted)
	}
	if len(missed) > 0 {
		more += fmt.Sprintf("These findings are unknown: %s. They rest on %s, which could not be read.",
			strings.Join(missed, ", "), p.unknownSources())
	}
	switch {
	case len(texts) > 0:
		return say("ip-reconcile check --reason "+strings.Join(names, ","), "%s",
			strings.TrimSpace(fmt.Sprintf("Pools, reservations and pods disagree: %s. %s", strings.Join(texts, ", "), more)))
	case more != "":
		return unknown("%s", strings.TrimSpace(more))
	}
	return ok("No address is on two pods. Every address in use has its allocation.")
}

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

var errNoTime = errors.New("the API server's time is unknown, since no answer of it had a Date header")

func (p *Probe) leader(ctx context.Context) (line, error) {
	if p.own.Kind != "Deployment" || p.own.argument("leader-elect", "true") == "false" {
		return line{}, nil
	}
	lease, err := p.lease(ctx, kube.OwnLease)
	if err == nil && p.Now.IsZero() {
		err = errNoTime
	}
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
	case p.Now.IsZero():
		return line{}, errNoTime
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
	case last.Refused[plan.Breaker] > 0:
		return fail("ip-reconcile run --dry-run",
			"The breaker refused %d unconfirmed releases in the last pass, more than half of all allocations. "+
				"If the verdicts are right, use run --allow-mass-release.", last.Refused[plan.Breaker])
	case last.Refused[plan.WriteFailed] > 0:
		return fail(p.own.logs(), "The last pass, %s ago, could not release %s: writes failed.", since,
			screen.Count(last.Refused[plan.WriteFailed], "stale item"))
	case err != nil: // an older version has not recorded its schedule
		return unknown("%s. When the next is due is unknown: the record has no schedule that can be read.", text)
	}
	return ok("%s. The next is due at %s.", text, clock(due))
}

// versions compares the releases of the reconciler, of the agents and of this command, by the tags of the images.
func (p *Probe) versions(ctx context.Context) (line, error) {
	running, err := p.running(ctx)
	if err != nil {
		return line{}, err
	}
	agents := "none"
	isUnlisted := p.unlisted != nil && len(p.daemonSets()) == 0
	if isUnlisted {
		agents = "unknown"
	}
	var deployed []string // of the agents
	for _, w := range p.daemonSets() {
		agents = w.version()
		deployed = append(deployed, agents)
	}
	known := sets.New[string]()
	for _, tag := range slices.Concat([]string{p.Version}, running, deployed) {
		if v, err := version.ParseSemantic(tag); err == nil { // "devel" is none
			known.Insert(v.String())
		}
	}
	isNoRelease := func(tag string) bool {
		_, err := version.ParseSemantic(tag)
		return err != nil
	}
	text := fmt.Sprintf("The reconciler is version %s, the agents %s, this command %s",
		cmp.Or(strings.Join(running, " and "), "unknown"), cmp.Or(agents, "unknown"), p.Version)
	switch {
	case known.Len() > 1:
		return warn(p.own.do("get", "-o wide"),
			"%s. They may judge differently, and the reconciler ignores reports of newer agents.", text)
	case slices.ContainsFunc(running, isNoRelease):
		return unknown("%s. The reconciler's image has no tag of a release.", text)
	case slices.ContainsFunc(deployed, isNoRelease):
		return unknown("%s. The agents' image has no tag of a release.", text)
	case isUnlisted:
		return unknown("%s. The agents could not be listed: %v.", text, p.unlisted)
	}
	return ok("%s.", text)
}

// running returns the versions of the reconciler's pods that run. Without such a pod it returns that of the template.
func (p *Probe) running(ctx context.Context) ([]string, error) {
	own, tags := p.own, sets.New[string]()
	if own.Kind == "Deployment" { // during an update pods have other images than the template
		pods, err := p.Core.CoreV1().Pods(own.Namespace).List(ctx,
			metav1.ListOptions{LabelSelector: labels.FormatLabels(own.Labels)})
		if err != nil {
			return nil, err
		}
		for _, pod := range pods.Items {
			for _, c := range pod.Spec.Containers {
				if pod.Status.Phase == corev1.PodRunning && c.Name == own.Spec.Containers[0].Name {
					tags.Insert(tagOf(c.Image))
				}
			}
		}
	}
	if tags.Len() == 0 {
		tags.Insert(own.version())
	}
	return sets.List(tags), nil
}
