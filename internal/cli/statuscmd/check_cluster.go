package statuscmd

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

func (p *Probe) agents(ctx context.Context) (line, error) {
	o := p.Observation
	if o.ReportsUnreadable && len(o.Reports) == 0 {
		return unknown("Which agents have a fresh report is not known: their reports could not be read.")
	}
	if _, err := p.core.CoordinationV1().Leases(p.leaseNamespace).List(ctx, metav1.ListOptions{Limit: 1}); err != nil && len(o.Reports) > 0 {
		return line{}, err // no Lease shows that its agent lives
	}
	var silent, dead []string
	fresh := 0
	for node, state := range p.Nodes {
		switch state {
		case judge.NodeFresh:
			fresh++
		case judge.NodeDeadOrMissing:
			dead = append(dead, node)
		default:
			silent = append(silent, node)
		}
	}
	slices.Sort(silent)
	slices.Sort(dead)
	text := fmt.Sprintf("%d of %d node agents have a fresh report", fresh, fresh+len(silent))
	if len(dead) > 0 {
		text += fmt.Sprintf(" (not counted, dead or gone: %s)", few(dead))
	}
	switch {
	case len(p.Nodes) == 0 && p.expectsAgents():
		return fail(fmt.Sprintf("kubectl get pods -A -l %s=%s,%s=agent -o wide", kube.NameLabel, kube.Product, kube.ComponentLabel),
			"No node agent reports: nothing that only they can prove is released.")
	case len(p.Nodes) == 0:
		return unknown("There are no node agents: a pod that the API has lost cannot be told from a leak.")
	case len(silent) > 0:
		return fail("ip-reconcile explain node/"+silent[0], "%s; nothing is released on %s, except addresses of finished pods.", text, few(silent))
	}
	return ok("%s.", text)
}

// expectsAgents reports that agents are deployed, or that the reconciler requires them.
func (p *Probe) expectsAgents() bool {
	return len(p.daemonSets()) > 0 || p.own != nil && p.own.argument("--agents") == "required"
}

// admissionPolicy reports whether the agents' policies are there and their bindings deny.
func (p *Probe) admissionPolicy(ctx context.Context) (line, error) {
	if !p.expectsAgents() {
		return line{}, nil
	}
	v1 := p.core.AdmissionregistrationV1()
	for _, name := range []string{"ip-reconcile-agent", "ip-reconcile-reports"} { // deploy/agent/admission.yaml
		_, err := v1.ValidatingAdmissionPolicies().Get(ctx, name, metav1.GetOptions{})
		binding, bindingErr := v1.ValidatingAdmissionPolicyBindings().Get(ctx, name, metav1.GetOptions{})
		if err := cmp.Or(unlessAbsent(err), unlessAbsent(bindingErr)); err != nil {
			return line{}, err
		}
		if err != nil || bindingErr != nil || !slices.Contains(binding.Spec.ValidationActions, admissionv1.Deny) {
			return warn("kubectl apply -f deploy/agent/admission.yaml", "The admission policy %s, or its binding, is missing or does not deny: "+
				"the agents publish nothing, or others can write reports and Leases.", name)
		}
	}
	return ok("The admission policies keep each agent to the report of its own node, and all others from writing one.")
}

// definitions says which kind is not served, of several the most important one.
func (p *Probe) definitions(ctx context.Context) (line, error) {
	const install = "kubectl apply -f whereabouts/doc/crds" // of v0.9.4
	for _, d := range []struct {
		resource      schema.GroupVersionResource
		next, without string
	}{
		{ippool.PoolResource, install, "addresses cannot be judged"},
		{ippool.ReservationResource, install, "addresses cannot be judged"},
		{v1alpha1.Resource(), "kubectl apply --server-side --force-conflicts -f deploy/crds", "no agent can report"},
	} {
		switch served, err := p.serves(ctx, d.resource); {
		case err != nil:
			return line{}, err
		case !served && (d.resource != v1alpha1.Resource() || p.expectsAgents()):
			return fail(d.next, "The API server does not serve %s in %s: %s.", d.resource.GroupResource(), d.resource.Version, d.without)
		}
	}
	return ok("The API server serves all custom resources that are needed.")
}

