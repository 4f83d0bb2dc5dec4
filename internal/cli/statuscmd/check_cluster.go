package statuscmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/audit"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

func (p *Probe) agents(ctx context.Context) (line, error) {
	o := p.Observation
	switch err := o.Reports.Err(); {
	case p.Core != nil && err != nil && !apierrors.IsForbidden(err): // not only to this caller
		return fail("kubectl get sandboxreports.ip-reconcile.dev",
			"The node agents' reports cannot be listed: %v. Only addresses of finished pods are released.", err)
	case err != nil:
		return unknown("The node agents are unknown: their reports could not be read.")
	}
	if p.Core != nil && len(o.Reports.Or(nil)) > 0 {
		_, err := p.Core.CoordinationV1().Leases(p.leaseNamespace).List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return line{}, err // without the Leases no report is fresh
		}
	}
	a, holds := view.NewAgents(p.Assessment), 0
	text := fmt.Sprintf("%d of %d node agents have a fresh report", a.Fresh, a.Fresh+len(a.NoFreshReport))
	if len(a.Dead) > 0 {
		text += fmt.Sprintf(" (without the dead or deleted nodes %s)", few(a.Dead))
	}
	expected, unlisted := p.expectsAgents()
	switch {
	case len(p.Nodes) == 0 && unlisted != nil:
		return line{}, unlisted
	case len(p.Nodes) == 0 && expected:
		return fail(fmt.Sprintf("kubectl get pods -A -l %s=%s,%s=agent -o wide", kube.NameLabel, kube.Product,
			kube.ComponentLabel),
			"No node agent reports. Addresses that only agents can prove stale are not released.")
	case len(p.Nodes) == 0 && p.serves == nil: // nobody has looked for DaemonSets
		return unknown("No node agent reports. Without them a phantom pod cannot be distinguished from a leak.")
	case len(p.Nodes) == 0:
		return unknown("No node agents are deployed. Without them a phantom pod cannot be distinguished from a leak.")
	case len(a.NoFreshReport) > 0:
		node, silence := a.NoFreshReport[0], ""
		for _, f := range p.Findings {
			if f.Kind == findings.NoFreshReportFinding && (silence == "" || f.Holds > holds) {
				node, holds, silence = f.Node, f.Holds, " "+f.Message+"."
			}
		}
		return fail(commandOn("ip-reconcile explain %s", "node/"+node),
			"%s. On %s only addresses of finished pods are released.%s", text, few(a.NoFreshReport), silence)
	case !o.Nodes.IsKnown():
		return unknown("%s. Which other nodes must report is unknown.", text)
	}
	return ok("%s.", text)
}

// nodes names the first node that holds allocations because it is not Ready. With agents their reports decide.
func (p *Probe) nodes(context.Context) (line, error) {
	isOther := func(f findings.Finding) bool { return f.Kind != findings.NodeNotReady }
	found := slices.DeleteFunc(slices.Clone(p.Findings), isOther)
	if len(found) == 0 {
		return line{}, nil
	}
	more := ""
	if len(found) > 1 {
		more = fmt.Sprintf(" Other nodes of this kind: %d. See 'ip-reconcile check --reason NodeNotReady'.", len(found)-1)
	}
	return warn(commandOn("ip-reconcile explain %s", "node/"+found[0].Node), "%s.%s", found[0].Message, more)
}

// selection says which nodes --agent-nodes should select.
func (p *Probe) selection(context.Context) (line, error) {
	const next = "kubectl get nodes --show-labels"
	switch problem, isUseless := p.SelectionProblem(); {
	case isUseless:
		return fail(next, "%s.", problem)
	case problem != "":
		return warn(next, "%s.", problem)
	}
	return line{}, nil
}

