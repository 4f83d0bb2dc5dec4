//go:build !slow && !cluster

package e2e

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"

	nodeagent "github.com/ip-reconcile/ip-reconcile/agent"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// anAgentNoticesThePolicy has the agent of worker-1 see whether the admission policy is enforced, as that is
// weakened in every way that leaves the policy itself where it is, and then removed.
func (s *stage) anAgentNoticesThePolicy(t *testing.T, one *visitor) {
	config := try(clientcmd.BuildConfigFromFlags("", one.kubeconfig)).must(t)
	store := try(nodeagent.NewAPIStore(config, "worker-1", harness.LeaseNamespace)).must(t)
	const unguarded = "lets this agent write the report of another node"
	sees := func(what, want string) {
		t.Helper()
		eventually(t, "the agent to notice "+what, func() bool {
			err := store.CheckPolicy(t.Context())
			return want == "" && err == nil || want != "" && err != nil && strings.Contains(err.Error(), want)
		})
	}
	bindings, policies := s.Client().AdmissionregistrationV1().ValidatingAdmissionPolicyBindings(), s.Client().AdmissionregistrationV1().ValidatingAdmissionPolicies()
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
	sees("that there is no binding", unguarded)
	try(bindings.Create(t.Context(), original, metav1.CreateOptions{})).must(t)
	sees("the binding", "")

	// Another policy that refuses such a write says nothing of this one.
	check(t, policies.Delete(t.Context(), agentName, metav1.DeleteOptions{}))
	sees("that there is no policy", unguarded)
	_, err := policies.Create(t.Context(), &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: agentName},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{sandboxReports.Group}, APIVersions: []string{"*"}, Resources: []string{sandboxReports.Resource}},
			}}}},
			Validations: []admissionv1.Validation{{Expression: "false", Message: "no new reports today", Reason: new(metav1.StatusReasonForbidden)}},
		},
	}, metav1.CreateOptions{})
	check(t, err)
	sees("a policy for something else", "no new reports today")

	reports, err := s.Dynamic().Resource(sandboxReports).List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=ip-reconcile-checks-its-admission-policy"})
	if check(t, err); len(reports.Items) > 0 {
		t.Errorf("the checks stored %d reports", len(reports.Items))
	}
}