// competing says what else releases addresses.
func (p *Probe) competing(context.Context) (line, error) {
	var names []string
	for i := range p.workloads {
		w := &p.workloads[i]
		switch {
		case w.CompetingProgram() != "":
			return fail(w.stopCompeting(), "%s runs whereabouts' own %s, which releases addresses that are held here.", w, w.CompetingProgram())
		case w.IsReconciler() && w.Runs():
			names = append(names, w.String())
		}
	}
	switch {
	case len(names) > 1:
		return fail(listReconcilers, "%d reconcilers of ip-reconcile are deployed, and one is meant to be: %s.", len(names), few(names))
	case p.unlisted != nil:
		return line{}, p.unlisted
	}
	return ok("Nothing else releases addresses: no reconciler of whereabouts' own runs.")
}

// right is a right that a reconciler makes use of.
type right struct {
	verbs string // as in "get, list"
	schema.GroupResource
	namespace, name string // "" for all
	isNeeded        bool   // without it addresses are not judged, or not released
}

// rights says which rights the reconciler's ServiceAccount lacks.
func (p *Probe) rights(ctx context.Context) (line, error) {
	name := cmp.Or(p.own.Spec.ServiceAccountName, "default")
	account, who := p.own.Namespace+":"+name, "ServiceAccount "+p.own.Namespace+"/"+name
	say, effect := warn, ""
	var missing []string
	for _, r := range p.wantedRights() {
		var verbs []string
		for verb := range strings.SplitSeq(r.verbs, ", ") {
			may, err := p.may(ctx, account, authorizationv1.ResourceAttributes{Verb: verb, Group: r.Group, Resource: r.Resource, Namespace: r.namespace, Name: r.name})
			if err != nil {
				return line{}, err
			}
			if !may {
				verbs = append(verbs, verb)
			}
		}
		if len(verbs) == 0 {
			continue
		}
		text := strings.Join(verbs, ", ") + " " + r.Resource
		if r.namespace != "" {
			text += " in " + r.namespace
		}
		if !slices.Contains(missing, text) { // of several Leases
			missing = append(missing, text)
		}
		if r.isNeeded {
			say, effect = fail, ": addresses are not judged, or not released"
		}
	}
	if len(missing) == 0 {
		return ok("%s has all rights that it needs.", who)
	}
	next := "kubectl auth can-i --list --as=system:serviceaccount:" + account
	if account == "kube-system:"+kube.Product { // the names of deploy
		next = "kubectl apply -f deploy/base/rbac.yaml -f deploy/deployment/rbac.yaml"
	}
	return say(next, "%s may not %s%s.", who, strings.Join(missing, "; "), effect)
}

// wantedRights are those of deploy/base/rbac.yaml and deploy/leases, and for serve of deploy/deployment/rbac.yaml. Of the
// Leases that ADD and DEL take in a namespace the first stands for all.
func (p *Probe) wantedRights() []right {
	pools, reservations, reports := ippool.PoolResource.GroupResource(), ippool.ReservationResource.GroupResource(), v1alpha1.Resource().GroupResource()
	core := func(resource string) schema.GroupResource { return schema.GroupResource{Resource: resource} }
	leases := schema.GroupResource{Group: coordinationv1.GroupName, Resource: "leases"}
	const hold = "get, create, update"
	all := []right{
		{"list, get, patch", pools, "", "", true},
		{"create", pools, "", "", false},
		{"list, get, create, delete", reservations, "", "", true},
		{"list", core("pods"), "", "", true},
		{"list", core("nodes"), "", "", false},
		{"list", ippool.NADResource.GroupResource(), "", "", false},
		{"get", core("namespaces"), p.namespace, p.namespace, false},
		{hold, leases, p.namespace, kube.OwnLease, false},
	}
	taken := map[string][]string{p.namespace: {ippool.SharedLease}}
	if p.unjudged == nil {
		taken = ippool.LeasesOf(p.Observation.Pools)
	}
	for namespace, names := range taken {
		all = append(all, right{hold, leases, namespace, names[0], true})
	}
	if p.expectsAgents() {
		all = append(all, right{"list", reports, "", "", true}, right{"list", leases, p.leaseNamespace, "", true})
	}
	if p.own.Kind == "Deployment" {
		all = append(all, right{"watch", pools, "", "", false}, right{"watch", reservations, "", "", false},
			right{"watch", core("pods"), "", "", false}, right{"create, patch", core("events"), "", "", false})
	}
	return all
}
