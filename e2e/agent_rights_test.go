//go:build !slow && !cluster

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	nodeagent "github.com/ip-reconcile/ip-reconcile/agent"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// ofOwnNodeOnly is the answer to an agent that writes for another node.
func ofOwnNodeOnly(kind, node, name string) string {
	return fmt.Sprintf("a node agent may write the %s of its own node only: its token is of node %s, the object is "+
		"named %s", kind, node, name)
}

func TestAgent_WritesForItsOwnNodeOnly(t *testing.T) {
	t.Parallel()
	for name, namespace := range map[string]string{
		"as shipped":           "",
		"in another namespace": "agents",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStageWithReports(t, "worker-1", "worker-2")
			s.agentsMayOnly(t, namespace)
		})
	}
}

func (s *stage) agentsMayOnly(t *testing.T, namespace string) {
	folder, in := "../deploy/agent", metav1.NamespaceSystem
	if namespace != "" {
		folder, in = overlay(t, namespace, []string{"agent"}, nil, ""), namespace
		s.namespace(t, namespace)
	}
	s.leasesOf(t, in)
	objects := kustomized(t, folder)
	out, errs, err := s.Kubectl(t.Context(), "apply", "-k", folder, "--validate=strict")
	if err != nil || errs != "" {
		t.Fatalf("kubectl apply: %v\n%s", err, errs)
	}
	equal(t, "objects created", strings.Count(out, " created\n"), len(objects))

	one, two := s.inPod(t, in, agentName, "worker-1"), s.inPod(t, in, agentName, "worker-2")
	unbound, unscheduled := s.withToken(t, s.KubeconfigFor(t, in, agentName)), s.inPod(t, in, agentName, "")
	reports, own := thing{sandboxReports, "", newReport}, thing{leasesResource, harness.LeaseNamespace, newLease}
	mayNow(t, one.kubeconfig, rbacv1.PolicyRule{APIGroups: []string{sandboxReports.Group},
		Resources: []string{sandboxReports.Resource}, Verbs: []string{"create"}})
	eventually(t, "the policy to be enforced", func() bool {
		err := own.dryRun("worker-2")(t.Context(), one)
		return err != nil && strings.Contains(err.Error(), "a node agent may")
	})

	t.Run("the rights are these and no more", func(t *testing.T) {
		client := clientOf(t, one.kubeconfig)
		const everywhere = "get nodes; create get list patch update watch sandboxreports.ip-reconcile.dev"
		for where, want := range map[string]string{
			harness.LeaseNamespace:  "create get patch update leases.coordination.k8s.io; " + everywhere,
			in:                      everywhere,
			"kube-node-lease":       everywhere,
			metav1.NamespaceDefault: everywhere,
			"nowhere":               everywhere,
		} {
			review := try(client.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(),
				&authorizationv1.SelfSubjectRulesReview{
					Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: where},
				}, metav1.CreateOptions{})).must(t)
			var rules []string
			for _, r := range review.Status.ResourceRules {
				if slices.Contains([]string{"authorization.k8s.io", "authentication.k8s.io"}, r.APIGroups[0]) {
					continue // about itself: everybody may
				}
				slices.Sort(r.Verbs)
				for _, resource := range r.Resources {
					rules = append(rules, strings.TrimSuffix(strings.Join(r.Verbs, " ")+" "+resource+"."+r.APIGroups[0], ".")+
						strings.Join(r.ResourceNames, ","))
				}
			}
			slices.SortFunc(rules, func(a, b string) int {
				return strings.Compare(a[strings.LastIndex(a, " "):], b[strings.LastIndex(b, " "):])
			})
			equal(t, "the rights in "+where, strings.Join(rules, "; "), want)
		}
	})

	kubeNodeLease, elsewhere := thing{leasesResource, "kube-node-lease", newLease},
		thing{leasesResource, metav1.NamespaceDefault, newLease}
	checkTrials(t, "an agent may", []trial{
		{"create its own report", one, reports.create("worker-1"), ""},
		{"update its own report", one, reports.update("worker-1"), ""},
		{"patch its own report", one, reports.merge("worker-1"), ""},
		{"apply its own report", one, reports.apply("worker-1"), ""},
		{"create its own Lease", one, own.create("worker-1"), ""},
		{"update its own Lease", one, own.update("worker-1"), ""},
		{"patch its own Lease", one, own.merge("worker-1"), ""},
		{"apply a Lease that is not there yet", two, own.apply("worker-2"), ""},
		{"apply a report that is not there yet", two, reports.apply("worker-2"), ""},
		{"read the other nodes' reports", one, reports.list(), ""},
		{"get its node", one, thing{r: nodesResource}.get("worker-1"), ""},
	})
	s.agentsWriteNoMoreThanTheyNeed(t, one, reports, own)
	s.onlyAgentsConfirmReports(t, in, reports, own)
	s.agentsHaveAPriorityLevelOfTheirOwn(t, one)
	checkTrials(t, "of another's it is refused", []trial{
		{"updating another node's report", one, reports.update("worker-2"), ofOwnNodeOnly("report", "worker-1", "worker-2")},
		{"patching another node's report", one, reports.merge("worker-2"), ofOwnNodeOnly("report", "worker-1", "worker-2")},
		{"applying another node's report", two, reports.apply("worker-1"), ofOwnNodeOnly("report", "worker-2", "worker-1")},
		{"creating the report of a node that has none", two, reports.create("worker-3"), ofOwnNodeOnly("report", "worker-2",
			"worker-3")},
		{"applying the report of a node that has none", two, reports.apply("worker-3"), ofOwnNodeOnly("report", "worker-2",
			"worker-3")},
		{"creating a report by a longer name", one, reports.create("worker-10"), ofOwnNodeOnly("report", "worker-1",
			"worker-10")},
		{"creating a report by a name with a suffix", one, reports.create("worker-1.example.com"), ofOwnNodeOnly("report",
			"worker-1", "worker-1.example.com")},
		{"creating a report by a shorter name", one, reports.create("worker"), ofOwnNodeOnly("report", "worker-1", "worker")},
		{"creating a report by a name in capitals", two, reports.create("WORKER-2"), invalid},
		{"creating a report by a generated name", one, reports.generate("worker-1"), ofOwnNodeOnly("report", "worker-1",
			"worker-1")},
		{"renaming in a patch of another node's report", one, reports.patch("worker-2", types.MergePatchType,
			`{"metadata":{"name":"worker-1"}}`), otherName},
		{"updating another node's Lease", one, own.update("worker-2"), ofOwnNodeOnly("Lease", "worker-1", "worker-2")},
		{"patching another node's Lease", one, own.merge("worker-2"), ofOwnNodeOnly("Lease", "worker-1", "worker-2")},
		{"creating the Lease of whereabouts", one, own.create("whereabouts"), ofOwnNodeOnly("Lease", "worker-1",
			"whereabouts")},
		{"creating the Lease of the reconciler", one, own.create("ip-reconcile"), ofOwnNodeOnly("Lease", "worker-1",
			"ip-reconcile")},
		{"creating a Lease by a generated name", one, own.generate("worker-1"), ofOwnNodeOnly("Lease", "worker-1",
			"worker-1")},
		{"applying a Lease of another name", one, own.apply("whereabouts"), ofOwnNodeOnly("Lease", "worker-1",
			"whereabouts")},
		{"not even in a dry run is one created for another node", one, reports.dryRun("worker-3"), ofOwnNodeOnly("report",
			"worker-1", "worker-3")},
	})
	checkTrials(t, "without a node it is refused", []trial{
		{"creating a report with a token that is of no pod", unbound, reports.create("worker-3"), ofNoNode},
		{"creating a Lease with a token that is of no pod", unbound, own.create("worker-3"), ofNoNode},
		{"creating a report with the token of a pod on no node", unscheduled, reports.create("worker-3"), ofNoNode},
		{"patching a report with a token that is of no pod", unbound, reports.merge("worker-1"), ofNoNode},
		{"patching a Lease with a token that is of no pod", unbound, own.merge("worker-1"), ofNoNode},
		{"who only calls himself an agent", s.as(t, "system:serviceaccount:"+in+":"+agentName, "system:serviceaccounts"),
			reports.merge("worker-1"), ofNoNode},
	})
	checkTrials(t, "it is forbidden", []trial{
		{"listing nodes", one, thing{r: nodesResource}.list(), noRight},
		{"changing its own node", one, thing{r: nodesResource}.merge("worker-1"), noRight},
		{"its own node's status", one, thing{r: nodesResource}.patch("worker-1", types.MergePatchType, `{}`, "status"),
			noRight},
		{"getting its own pod", one, thing{r: podsResource, namespace: in}.get(agentName + "-worker-1"), noRight},
		{"listing pods", one, thing{r: podsResource, namespace: in}.list(), noRight},
		{"listing pools", one, thing{r: harness.IPPools, namespace: metav1.NamespaceSystem}.list(), noRight},
		{"changing a pool", one, thing{r: harness.IPPools, namespace: metav1.NamespaceSystem}.merge("10.0.0.0-24"), noRight},
		{"deleting a reservation", one, thing{r: harness.Reservations, namespace: metav1.NamespaceSystem}.delete("10.0.0.1"),
			noRight},
		{"deleting its own report", one, reports.delete("worker-1"), noRight},
		{"deleting all reports", one, reports.deleteAll(), noRight},
		{"deleting its own Lease", one, own.delete("worker-1"), noRight},
		{"listing Leases", one, own.list(), noRight},
		{"the Lease by which a reconciler leads", one, thing{leasesResource, in, newLease}.update("ip-reconcile"), noRight},
		{"whereabouts' Lease", one, thing{leasesResource, metav1.NamespaceSystem, newLease}.create("whereabouts"), noRight},
		{"the kubelet's Lease", one, kubeNodeLease.create("worker-1"), noRight},
		{"a Lease elsewhere", one, elsewhere.create("worker-1"), noRight},
		{"switching the policy off", one, thing{r: policiesResource}.merge(agentName), noRight},
		{"a token for another pod", one, tokenOf(t, in), noRight},
	})

	// The policy holds by itself if somebody grants agents more.
	s.binds(t, "more", "cluster-admin",
		rbacv1.Subject{Kind: "ServiceAccount", Namespace: in, Name: agentName},
		rbacv1.Subject{Kind: "ServiceAccount", Namespace: in, Name: "ip-reconcile"},
		rbacv1.Subject{Kind: "ServiceAccount", Namespace: in, Name: agentName + "-2"},
	)
	mayNow(t, one.kubeconfig, rbacv1.PolicyRule{APIGroups: []string{sandboxReports.Group},
		Resources: []string{sandboxReports.Resource}, Verbs: []string{"delete"}})
	checkTrials(t, "with every right that RBAC has", []trial{
		{"deleting another node's report", one, reports.delete("worker-2"), ofOwnNodeOnly("report", "worker-1", "worker-2")},
		{"deleting all reports", two, reports.deleteAll(), ofOwnNodeOnly("report", "worker-2", "worker-1")},
		{"deleting another node's Lease", one, own.delete("worker-2"), ofOwnNodeOnly("Lease", "worker-1", "worker-2")},
		{"deleting with a token that is of no pod", unbound, reports.delete("worker-1"), ofNoNode},
		{"another node's Lease in another namespace", one, elsewhere.create("worker-2"), ofOwnNodeOnly("Lease", "worker-1",
			"worker-2")},
		{"deleting its own report", two, reports.delete("worker-2"), ""},
		{"deleting its own Lease", two, own.delete("worker-2"), ""},
		{"nothing else is any of the policy's business", one, thing{r: nodesResource}.merge("worker-2"), ""},
		{"nor are the Leases of kubelets, which no policy may keep from being renewed", one, kubeNodeLease.create("worker-9"),
			""},
	})

	for _, name := range []string{"ip-reconcile", agentName + "-2"} {
		s.serviceAccount(t, in, name)
	}
	reconciler, namesake := s.inPod(t, in, "ip-reconcile", "worker-1"), s.inPod(t, in, agentName+"-2", "worker-1")
	s.binds(t, "nodes", "system:node", rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:nodes"})
	kubelet, manager, admin := s.as(t, "system:node:worker-2", "system:nodes"), s.as(t, "system:kube-controller-manager"),
		newVisitor(t, s.Config(), "")
	kubeLeases := thing{leasesResource, metav1.NamespaceSystem, newLease}
	eventually(t, "the rights of the kubelet", func() bool {
		return kubeNodeLease.dryRun("worker-2")(t.Context(), kubelet) == nil
	})
	checkTrials(t, "nobody else is affected", []trial{
		{"the reconciler creates a report", reconciler, reports.create("worker-4"), ""},
		{"the reconciler deletes a report", reconciler, reports.delete("worker-4"), ""},
		{"the reconciler creates its Lease", reconciler, own.create("ip-reconcile"), ""},
		{"the reconciler updates its Lease", reconciler, own.update("ip-reconcile"), ""},
		{"the reconciler deletes a Lease", reconciler, own.delete("worker-1"), ""},
		{"a ServiceAccount with a longer name creates a report", namesake, reports.create("worker-5"), ""},
		{"an admin changes a report", admin, reports.update("worker-1"), ""},
		{"an admin creates a Lease", admin, own.create("whereabouts"), ""},
		{"an admin deletes all reports", admin, reports.deleteAll(), ""},
		{"a kubelet creates its Lease", kubelet, kubeNodeLease.create("worker-2"), ""},
		{"a kubelet renews its Lease", kubelet, kubeNodeLease.update("worker-2"), ""},
		{"the controller manager creates its Lease", manager, kubeLeases.create("kube-controller-manager"), ""},
		{"the controller manager renews its Lease", manager, kubeLeases.update("kube-controller-manager"), ""},
	})
	s.anAgentNoticesThePolicy(t, one)
}