// source says what a source that is unknown costs. It is an error if the reconciler cannot read the source either.
func (p *Probe) source(ctx context.Context, s facts.SourceState) (line, error) {
	text := fmt.Sprintf("%s are unknown: %s. While they are, %s.", s.Name, s.Unknown, s.Costs)
	isForbidden := apierrors.IsForbidden(s.Err)
	switch {
	case p.Core == nil, isForbidden && p.serves != nil && p.own == nil:
		return unknown("%s", text)
	case !isForbidden || p.serves == nil: // the reconciler itself judged, or nobody can read it
		return fail("kubectl get "+string(s.Name)+" -A", "%s", text)
	}
	expected, unlisted := p.expectsAgents()
	for _, r := range p.wantedPermissions(ctx, expected || unlisted != nil) {
		if r.Resource != string(s.Name) || !strings.Contains(r.verbs, "list") {
			continue
		}
		may, err := p.may(ctx, p.account(), authorizationv1.ResourceAttributes{Verb: "list", Group: r.Group,
			Resource: r.Resource, Namespace: r.namespace})
		switch {
		case err != nil:
			return line{}, err
		case !may:
			return fail(fmt.Sprintf("kubectl auth can-i list %s -A --as=system:serviceaccount:%s", r.GroupResource, p.account()),
				"%s The reconciler may not list them either.", text)
		}
	}
	return unknown("%s The reconciler may list them.", text)
}

// account is the reconciler's ServiceAccount, as namespace and name.
func (p *Probe) account() string {
	return p.own.Namespace + ":" + cmp.Or(p.own.Spec.ServiceAccountName, "default")
}

// expectsAgents reports whether node agents are deployed or required. The error says why that is unknown: a DaemonSet
// may be among the workloads that could not be listed.
func (p *Probe) expectsAgents() (bool, error) {
	if len(p.daemonSets()) > 0 || p.own != nil && p.own.argument("agents", "") == "required" {
		return true, nil
	}
	return false, p.unlisted
}

func (p *Probe) definitions(ctx context.Context) (line, error) {
	const install = "kubectl apply -f whereabouts/doc/crds" // of v0.9.4
	expected, unlisted := p.expectsAgents()
	for _, d := range []struct {
		resource      schema.GroupVersionResource
		next, without string
	}{
		{ippool.PoolResource, install, "addresses cannot be judged"},
		{ippool.ReservationResource, install, "addresses cannot be judged"},
		{ippool.NADResource, "kubectl get crd " + ippool.NADResource.GroupResource().String(),
			"conflicts, pods that wait for an address and the fill of pools are unknown"},
		{v1alpha1.Resource(), "kubectl apply --server-side --force-conflicts -f deploy/crds", "no agent can report"},
	} {
		switch served, err := p.serves(ctx, d.resource); {
		case errors.As(err, new(*kube.OtherVersionError)):
			return fail(d.next, "%v: %s.", err, d.without)
		case err != nil:
			return line{}, err
		case !served && d.resource == v1alpha1.Resource() && !expected:
			if unlisted != nil {
				return line{}, unlisted
			}
		case !served:
			return fail(d.next, "The API server does not serve %s in %s: %s.", d.resource.GroupResource(), d.resource.Version,
				d.without)
		}
	}
	return ok("The API server serves all custom resources that ip-reconcile needs.")
}

func (p *Probe) competing(context.Context) (line, error) {
	var names []string
	for _, w := range p.workloads {
		switch {
		case w.competingProgram() != "":
			return fail(w.stopCompeting(), "%s runs whereabouts' own %s, which releases addresses that ip-reconcile holds.", w,
				w.competingProgram())
		case w.isReconciler() && w.runs():
			names = append(names, w.String())
		}
	}
	switch {
	case len(names) > 1:
		return fail(listReconcilers, "%d reconcilers of ip-reconcile are deployed, and only one should be: %s.", len(names),
			few(names))
	case p.unlisted != nil:
		return line{}, p.unlisted
	}
	return ok("Nothing else releases addresses: whereabouts' own reconcilers do not run.")
}

