//go:build slow

package e2e

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// TestAPoolThatWasDeletedIsMadeAgainWithWhatRuns deletes a pool, as is advised where a range is
// full. whereabouts' next ADD would make it, empty, and hand out what runs.
func TestAPoolThatWasDeletedIsMadeAgainWithWhatRuns(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1")
	check(t, s.CreateNAD(t.Context(), blue))
	pods := []*pod{s.up(t, "worker-1", "web-0", blue).age(t, 10*time.Minute), s.up(t, "worker-1", "web-1", blue).age(t, 10*time.Minute)}
	s.agent(t, "worker-1").writeReport(t, pods[0].listed(v1alpha1.SandboxReady), pods[1].listed(v1alpha1.SandboxReady))
	before, whole := s.contents(t), try(s.of(harness.IPPools).Get(t.Context(), "10.1.0.0-24", metav1.GetOptions{})).must(t)

	check(t, s.of(harness.IPPools).Delete(t.Context(), "10.1.0.0-24", metav1.DeleteOptions{}))
	found := s.product(t, "check").found("Unrecorded")
	if equal(t, "unrecorded", len(found), 2); len(found) > 0 {
		contains(t, "it says", found[0].Message, "pool kube-system/10.1.0.0-24 is not there")
	}
	out := s.run(t, "--repair")
	out.exits(t, 0)
	s.lost(t, before)
	again := try(s.of(harness.IPPools).Get(t.Context(), "10.1.0.0-24", metav1.GetOptions{})).must(t)
	equal(t, "its range", again.Object["spec"].(map[string]any)["range"], whole.Object["spec"].(map[string]any)["range"])

	next := s.up(t, "worker-1", "web-2", blue)
	equal(t, "what the next ADD gives", strings.Join(next.ips, ","), "10.1.0.3")
	for _, p := range pods {
		p.del(t)
	}
	equal(t, "entries and reservations after their DELs", len(s.contents(t)), 2)
}
