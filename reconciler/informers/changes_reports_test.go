package informers

import (
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/podstate/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// A report that cannot be read, and still cannot, is no news because its agent renews its Lease.
func TestTheLeaseOfAReportThatCannotBeReadIsNotEverything(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	v := b.g.view
	r := aReport("23")
	r.Object["sandboxes"] = "nonsense"
	b.tells("sandboxreports", r)
	v.observe(&reconciler.Observation{})
	b.tells("leases", aLease("24", "worker-1", "abc", 0))
	b.tells("pods", aPod("web", "25"))
	equal(t, "a pod, and a Lease that was renewed", fmt.Sprint(told(v.changesSince())), "[pod web]")
}

// What a look at everything says of a node is what the changes since say, too.
func TestANodeWhoseLeaseDoesNotComeIsUnheardForWhatIsFollowed(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	v := newView("kube-system", func() time.Time { return now }, func(string) {})
	told := func(id string, version string) *report {
		r := &v1alpha1.SandboxReport{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}, Sandboxes: []v1alpha1.Sandbox{{ID: id}}}
		parsed := &report{SandboxReport: r, hash: podstate.Hash(r)}
		v.set(v1alpha1.Resource().Resource, &item{NamespacedName: types.NamespacedName{Name: "worker-1"}, ResourceVersion: version, parsed: parsed})
		return parsed
	}
	one := told("box-1", "1")
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "worker-1", Annotations: map[string]string{v1alpha1.HashAnnotation: one.hash},
		ManagedFields: []metav1.ManagedFieldsEntry{{Time: &metav1.Time{Time: now}, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:renewTime":{}}}`)}}}}
	v.set("leases", &item{NamespacedName: types.NamespacedName{Namespace: "kube-system", Name: "worker-1"}, ResourceVersion: "2", parsed: l})
	told("box-2", "3")
	o := v.observe(&reconciler.Observation{}) // box-1, fresh
	known := o.Reports[0]
	now = now.Add(inStepFor + time.Second)
	if r := v.changesSince().Reports["worker-1"]; r != nil {
		known = r
	}
	all := v.observe(&reconciler.Observation{}).Reports[0]
	if known.Sandboxes[0].ID != all.Sandboxes[0].ID || known.Fresh(now) != all.Fresh(now) {
		t.Errorf("followed: sandbox %s, fresh %v; a look at everything: %s, %v", known.Sandboxes[0].ID, known.Fresh(now), all.Sandboxes[0].ID, all.Fresh(now))
	}
}
