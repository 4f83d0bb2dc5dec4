package informers

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// agentOnly is a view that only the agent of worker-1 writes to.
type agentOnly struct {
	*view
	time time.Time
}

func newAgentOnly() *agentOnly {
	a := &agentOnly{time: time.Now().Truncate(time.Second)}
	a.view = newView("kube-system", func() time.Time { return a.time }, func(string) {}, newKnownReports())
	return a
}

func (a *agentOnly) reports(id, version string) *report {
	r := &v1alpha1.SandboxReport{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}, Sandboxes: []v1alpha1.Sandbox{{ID: id}}}
	parsed := &report{SandboxReport: r, hash: podstate.Hash(r)}
	a.set(v1alpha1.Resource().Resource, &item{NamespacedName: types.NamespacedName{Name: "worker-1"}, ResourceVersion: version, parsed: parsed})
	return parsed
}

func (a *agentOnly) writesLease(r *report, version string) {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "worker-1", Annotations: map[string]string{v1alpha1.HashAnnotation: r.hash},
		ManagedFields: []metav1.ManagedFieldsEntry{{Time: &metav1.Time{Time: a.time}, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:renewTime":{}}}`)}}}}
	a.set("leases", &item{NamespacedName: types.NamespacedName{Namespace: "kube-system", Name: "worker-1"}, ResourceVersion: version, parsed: l})
}

// An agent writes its report and then the Lease with its hash. A pass in
// between must not find the node without a fresh report.
func TestANodesReportIsFreshWhileItsAgentWrites(t *testing.T) {
	v := newAgentOnly()
	check := func(what, id string, fresh bool) {
		t.Helper()
		o := v.observe(&judge.Observation{})
		if r := o.Reports[0]; r.Sandboxes[0].ID != id || r.Fresh(o.Now) != fresh {
			t.Errorf("%s: sandbox %s, fresh %v; want %s, %v", what, r.Sandboxes[0].ID, r.Fresh(o.Now), id, fresh)
		}
	}
	one := v.reports("box-1", "1")
	check("before its Lease", "box-1", false)
	v.writesLease(one, "2")
	check("with its Lease", "box-1", true)
	v.reports("box-2", "3")
	check("the next one, before its Lease", "box-1", true)
	three := v.reports("box-3", "4")
	check("and one more", "box-1", true)
	v.writesLease(three, "5")
	check("its Lease", "box-3", true)
	v.reports("box-4", "6")
	v.time = v.time.Add(leaseDelay)
	check("a Lease that does not come", "box-4", false)
}
