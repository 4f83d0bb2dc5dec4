package statuscmd

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

// shippedPolicies is deploy/agent/admission.yaml.
//
//go:embed admission.yaml
var shippedPolicies string

// guard is an admission policy with its binding.
type guard struct {
	policy  admissionv1.ValidatingAdmissionPolicy
	binding admissionv1.ValidatingAdmissionPolicyBinding
}

// shippedGuards are the policies as they are installed for agents in a namespace.
func shippedGuards(agents, leases string) ([]guard, error) {
	return guardsIn(strings.NewReplacer("serviceaccount:kube-system:", "serviceaccount:"+agents+":",
		"["+leaseNamespace+"]", "["+leases+"]").Replace(shippedPolicies))
}

// guardsIn decodes policies, each followed by its binding.
func guardsIn(text string) (guards []guard, _ error) {
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(text)), 4096)
	for {
		var g guard
		err := documents.Decode(&g.policy)
		if errors.Is(err, io.EOF) {
			return guards, nil
		}
		if err := cmp.Or(err, documents.Decode(&g.binding)); err != nil {
			return nil, fmt.Errorf("decode the shipped admission policies: %w", err)
		}
		setDefaults(g.policy.Spec.MatchConstraints)
		guards = append(guards, g)
	}
}

// setDefaults sets what the API server sets.
func setDefaults(m *admissionv1.MatchResources) {
	if m == nil {
		return
	}
	m.MatchPolicy = cmp.Or(m.MatchPolicy, ptr.To(admissionv1.Equivalent))
	m.NamespaceSelector = cmp.Or(m.NamespaceSelector, &metav1.LabelSelector{})
	m.ObjectSelector = cmp.Or(m.ObjectSelector, &metav1.LabelSelector{})
	for i := range m.ResourceRules {
		m.ResourceRules[i].Scope = cmp.Or(m.ResourceRules[i].Scope, ptr.To(admissionv1.AllScopes))
	}
}

// difference returns which part of an installed policy or binding is not as shipped, "" for none.
func (g *guard) difference(policy *admissionv1.ValidatingAdmissionPolicySpec,
	binding *admissionv1.ValidatingAdmissionPolicyBindingSpec) string {
	policy = policy.DeepCopy()
	setDefaults(policy.MatchConstraints)
	want, equal := g.policy.Spec, equality.Semantic.DeepEqual
	for _, part := range []struct {
		name string
		same bool
	}{
		{"failurePolicy", ptr.Deref(policy.FailurePolicy, admissionv1.Fail) == *want.FailurePolicy},
		{"paramKind", policy.ParamKind == nil},
		{"matchConstraints", equal(policy.MatchConstraints, want.MatchConstraints)},
		{"matchConditions", equal(policy.MatchConditions, want.MatchConditions)},
		{"variables", equal(policy.Variables, want.Variables)},
		{"validations", equal(policy.Validations, want.Validations)},
		{"policyName of its binding", binding.PolicyName == g.policy.Name},
		{"matchResources of its binding", binding.MatchResources == nil},
		{"paramRef of its binding", binding.ParamRef == nil},
	} {
		if !part.same {
			return part.name
		}
	}
	return ""
}

// sharedNamespaces are namespaces in which others have Leases, so that the policies cannot protect the agents' there.
func (p *Probe) sharedNamespaces() []string {
	return []string{p.namespace, metav1.NamespaceSystem, "kube-node-lease", metav1.NamespacePublic,
		metav1.NamespaceDefault}
}

// leaseNamespace is the namespace of the agents' Leases in the manifests of deploy/.
const leaseNamespace = "ip-reconcile-node-lease"

// applyPolicies returns the command that installs the shipped policies for agents in a namespace. The file itself is
// for kube-system. For agents elsewhere it would end the protection of those, and they would publish nothing.
func applyPolicies(agents, leases string) string {
	var edits []string
	if agents != metav1.NamespaceSystem {
		edits = append(edits, "s/serviceaccount:kube-system:/serviceaccount:"+agents+":/")
	}
	if leases != leaseNamespace {
		edits = append(edits, `s/\[`+leaseNamespace+`\]/[`+leases+"]/")
	}
	if len(edits) == 0 {
		return "kubectl apply -f deploy/agent/admission.yaml"
	}
	return "sed '" + strings.Join(edits, "; ") + "' deploy/agent/admission.yaml | kubectl apply -f -"
}

