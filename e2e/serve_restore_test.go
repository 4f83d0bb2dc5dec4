//go:build slow

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// revision is etcd's present revision.
func (s *stage) revision(t testing.TB) uint64 {
	t.Helper()
	list := try(s.of(harness.IPPools).List(context.Background(), metav1.ListOptions{Limit: 1})).must(t)
	return try(strconv.ParseUint(list.GetResourceVersion(), 10, 64)).must(t)
}

// outgrows writes unrelated objects until etcd's revision is past another.
func (s *stage) outgrows(t testing.TB, revision uint64) {
	t.Helper()
	for n := 0; s.revision(t) <= revision; n++ {
		try(s.Client().CoreV1().ConfigMaps("default").Create(context.Background(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "of-no-interest-"},
		}, metav1.CreateOptions{})).must(t)
	}
}

// cachePasses is the number of passes over caches that the server trusts.
const cachePasses = `ip_reconcile_cache_passes_total{result="done"}`

// judgedChange waits until a server trusts its caches and has judged a change of the network blue's pool.
func (s *stage) judgedChange(t testing.TB, v *server) {
	t.Helper()
	before := v.metric(cachePasses)
	eventuallyWithin(t, 3*time.Minute, "a pass over a change", func() bool {
		s.patch(t, harness.IPPools, "10.1.0.0-24", `{"metadata":{"annotations":{"at":"`+time.Now().String()+`"}}}`)
		return v.metric(cachePasses) > before
	})
}

// away makes the API server unreachable for a server during an action.
func (l *link) away(do func()) {
	l.suffers(everything(http.StatusServiceUnavailable))
	l.cut(anyWatch)
	do()
	l.suffers(faults{})
}

// silently acts while agents do not renew.
func silently(do func(), agents ...*agent) {
	if len(agents) == 0 {
		do()
		return
	}
	agents[0].change(func() { silently(do, agents[1:]...) })
}

// backsUpALeak makes two pods on the node of the first agent, and a backup in which one of them is a leak that the
// report of that agent proves. It is released when backsUpALeak returns, and back in the pool after restore.
func (s *stage) backsUpALeak(
	t *testing.T, v *server, l *link, agents ...*agent,
) (keep, leaked *pod, restore func()) {
	t.Helper()
	one := agents[0]
	keep, leaked = s.up(t, one.node, "keep", blue), s.up(t, one.node, "leaked", blue)
	one.writeReport(t, keep.listed("Ready"), leaked.listed("Ready"))
	v.inUse(t, 2)
	l.away(func() {
		leaked.leak(t)
		one.writeReport(t, keep.listed("Ready"), leaked.stopped())
		silently(func() { restore = s.backup(t) }, agents...)
	})
	s.waitReleased(t, recovery, "10.1.0.0-24", "2")
	return keep, leaked, restore
}

// TestServe_Restore: the backup has an allocation that is proven to be a leak, and its address was assigned to another
// pod since. The restore loses that pod, which still runs. etcd's revision has grown past the old one when it is read
// again; in TestServe_RestoreLosesANode it is older.
func TestServe_Restore(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1", "worker-2").withRaceDetector()
	one, two := s.agent(t, "worker-1"), s.agent(t, "worker-2")
	l, kubeconfig := s.link(t)
	v := s.serve(t, kubeconfig, "--fence-timeout=0") // whatever is requested here is released
	keep, leaked, restore := s.backsUpALeak(t, v, l, one, two)
	phantom := s.up(t, "worker-1", "phantom", blue)
	equal(t, "the phantom's address", phantom.ips, leaked.ips)
	one.writeReport(t, keep.listed("Ready"), phantom.listed("Ready"))
	keep.annotate(t, "of", "no interest") // its resourceVersion will run backwards
	v.inUse(t, 2)
	s.outgrows(t, s.revision(t)+200) // the API server writes less at its start
	keep.annotate(t, "of", "no interest either")
	s.judgedChange(t, v)
	newest := s.revision(t)

	l.away(func() {
		silently(func() {
			restore()
			s.outgrows(t, newest)
		}, one, two)
		// The Leases of the backup, as if it had been made just now.
		one.change(func() { one.hash = podstate.Hash(s.report(t, "worker-1")) })
		check(t, one.renew())
		check(t, two.renew())
	})
	before := s.contents(t)
	if before["10.1.0.0-24 2"] == "" {
		t.Fatal("the backup lacks the leak")
	}
	v.counts(t, `ip_reconcile_refused_total{reason="EtcdRestored"}`, 1)
	v.counts(t, `ip_reconcile_etcd_restores_total`, 1)
	contains(t, "the event", s.event(t, "EtcdRestored", "Namespace", metav1.NamespaceSystem), "releases are paused")
	v.said(t, `level=ERROR msg="Detected a restore of etcd`)
	s.checkReleased(t, before)

	// One agent reports again; the other does not yet.
	late := s.up(t, "worker-2", "late", blue)
	one.change(func() { one.restored = "k3f7q2m9xa" })
	one.writeReport(t, keep.listed("Ready"), phantom.listed("Ready"))
	v.is(t, `ip_reconcile_findings{kind="Phantom"}`, 1)
	v.is(t, `ip_reconcile_allocations{reason="ClaimedByOther",verdict="Held"}`, 1)
	late.leak(t)
	v.is(t, `ip_reconcile_candidates`, 1) // detected, although its revisions were observed before
	before = s.contents(t)

	two.writeReport(t, late.stopped())
	s.waitReleased(t, recovery, "10.1.0.0-24", "3")
	s.checkReleased(t, before, stored(late)...)
	v.is(t, `ip_reconcile_candidates`, 0)
}

