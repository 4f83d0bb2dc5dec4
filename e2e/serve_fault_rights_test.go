//go:build slow

package e2e

import (
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// servingRules are rules with which serve lacks nothing.
func servingRules(t testing.TB) []rbacv1.PolicyRule {
	t.Helper()
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	return []rbacv1.PolicyRule{
		rule("whereabouts.cni.cncf.io", "ippools", "get", "list", "watch", "patch"),
		rule("whereabouts.cni.cncf.io", "overlappingrangeipreservations", "get", "list", "watch", "create", "delete"),
		rule("k8s.cni.cncf.io", "network-attachment-definitions", "get", "list", "watch"),
		rule("", "pods", "get", "list", "watch"),
		rule("", "nodes", "get", "list", "watch"),
		rule("", "namespaces", "get", "list", "watch"),
		rule("", "events", "create", "patch"),
		rule("ip-reconcile.dev", "sandboxreports", "get", "list", "watch"),
		rule("coordination.k8s.io", "leases", "get", "list", "watch", "create", "update"),
	}
}

// grants puts rules in the place of an account's, and waits until they count.
func (s *stage) grants(t testing.TB, name, kubeconfig string, rules []rbacv1.PolicyRule, resource, verb string, want bool) {
	t.Helper()
	ctx := t.Context()
	role := try(s.Client().RbacV1().ClusterRoles().Get(ctx, name, metav1.GetOptions{})).must(t)
	group := ""
	for _, r := range servingRules(t) {
		if r.Resources[0] == resource {
			group = r.APIGroups[0]
		}
	}
	role.Rules = rules
	try(s.Client().RbacV1().ClusterRoles().Update(ctx, role, metav1.UpdateOptions{})).must(t)
	client := try(kubernetes.NewForConfig(try(clientcmd.BuildConfigFromFlags("", kubeconfig)).must(t))).must(t)
	eventually(t, "the change of rights", func() bool {
		review := try(client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Group: group, Resource: resource, Verb: verb}},
		}, metav1.CreateOptions{})).must(t)
		return review.Status.Allowed == want
	})
}

func TestServeWaitsForARightThatIsTakenFromIt(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1").withRaceDetector()
	one := s.agent(t, "worker-1")
	rules := servingRules(t)
	kubeconfig := s.account(t, "serve", rules)
	for _, tt := range []struct {
		resource string
		verbs    []string // all if nil
		says     string
		frees    bool // all the same
	}{
		{"pods", nil, `reconciler run failed: no right to list pods`, false},
		{"ippools", []string{"list", "watch"}, `reconciler run failed: no right to list IPPools`, false},
		{"ippools", []string{"patch"}, `not released.*forbidden.*cannot patch resource`, false},
		{"leases", nil, `no right to whereabouts' Lease|Leases in namespace ip-reconcile-node-lease could not be read`, false},
		{"sandboxreports", nil, `SandboxReports are served and could not be read`, false},
		{"nodes", nil, `no right to list nodes`, true},
	} {
		verb := "list"
		if tt.verbs != nil {
			verb = tt.verbs[0]
		}
		s.play(t, verb+" "+tt.resource, func(t *testing.T) {
			one.writeReport(t)
			// Watches that are open outlive the right: passes ask again.
			v := s.serve(t, kubeconfig, "--cron", "@every 5s")
			web, keep := s.up(t, "worker-1", "web", blue), s.up(t, "worker-1", "keep", blue)
			one.writeReport(t, web.listed("Ready"), keep.listed("Ready"))
			v.inUse(t, 2)
			before := s.contents(t)
			s.grants(t, "serve", kubeconfig, without(rules, tt.resource, tt.verbs...), tt.resource, verb, false)
			if tt.verbs == nil || verb == "list" {
				v.said(t, tt.says)
			}
			web.leak(t)
			one.writeReport(t, web.stopped(), keep.listed("Ready"))
			v.said(t, tt.says)
			if tt.frees {
				s.freed(t, recovery, "10.1.0.0-24", "1")
			} else {
				s.waitRecreated(t, before)
			}
			s.grants(t, "serve", kubeconfig, rules, tt.resource, verb, true)
			s.freed(t, recovery, "10.1.0.0-24", "1")
			s.lost(t, before, stored(web)...)
			v.repeatsNothing(t)
		})
	}
}