// admissionPolicy compares the installed policies with the shipped ones, and tries what they refuse in a dry run.
func (p *Probe) admissionPolicy(ctx context.Context) (line, error) {
	if expected, unlisted := p.expectsAgents(); !expected {
		return line{}, unlisted
	}
	if slices.Contains(p.sharedNamespaces(), p.leaseNamespace) {
		return fail("kubectl create namespace ip-reconcile-node-lease",
			"The agents' Leases are in namespace %s, where others have Leases: the admission policies cannot protect them, "+
				"so an expired report can be made fresh. Move them to a namespace of their own (agent.leaseNamespace of the "+
				"chart, or --lease-namespace).", p.leaseNamespace)
	}
	agents := p.namespace
	if found := p.daemonSets(); len(found) > 0 {
		agents = found[0].Namespace
	}
	next := applyPolicies(agents, p.leaseNamespace)
	guards, err := shippedGuards(agents, p.leaseNamespace)
	if err != nil {
		return line{}, err
	}
	v1 := p.Core.AdmissionregistrationV1()
	var differs string
	for _, g := range guards {
		name := g.policy.Name
		policy, err := v1.ValidatingAdmissionPolicies().Get(ctx, name, metav1.GetOptions{})
		binding, bindingErr := v1.ValidatingAdmissionPolicyBindings().Get(ctx, name, metav1.GetOptions{})
		if err := cmp.Or(unlessAbsent(err), unlessAbsent(bindingErr)); err != nil {
			return line{}, err
		}
		if err != nil || bindingErr != nil || !slices.Contains(binding.Spec.ValidationActions, admissionv1.Deny) {
			return warn(next, "The admission policy %s or its binding is missing or does not deny. "+
				"Agents publish no reports, or other accounts can write reports and Leases.", name)
		}
		if part := g.difference(&policy.Spec, &binding.Spec); part != "" && differs == "" {
			differs = fmt.Sprintf("%s does not have the %s", name, part)
		}
	}
	accepted, tried := p.acceptedWrite(ctx, agents)
	switch {
	case accepted != "":
		return fail(next, "The API server lets %s: the admission policies are weakened, or for other accounts.",
			accepted)
	case differs != "":
		return warn(next, "The admission policy %s that version %s ships. It may let an agent write the report or "+
			"Lease of another node, or others write them.", differs, p.Version)
	case !tried:
		return ok("The admission policies are as shipped: each agent writes the report of its own node, and nobody else.")
	}
	return ok("The admission policies let each agent write the report of its own node, and nobody else.")
}

// probeName is the name of a report and a Lease that belong to no node.
const probeName = "ip-reconcile-checks-its-admission-policy"

// acceptedWrite tries writes that the policies must refuse, in a dry run as other accounts. It returns one that the API
// server accepts, "" for none, and whether a policy refused all of them: the caller may not be allowed to impersonate.
func (p *Probe) acceptedWrite(ctx context.Context, agents string) (accepted string, tried bool) {
	if p.as == nil {
		return "", false
	}
	type write struct {
		account, what string
		path          string
		object        any
	}
	const reports = "/apis/ip-reconcile.dev/v1alpha1/sandboxreports"
	leases := "/apis/coordination.k8s.io/v1/namespaces/" + p.leaseNamespace + "/leases"
	report := &v1alpha1.SandboxReport{TypeMeta: metav1.TypeMeta{
		APIVersion: v1alpha1.Resource().GroupVersion().String(), Kind: "SandboxReport"},
		ObjectMeta: metav1.ObjectMeta{Name: probeName}, ObservedAt: metav1.NewTime(p.Now)}
	lease := &coordinationv1.Lease{TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{Name: probeName}}
	agent := agents + ":ip-reconcile-agent"
	writes := []write{{agent, "an agent write the report of another node", reports, report},
		{agent, "an agent write the Lease of another node", leases, lease}}
	if p.own != nil {
		writes = append(writes, write{p.account(), "the reconciler write the Lease of a node's report", leases, lease})
	}
	tried = true
	for _, w := range writes {
		err := p.as(ctx, w.account, w.path, w.object)
		switch {
		case err == nil:
			return w.what, true
		case !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy"):
			tried = false
		}
	}
	return "", tried
}
