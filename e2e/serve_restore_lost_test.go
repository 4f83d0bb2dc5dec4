//go:build slow

package e2e

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// worker-2 is newer than the backup, and runs a pod with an address that the backup has
// for a leak: after the restore the API knows neither.
func TestServeWaitsForANodeThatARestoreHasLostUntilThatIsAcknowledged(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1").withRaceDetector()
	one := s.agent(t, "worker-1")
	l, kubeconfig := s.link(t)
	v := s.serve(t, kubeconfig)
	keep, leaked := s.up(t, "worker-1", "keep", blue), s.up(t, "worker-1", "leaked", blue)
	one.writeReport(t, keep.listed("Ready"), leaked.listed("Ready"))
	v.inUse(t, 2)
	var restore func()
	l.away(func() {
		leaked.leak(t)
		one.writeReport(t, keep.listed("Ready"), leaked.stopped())
		silently(func() { restore = s.backup(t) }, one)
	})
	s.freed(t, recovery, "10.1.0.0-24", "2")
	s.nodes["worker-2"] = harness.NewNode(t, s.ControlPlane, "worker-2")
	two := s.agent(t, "worker-2")
	phantom := s.up(t, "worker-2", "phantom", blue)
	equal(t, "the phantom's address", phantom.ips, leaked.ips)
	two.writeReport(t, phantom.listed("Ready"))
	v.inUse(t, 2)
	s.outgrows(t, s.revision(t)+200) // what the API server writes at its start comes to less
	keep.annotate(t, "of", "no interest")
	s.judgedChange(t, v)

	two.mu.Lock() // its agent is not heard any more
	t.Cleanup(two.mu.Unlock)
	l.away(func() { silently(restore, one) })
	before := s.contents(t)
	v.counts(t, `ip_reconcile_etcd_restores_total`, 1)
	one.writeReport(t, keep.listed("Ready"), leaked.stopped())
	v.is(t, `ip_reconcile_restore_awaited_nodes`, 1)
	v.is(t, `ip_reconcile_candidates`, 1)
	v.said(t, `level=ERROR msg="nothing is released until these nodes have written their reports" nodes=\[worker-2\] lost=\[worker-2\]`)

	// Another process knows it by what was kept.
	out := s.product(t, "check")
	if out.Summary.Restore == nil {
		t.Fatalf("check says nothing of the restore: %s", out.stdout)
	}
	equal(t, "awaited", out.Summary.Restore.Awaiting, []string{"worker-2"})
	contains(t, "the notes", out.stderr, "node worker-2 (which the restore has lost) has not written its SandboxReport since", "ip-reconcile.dev/restore-acknowledged="+out.Summary.Restore.Restored)
	out = s.run(t)
	out.exits(t, 1)
	equal(t, "released", places(out.Released), "")
	s.lost(t, before)

	word := fmt.Sprintf(`{"metadata":{"annotations":{"ip-reconcile.dev/restore-acknowledged":%q}}}`, out.Summary.Restore.Restored)
	try(s.Client().CoreV1().Namespaces().Patch(t.Context(), metav1.NamespaceSystem, types.MergePatchType, []byte(word), metav1.PatchOptions{})).must(t)
	s.freed(t, recovery, "10.1.0.0-24", "2")
	v.is(t, `ip_reconcile_restore_awaited_nodes`, 0)

	// A node that joins later is not asked, by another process either.
	s.nodes["worker-3"] = harness.NewNode(t, s.ControlPlane, "worker-3")
	keep.leak(t)
	one.writeReport(t, keep.stopped())
	s.freed(t, recovery, "10.1.0.0-24", "1")
	equal(t, "the restore in the summary", s.product(t, "check").Summary.Restore == nil, true)
}
