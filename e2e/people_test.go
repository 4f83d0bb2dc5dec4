//go:build !slow && !cluster

package e2e

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

// person is the kubeconfig of somebody to whom a ClusterRole of the manifests is bound.
func (s *stage) person(t *testing.T, role string) (kubeconfig string) {
	t.Helper()
	rules := as[rbacv1.ClusterRole](t, byName(t, s.rendered(t, "../deploy/base"))["ClusterRole "+role]).Rules
	return s.account(t, "somebody-with-"+role, rules)
}

func TestWhoMayRunCheckAndWhoMayRunRecover(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1")
	s.applied(t, "../deploy/deployment-with-agent")
	node := s.agent(t, "worker-1")
	leaked, live := s.up(t, "worker-1", "leaked", blue), s.up(t, "worker-1", "live", blue)
	node.writeReport(t, leaked.stopped(), live.listed(v1alpha1.SandboxReady))
	leaked.leak(t)
	viewer := s.person(t, "ip-reconcile-check")
	for _, args := range [][]string{{"check"}, {"explain", leaked.ips[0]}, {"explain", "default/live"}, {"pools"}, {"status"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			out := product(t, append(args, "--kubeconfig", viewer)...)
			if out.code > 1 {
				t.Errorf("it ended with %d", out.code)
			}
			text := unwrapped(out.stdout + out.stderr)
			// Whose rights these are is for who may ask about others.
			text = strings.ReplaceAll(text, "The rights of ServiceAccount kube-system/ip-reconcile are not known: no right to it", "")
			containsNot(t, "what it says", text, "no right to list", "no right to get", "are not known: no right")
		})
	}
	before := s.contents(t)
	s.productAs(t, viewer, "run", "--confirm-after", "0").exits(t, 1)
	s.lost(t, before)

	s.forget(t, live)
	forgotten := s.contents(t)
	recovers := s.person(t, "ip-reconcile-recover")
	product(t, "recover", "--yes", "--reconciler-namespace", metav1.NamespaceSystem, "--kubeconfig", recovers).exits(t, 0)
	equal(t, "entries that were written back", len(s.contents(t))-len(forgotten), 1)
	s.productAs(t, recovers, "run").exits(t, 0)
	s.lost(t, before, stored(leaked)...)
}

func TestWhoMayViewEverythingMayRunCheck(t *testing.T) {
	t.Parallel()
	role := as[rbacv1.ClusterRole](t, byName(t, installed(t, ""))["ClusterRole ip-reconcile-check"])
	equal(t, "the label", role.Labels["rbac.authorization.k8s.io/aggregate-to-view"], "true")
	for _, r := range role.Rules {
		for _, verb := range r.Verbs {
			if verb != "get" && verb != "list" {
				t.Errorf("who views may %s %v", verb, r.Resources)
			}
		}
		for _, resource := range r.Resources {
			if resource == "secrets" || resource == "*" {
				t.Errorf("who views may read %s", resource)
			}
		}
	}
}
