package e2e

import (
	"bufio"
	"errors"
	"io"
	"os"
	"slices"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// upstreamRules are those of whereabouts v0.9.4's ClusterRole, as shipped.
func upstreamRules(t testing.TB) []rbacv1.PolicyRule {
	t.Helper()
	f := try(os.Open(harness.UpstreamManifest(t, "daemonset-install.yaml"))).must(t)
	defer f.Close()
	for documents := yaml.NewYAMLReader(bufio.NewReader(f)); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			t.Fatal("daemonset-install.yaml has no ClusterRole")
		}
		check(t, err)
		var role rbacv1.ClusterRole
		if yaml.Unmarshal(document, &role) == nil && role.Kind == "ClusterRole" {
			return role.Rules
		}
	}
}

// without takes verbs on a resource out of rules; no verbs mean all of them.
func without(rules []rbacv1.PolicyRule, resource string, verbs ...string) []rbacv1.PolicyRule {
	var rest []rbacv1.PolicyRule
	for _, r := range rules {
		r = *r.DeepCopy()
		if slices.Contains(r.Resources, resource) {
			kept := r
			kept.Resources = slices.DeleteFunc(slices.Clone(r.Resources), func(x string) bool { return x == resource })
			r.Resources = []string{resource}
			r.Verbs = slices.DeleteFunc(slices.Clone(r.Verbs), func(v string) bool { return len(verbs) == 0 || slices.Contains(verbs, v) })
			if len(kept.Resources) > 0 {
				rest = append(rest, kept)
			}
		}
		if len(r.Verbs) > 0 {
			rest = append(rest, r)
		}
	}
	return rest
}

// account makes a ServiceAccount with just these rights and returns its
// kubeconfig. As it is also for rights with which nothing can be judged.
func (s *stage) account(t testing.TB, name string, rules []rbacv1.PolicyRule) string {
	t.Helper()
	ctx := t.Context()
	meta := metav1.ObjectMeta{Name: name}
	try(s.Client().CoreV1().ServiceAccounts(metav1.NamespaceSystem).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})).must(t)
	try(s.Client().RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})).must(t)
	try(s.Client().RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: metav1.NamespaceSystem, Name: name}},
	}, metav1.CreateOptions{})).must(t)
	kubeconfig := s.KubeconfigFor(t, metav1.NamespaceSystem, name)
	// The API server learns of roles a moment after they are stored.
	s.mayNow(t, kubeconfig, rules[0])
	return kubeconfig
}

// mayNow waits until the API server grants an account a right.
func (s *stage) mayNow(t testing.TB, kubeconfig string, r rbacv1.PolicyRule) {
	t.Helper()
	client := try(kubernetes.NewForConfig(try(clientcmd.BuildConfigFromFlags("", kubeconfig)).must(t))).must(t)
	eventually(t, "the rights of the ServiceAccount", func() bool {
		review := try(client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: r.APIGroups[0], Resource: r.Resources[0], Verb: r.Verbs[0],
			}},
		}, metav1.CreateOptions{})).must(t)
		return review.Status.Allowed
	})
}