// leasesOf grants the permissions of deploy/leases to accounts in a namespace, as that file says.
func (s *stage) leasesOf(t testing.TB, namespace string) {
	t.Helper()
	if namespace == metav1.NamespaceSystem {
		return // the harness has applied it
	}
	for i, o := range leasesManifests(t, namespace) {
		file := filepath.Join(t.TempDir(), fmt.Sprint(i, ".json"))
		check(t, os.WriteFile(file, try(o.MarshalJSON()).must(t), 0o600))
		s.mustKubectl(t, "apply", "-f", file)
	}
}

// tokenOf requests a token of the agents' ServiceAccount.
func tokenOf(t *testing.T, namespace string) attempt {
	return func(ctx context.Context, v *visitor) error {
		client, err := kubernetes.NewForConfig(configOf(t, v.kubeconfig))
		if err != nil {
			return err
		}
		_, err = client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, agentName, &authenticationv1.TokenRequest{},
			metav1.CreateOptions{})
		return err
	}
}

// anAgentNoticesThePolicy checks that the agent of worker-1 reports whether the admission policy is enforced. The
// policy is weakened in every way that keeps its object, and then removed.
func (s *stage) anAgentNoticesThePolicy(t *testing.T, one *visitor) {
	config := configOf(t, one.kubeconfig)
	store := try(nodeagent.NewAPIStore(config, "worker-1", harness.LeaseNamespace)).must(t)
	const unguarded = "lets this agent write the report of another node"
	const unguardedLease = "lets this agent write the Lease of another node"
	sees := func(what, want string) {
		t.Helper()
		eventually(t, "the agent to notice "+what, func() bool {
			err := store.CheckPolicy(t.Context())
			return want == "" && err == nil || want != "" && err != nil && strings.Contains(err.Error(), want)
		})
	}
	admin := newVisitor(t, s.Config(), "")
	for _, of := range []thing{{sandboxReports, "", newReport}, {leasesResource, harness.LeaseNamespace, newLease}} {
		err := of.create("worker-2")(t.Context(), admin) // only what exists can be changed
		if !apierrors.IsAlreadyExists(err) {
			check(t, err)
		}
	}
	bindings, policies := s.Client().AdmissionregistrationV1().ValidatingAdmissionPolicyBindings(),
		s.Client().AdmissionregistrationV1().ValidatingAdmissionPolicies()
	original := try(bindings.Get(t.Context(), agentName, metav1.GetOptions{})).must(t)
	original.ResourceVersion = ""
	patch := func(text string) {
		try(bindings.Patch(t.Context(), agentName, types.MergePatchType, []byte(text), metav1.PatchOptions{})).must(t)
	}
	sees("the policy as shipped", "")

	patch(`{"spec":{"validationActions":["Audit"]}}`)
	sees("a binding that only audits", unguarded)
	patch(`{"spec":{"validationActions":["Warn"]}}`)
	sees("a binding that only warns", unguarded)
	patch(`{"spec":{"validationActions":["Deny"]}}`)
	sees("that it denies again", "")

	check(t, bindings.Delete(t.Context(), agentName, metav1.DeleteOptions{}))
	sees("that no binding exists", unguarded)
	try(bindings.Create(t.Context(), original, metav1.CreateOptions{})).must(t)
	sees("the binding", "")

	policy := try(policies.Get(t.Context(), agentName, metav1.GetOptions{})).must(t)
	var weakened func(what, want string, weaken func(rules []admissionv1.NamedRuleWithOperations) any)
	weakened = func(what, want string, weaken func(rules []admissionv1.NamedRuleWithOperations) any) {
		t.Helper()
		if want != "" {
			defer weakened("the policy again", "", func(r []admissionv1.NamedRuleWithOperations) any { return r })
		}
		rules := policy.DeepCopy().Spec.MatchConstraints.ResourceRules
		change := try(json.Marshal(map[string]any{"spec": map[string]any{
			"matchConstraints": map[string]any{"resourceRules": weaken(rules)}}})).must(t)
		try(policies.Patch(t.Context(), agentName, types.MergePatchType, change, metav1.PatchOptions{})).must(t)
		sees(what, want)
	}
	type rules = []admissionv1.NamedRuleWithOperations
	weakened("that Leases are not covered", unguardedLease, func(r rules) any { return r[:1] })
	weakened("that reports are not covered", unguarded, func(r rules) any { return r[1:] })
	weakened("that reports may be changed", unguarded, func(r rules) any {
		r[0].Operations = []admissionv1.OperationType{admissionv1.Create}
		return r
	})
	weakened("that Leases may be changed", unguardedLease, func(r rules) any {
		r[1].Operations = []admissionv1.OperationType{admissionv1.Create}
		return r
	})

	// Another policy that refuses such a write proves nothing about this one.
	check(t, policies.Delete(t.Context(), agentName, metav1.DeleteOptions{}))
	sees("that no policy exists", unguarded)
	_, err := policies.Create(t.Context(), &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: agentName},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule: admissionv1.Rule{APIGroups: []string{sandboxReports.Group}, APIVersions: []string{"*"},
						Resources: []string{sandboxReports.Resource}},
				},
			}}},
			Validations: []admissionv1.Validation{{Expression: "false", Message: "no new reports today",
				Reason: new(metav1.StatusReasonForbidden)}},
		},
	}, metav1.CreateOptions{})
	check(t, err)
	sees("a policy for something else", "no new reports today")

	reports, err := s.Dynamic().Resource(sandboxReports).List(t.Context(),
		metav1.ListOptions{FieldSelector: "metadata.name=ip-reconcile-checks-its-admission-policy"})
	if check(t, err); len(reports.Items) > 0 {
		t.Errorf("the checks stored %d reports", len(reports.Items))
	}
}