// TestServe_RestoreWithoutAgents: without agents nothing reports phantoms. A pass from before the restore must not
// cause a release after it. Again the revision has grown past the old one; in TestFence_StandsAtOnceAfterARestore it
// is older.
func TestServe_RestoreWithoutAgents(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1").withRaceDetector()
	l, kubeconfig := s.link(t)
	v := s.serve(t, kubeconfig, "--confirm-after", "31s", "--fence-timeout=0")
	keep, back := s.up(t, "worker-1", "keep", blue), s.up(t, "worker-1", "back", blue)
	onPod := `ip_reconcile_allocations{reason="AddressOnPod",verdict="InUse"}`
	v.is(t, onPod, 2)
	var restore func()
	l.away(func() { restore = s.backup(t) })
	before := s.contents(t)
	// One pod that the restore brings back, one that it loses, one that it makes older.
	back.forceDelete(t)
	s.up(t, "worker-1", "phantom", blue)
	keep.annotate(t, "of", "no interest")
	v.is(t, `ip_reconcile_candidates`, 1)
	v.is(t, onPod, 2)
	s.outgrows(t, s.revision(t)+200)
	keep.annotate(t, "of", "no interest either")
	s.judgedChange(t, v)
	newest := s.revision(t)

	l.away(func() {
		restore()
		s.outgrows(t, newest)
	})
	// A release that the restore interrupts creates the reservation anew, since its delete may yet arrive.
	equal(t, "what is stored", s.contents(t).withoutUIDs(), before.withoutUIDs())
	v.counts(t, `ip_reconcile_etcd_restores_total`, 1)
	s.event(t, "EtcdRestored", "Namespace", metav1.NamespaceSystem)
	v.is(t, `ip_reconcile_candidates`, 0)
	v.is(t, onPod, 2)

	// New pods are detected, although their revisions were observed before. The verdict on a leak counts from after the
	// restore.
	late := s.up(t, "worker-1", "late", blue)
	v.is(t, onPod, 3)
	now := s.contents(t)
	leaked := time.Now()
	late.leak(t)
	v.is(t, `ip_reconcile_candidates`, 1)
	s.waitReleased(t, 3*time.Minute, "10.1.0.0-24", "3")
	if took := time.Since(leaked); took < 28*time.Second {
		t.Errorf("released after %s", took)
	}
	s.checkReleased(t, now, stored(late)...)
}

// worker-2 is newer than the backup, and runs a pod with an address that the backup has for a leak: after the restore
// the API has neither.
func TestServe_RestoreLosesANode(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1").withRaceDetector()
	one := s.agent(t, "worker-1")
	l, kubeconfig := s.link(t)
	v := s.serve(t, kubeconfig)
	keep, leaked, restore := s.backsUpALeak(t, v, l, one)
	s.nodes["worker-2"] = harness.NewNode(t, s.ControlPlane, "worker-2")
	two := s.agent(t, "worker-2")
	phantom := s.up(t, "worker-2", "phantom", blue)
	equal(t, "the phantom's address", phantom.ips, leaked.ips)
	two.writeReport(t, phantom.listed("Ready"))
	v.inUse(t, 2)
	s.outgrows(t, s.revision(t)+200) // the API server writes less at its start
	keep.annotate(t, "of", "no interest")
	s.judgedChange(t, v)

	two.mu.Lock() // its agent does not report
	t.Cleanup(two.mu.Unlock)
	l.away(func() { silently(restore, one) })
	before := s.contents(t)
	v.counts(t, `ip_reconcile_etcd_restores_total`, 1)
	one.writeReport(t, keep.listed("Ready"), leaked.stopped())
	v.is(t, `ip_reconcile_restore_pending_nodes`, 1)
	v.is(t, `ip_reconcile_candidates`, 1)
	v.said(t, `level=ERROR msg="Releases are paused until nodes report after the restore of etcd" nodes=\[worker-2\] `+
		`lost=\[worker-2\]`)

	// Another process reads the stored state.
	out := s.product(t, "check")
	if out.Summary.Restore == nil {
		t.Fatalf("check says nothing of the restore: %s", out.stdout)
	}
	equal(t, "awaited", out.Summary.Restore.Awaiting, []string{"worker-2"})
	contains(t, "the notes", out.stderr, "until these nodes report: worker-2 (its Node object was lost by the restore)")
	out = s.run(t)
	out.exits(t, 1)
	equal(t, "released", places(out.Released), "")
	s.checkReleased(t, before)

	word := fmt.Sprintf(`{"metadata":{"annotations":{"ip-reconcile.dev/restore-acknowledged":%q}}}`,
		out.Summary.Restore.ID)
	try(s.Client().CoreV1().Namespaces().Patch(t.Context(), metav1.NamespaceSystem, types.MergePatchType, []byte(word),
		metav1.PatchOptions{})).must(t)
	s.waitReleased(t, recovery, "10.1.0.0-24", "2")
	v.is(t, `ip_reconcile_restore_pending_nodes`, 0)

	// A node that joins later is not required, by another process either.
	s.nodes["worker-3"] = harness.NewNode(t, s.ControlPlane, "worker-3")
	keep.leak(t)
	one.writeReport(t, keep.stopped())
	s.waitReleased(t, recovery, "10.1.0.0-24", "1")
	equal(t, "the restore in the summary", s.product(t, "check").Summary.Restore == nil, true)
}