// permission is something that a role of deploy/ allows the reconciler, and what is lost without it.
type permission struct {
	isWanted bool
	verbs    string // as in "get, list"
	schema.GroupResource
	namespace, name string // "" for all
	isNeeded        bool   // to judge or to release addresses
	without         string // what is lost
}

// parallelReviews is how many reviews of permissions are in progress at once.
const parallelReviews = 8

// permissions reviews what the reconciler needs. Where it is unknown whether agents are deployed, it is unknown whether
// the reconciler needs the permissions that only their reports take.
func (p *Probe) permissions(ctx context.Context) (line, error) {
	expected, unlisted := p.expectsAgents()
	l, err := p.review(ctx, expected)
	if err != nil || l.Level != view.LevelOK || unlisted == nil {
		return l, err
	}
	if l, err = p.review(ctx, true); err == nil && l.Level != view.LevelOK {
		return line{}, unlisted
	}
	return l, err
}

// review makes the line of the permissions of the reconciler in a cluster with or without agents.
func (p *Probe) review(ctx context.Context, hasAgents bool) (line, error) {
	account := p.account()
	who := "ServiceAccount " + strings.Replace(account, ":", "/", 1)
	wanted := p.wantedPermissions(ctx, hasAgents)
	missing := make([]string, len(wanted)) // the verbs
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelReviews)
	for i, r := range wanted {
		g.Go(func() error {
			var verbs []string
			for verb := range strings.SplitSeq(r.verbs, ", ") {
				may, err := p.may(gctx, account, authorizationv1.ResourceAttributes{Verb: verb, Group: r.Group,
					Resource: r.Resource, Namespace: r.namespace, Name: r.name})
				if err != nil {
					return err
				}
				if !may {
					verbs = append(verbs, verb)
				}
			}
			missing[i] = strings.Join(verbs, ", ")
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return line{}, err
	}
	say := warn
	var rights, files []string
	costs := map[string][]string{}
	for i, r := range wanted {
		if missing[i] == "" {
			continue
		}
		text := missing[i] + " " + r.Resource
		if r.namespace != "" {
			text += " in " + r.namespace
		}
		if costs[text] == nil {
			rights = append(rights, text)
		}
		if !slices.Contains(costs[text], r.without) { // of several Leases
			costs[text] = append(costs[text], r.without)
		}
		if r.isNeeded {
			say = fail
		}
		if r.namespace == p.leaseNamespace {
			files = []string{" -f deploy/leases/leases.yaml"}
		}
	}
	if len(rights) == 0 {
		return ok("RBAC allows %s all that it needs.", who)
	}
	next := "kubectl auth can-i --list --as=system:serviceaccount:" + account
	if account == "kube-system:"+kube.Product { // the names of deploy
		next = "kubectl apply -f deploy/base/rbac.yaml -f deploy/deployment/rbac.yaml" + strings.Join(files, "")
	}
	for i, text := range rights {
		rights[i] += " (" + strings.Join(costs[text], ", ") + ")"
	}
	return say(next, "RBAC forbids %s to %s.", who, strings.Join(rights, "; "))
}

// wantedPermissions are those of deploy/base/rbac.yaml and deploy/leases, and for serve of deploy/deployment/rbac.yaml.
// Of the Leases that ADD and DEL take in a namespace the first stands for all, and so does the first ConfigMap of the
// history. Kinds that the API server does not serve are not needed.
func (p *Probe) wantedPermissions(ctx context.Context, hasAgents bool) []permission {
	isServe := p.own.Kind == "Deployment"
	pools, reservations := ippool.PoolResource.GroupResource(), ippool.ReservationResource.GroupResource()
	nads, reports := ippool.NADResource.GroupResource(), v1alpha1.Resource().GroupResource()
	core := func(resource string) schema.GroupResource { return schema.GroupResource{Resource: resource} }
	leases := schema.GroupResource{Group: coordinationv1.GroupName, Resource: "leases"}
	mayServe := func(r schema.GroupVersionResource) bool {
		served, err := p.serves(ctx, r)
		return served || err != nil
	}
	const (
		hold      = "get, create, update"
		unjudged  = "addresses are not judged"
		unfreed   = "no address is released"
		polled    = "only a full pass each minute reads them"
		unwatched = "the watch caches never sync, and only full passes read"
		noHistory = "the history is not written"
	)
	all := []permission{
		{true, "list", pools, "", "", true, unjudged},
		{true, "get, patch", pools, "", "", true, unfreed},
		{true, "create", pools, "", "", false, "a deleted pool is not recreated"},
		{true, "list", reservations, "", "", true, unjudged},
		{true, "get, delete", reservations, "", "", true, unfreed},
		{true, "create", reservations, "", "", true, "a reservation that was deleted for an address in use is lost"},
		{true, "list", core("pods"), "", "", true, unjudged},
		{true, "get", core("pods"), "", "", false, "each release lists a pod by its name instead"},
		{true, "list", core("nodes"), "", "", hasAgents, "no report proves that a sandbox is absent, and no node is dead"},
		{true, "list", nads, "", "", true, "conflicts and missing reservations are not found, and fill is unknown"},
		{true, "get", core("namespaces"), p.namespace, p.namespace, true, "releases are paused"},
		{true, hold, leases, p.namespace, kube.OwnLease, true,
			"no replica can lead and no unconfirmed address is released"},
		{true, hold, leases, p.namespace, kube.RestoreLease, true, "an etcd restore is forgotten when the process ends"},
		{true, hold, leases, p.namespace, kube.PassLease, false, "the last pass is not recorded"},
		{true, "get, update", core("configmaps"), p.namespace, audit.ConfigMapPrefix + "0", false, noHistory},
		{true, "create", core("configmaps"), p.namespace, "", false, noHistory},
		{mayServe(ippool.ClaimResource), "get, list", ippool.ClaimResource.GroupResource(), "", "", false,
			"addresses of stopped machines are held"},
		{mayServe(podstate.GuestResource), "list", podstate.GuestResource.GroupResource(), "", "", false,
			"an address that a migrated guest keeps is not found"},
	}
	taken := map[string][]string{p.namespace: {ippool.SharedLease}}
	if p.Unjudged == nil {
		taken = ippool.LeasesOf(p.Observation.Pools)
	}
	for _, namespace := range slices.Sorted(maps.Keys(taken)) {
		all = append(all, permission{true, hold, leases, namespace, taken[namespace][0], true, unfreed})
	}
	all = append(all, []permission{
		{hasAgents, "list", reports, "", "", true, "what only agents can prove is held"},
		{hasAgents, "list", leases, p.leaseNamespace, "", true, "no report counts as fresh"},
		{isServe, "watch", pools, "", "", true, unwatched},
		{isServe, "watch", core("pods"), "", "", true, unwatched},
		{isServe, "watch", reservations, "", "", false, polled},
		{isServe, "watch", core("nodes"), "", "", false, polled},
		{isServe, "get", core("nodes"), "", "", false, "reports of deleted nodes remain"},
		{isServe, "watch", nads, "", "", false, polled},
		{isServe, "get", nads, "", "", false, "nothing yet"},
		{isServe, "list, watch", core("namespaces"), "", p.namespace, false, polled},
		{isServe && hasAgents, "watch", reports, "", "", false, polled},
		{isServe && hasAgents, "get", reports, "", "", false, "nothing yet"},
		{isServe && hasAgents, "delete", reports, "", "", false, "reports of deleted nodes remain"},
		{isServe && hasAgents, "watch", leases, p.leaseNamespace, "", false, polled},
		{isServe && hasAgents, "get, delete", leases, p.leaseNamespace, "", false, "Leases of deleted nodes remain"},
		{isServe, "create, patch", core("events"), "", "", false, "no Events are written"},
	}...)
	return slices.DeleteFunc(all, func(r permission) bool { return !r.isWanted })
}
