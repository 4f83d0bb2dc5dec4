//go:build !slow && !cluster

package e2e

import (
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// A kind that may be listed and not be watched is polled: a finding that needs it stays, and a later one is found.
func TestServe_KindThatCannotBeWatched(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1", "worker-2")
	one, two := s.agent(t, "worker-1"), s.agent(t, "worker-2")
	kubeconfig := s.applied(t, "../deploy/deployment")
	roles := s.Client().RbacV1().ClusterRoles()
	role := try(roles.Get(t.Context(), "ip-reconcile-serve", metav1.GetOptions{})).must(t)
	role.Rules = without(role.Rules, harness.NADs.Resource, "watch")
	try(roles.Update(t.Context(), role, metav1.UpdateOptions{})).must(t)
	may(t, kubeconfig, authorizationv1.ResourceAttributes{Group: harness.NADs.Group, Resource: harness.NADs.Resource,
		Verb: "watch"}, false)
	first := s.up(t, "worker-1", "first", blue)
	s.forget(t, first)
	s.unreserve(t, first.ips[0])
	second := s.up(t, "worker-2", "second", blue)
	equal(t, "the second's address", second.ips, first.ips)
	one.writeReport(t, first.listed("Ready"))
	two.writeReport(t, second.listed("Ready"))

	v := s.serve(t, kubeconfig)
	const conflicts = `ip_reconcile_findings{kind="Conflict"}`
	v.is(t, conflicts, 2) // of the pods, and of the sandboxes
	v.said(t, `level=WARN msg="Cannot watch a resource.* resource=network-attachment-definitions verb=watch`)
	const attempts = `ip_reconcile_cache_passes_total{`
	for n := range 15 {
		before := v.metric(attempts)
		s.patch(t, harness.IPPools, "10.1.0.0-24", `{"metadata":{"annotations":{"changed":"`+strings.Repeat("x", n+1)+`"}}}`)
		v.counts(t, attempts, before+1)
		if v.metric(conflicts) != 2 {
			t.Fatalf("after %d changes the conflict is gone from the metrics", n+1)
		}
	}
	second.forceDelete(t)
	second.del(t)
	two.writeReport(t, second.gone())
	v.is(t, conflicts, 0)
	equal(t, "warnings of the watch", strings.Count(v.stderr.String(), "Cannot watch a resource"), 1)
}
