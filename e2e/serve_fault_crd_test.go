//go:build slow

package e2e

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// crd returns the CRD of a resource, as it can be created again.
func (s *stage) crd(t testing.TB, r schema.GroupVersionResource) *unstructured.Unstructured {
	t.Helper()
	crd := try(s.Dynamic().Resource(crds).Get(context.Background(), r.Resource+"."+r.Group, metav1.GetOptions{})).must(t)
	crd.SetResourceVersion("")
	crd.SetUID("")
	unstructured.RemoveNestedField(crd.Object, "status")
	return crd
}

// serves creates a CRD and waits until the API server takes objects of it.
func (s *stage) serves(t testing.TB, r schema.GroupVersionResource, crd *unstructured.Unstructured) {
	t.Helper()
	try(s.Dynamic().Resource(crds).Create(context.Background(), crd, metav1.CreateOptions{})).must(t)
	eventually(t, r.Resource+" to be served", func() bool {
		_, err := s.Dynamic().Resource(r).List(context.Background(), metav1.ListOptions{})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsTooManyRequests(err) && !apierrors.IsServiceUnavailable(err) {
			t.Error(err)
		}
		return err == nil
	})
}

func TestServeWhileACRDComesAndGoes(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1").withRaceDetector()
	reports, pools, nads := s.crd(t, sandboxReports), s.crd(t, harness.IPPools), s.crd(t, harness.NADs)
	v := s.serve(t, s.Kubeconfig(), "--confirm-after", "3s")
	held := `ip_reconcile_allocations{reason="NoFreshReport",verdict="Held"}`

	// SandboxReports were seen: that they are not served any more proves nothing.
	one := s.agent(t, "worker-1")
	keep, silent := s.up(t, "worker-1", "keep", blue), s.up(t, "worker-1", "silent", blue)
	one.writeReport(t, keep.listed("Ready"), silent.listed("Ready"))
	v.inUse(t, 2)
	before := s.contents(t)
	one.change(func() { // it does not renew meanwhile
		s.removeCRD(t, sandboxReports)
		silent.leak(t)
		v.is(t, held, 1)
		s.serves(t, sandboxReports, reports)
	})
	one.writeReport(t, keep.listed("Ready"), silent.listed("Ready"))
	v.is(t, `ip_reconcile_allocations{reason="PhantomPod",verdict="Held"}`, 1)
	s.lost(t, before)
	one.writeReport(t, keep.listed("Ready"), silent.stopped())
	s.freed(t, recovery, "10.1.0.0-24", "2")
	s.lost(t, before, stored(silent)...)

	// Without definitions it goes on.
	s.removeCRD(t, harness.NADs)
	web := s.up(t, "worker-1", "web", blue)
	one.writeReport(t, keep.listed("Ready"), web.listed("Ready"))
	v.inUse(t, 2)
	web.leak(t)
	one.writeReport(t, keep.listed("Ready"), web.stopped())
	s.freed(t, recovery, "10.1.0.0-24", "2")
	s.serves(t, harness.NADs, nads)

	// Without pools there is nothing to judge, and nothing is concluded.
	reserved := try(s.of(harness.Reservations).Get(t.Context(), "10.1.0.1", metav1.GetOptions{})).must(t)
	s.removeCRD(t, harness.IPPools)
	v.said(t, `reconciler run failed: .* does not serve ippools`)
	equal(t, "the reservation", try(s.of(harness.Reservations).Get(t.Context(), "10.1.0.1", metav1.GetOptions{})).must(t).GetUID(), reserved.GetUID())
	s.serves(t, harness.IPPools, pools)
	again := s.up(t, "worker-1", "again", simple("green", "10.2.0.0/24"))
	one.writeReport(t, keep.listed("Ready"), again.listed("Ready"))
	v.is(t, `ip_reconcile_allocations{reason="SandboxReady",verdict="InUse"}`, 1)
	again.leak(t)
	one.writeReport(t, keep.listed("Ready"), again.stopped())
	s.freed(t, recovery, "10.2.0.0-24", "1")
	v.repeatsNothing(t)
}

func TestServeTakesUpReportsThatAreServedLater(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1").withRaceDetector()
	reports := s.crd(t, sandboxReports)
	s.removeCRD(t, sandboxReports)
	v := s.serve(t, s.Kubeconfig(), "--cron", "@every 3s")
	phantom := s.up(t, "worker-1", "phantom", blue)
	phantom.forceDelete(t)
	v.is(t, `ip_reconcile_candidates`, 1)
	s.serves(t, sandboxReports, reports)
	one := s.agent(t, "worker-1")
	one.writeReport(t, phantom.listed("Ready"))
	v.is(t, `ip_reconcile_allocations{reason="PhantomPod",verdict="Held"}`, 1)
	v.said(t, `what may be watched has changed`)
	before := s.contents(t)
	one.writeReport(t, phantom.stopped())
	s.freed(t, recovery, "10.1.0.0-24", "1")
	s.lost(t, before, stored(phantom)...)
}
