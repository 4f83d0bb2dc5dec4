//go:build !slow && !cluster

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// What docs/threat-model.md takes for granted of whoever may edit a namespace.
func TestWhatAUserWithTheRoleEditCanWrite(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1")
	for user, namespace := range map[string]string{"tenant": metav1.NamespaceDefault, "editor": metav1.NamespaceSystem} {
		try(s.Client().RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "edit"},
			// What edit is made of; the controller that does that is not there.
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:aggregate-to-edit"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
		}, metav1.CreateOptions{})).must(t)
	}
	tenant, editor := s.as(t, "tenant"), s.as(t, "editor")
	pods := thing{podsResource, metav1.NamespaceDefault, newMirror}
	own := thing{leasesResource, metav1.NamespaceSystem, newLease}
	for who, try := range map[*visitor]attempt{tenant: pods.dryRun("mine"), editor: own.dryRun("mine")} {
		eventually(t, "the rights to be there", func() bool {
			err := try(t.Context(), who)
			return err == nil || !strings.Contains(err.Error(), noRight)
		})
	}
	reports, freshness := thing{sandboxReports, "", newReport}, thing{leasesResource, harness.LeaseNamespace, newLease}
	checkTrials(t, "a tenant may", []trial{
		{"create a pod that calls itself a mirror of another", tenant, pods.create("mine"), ""},
		{"write its network-status", tenant, pods.patch("mine", types.MergePatchType, `{"metadata":{"annotations":{"k8s.v1.cni.cncf.io/network-status":"[]"}}}`), ""},
		{"keep it by a finalizer", tenant, pods.patch("mine", types.MergePatchType, `{"metadata":{"finalizers":["example.com/keep"]}}`), ""},
	})
	checkTrials(t, "it has no right for", []trial{
		{"a pod's status", tenant, pods.patch("mine", types.MergePatchType, `{"status":{"phase":"Failed"}}`, "status"), noRight},
		{"a pod of another namespace", tenant, thing{podsResource, metav1.NamespaceSystem, newMirror}.create("mine"), noRight},
		{"a report", tenant, reports.create("worker-1"), noRight},
		{"the Lease that makes a report fresh", tenant, freshness.create("worker-1"), noRight},
		{"a pool", tenant, thing{r: harness.IPPools, namespace: metav1.NamespaceSystem}.merge("10.0.0.0-24"), noRight},
		{"a reservation", tenant, thing{r: harness.Reservations, namespace: metav1.NamespaceSystem}.delete("10.9.0.1"), noRight},
		{"whereabouts' Lease", tenant, own.create("whereabouts"), noRight},
		{"a node's taints", tenant, thing{r: nodesResource}.merge("worker-1"), noRight},
	})
	checkTrials(t, "an editor of kube-system may", []trial{
		{"write whereabouts' Lease", editor, own.create("whereabouts"), ""},
		{"write the Lease that keeps what is known of restores", editor, own.create("ip-reconcile-restore"), ""},
	})
	checkTrials(t, "an editor of kube-system has no right for", []trial{
		{"the Lease that makes a report fresh", editor, freshness.create("worker-1"), noRight},
		{"a report", editor, reports.create("worker-1"), noRight},
	})
}

// newMirror is a pod that pretends to be the mirror of a static pod. The API server
// wants such a pod to be bound to a node.
func newMirror(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": name, "annotations": map[string]any{"kubernetes.io/config.mirror": "the UID of another"}},
		"spec":     map[string]any{"nodeName": "worker-1", "containers": []any{map[string]any{"name": "app", "image": "e2e.invalid/none"}}},
	}}
}

func TestTheAPIServerBoundsAReport(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1")
	admin := newVisitor(t, s.Config(), "")
	many := func(sandboxes int, name string) attempt {
		return func(ctx context.Context, v *visitor) error {
			u, all := newReport("worker-1"), []any{}
			for i := range sandboxes {
				all = append(all, map[string]any{"id": fmt.Sprint(i), "state": "Ready", "name": name})
			}
			u.Object["sandboxes"] = all
			_, err := v.Resource(sandboxReports).Create(ctx, u, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}
	}
	for what, c := range map[string]struct {
		try  attempt
		says string
	}{
		"4,000 sandboxes":       {many(4000, ""), ""},
		"one more":              {many(4001, ""), "must have at most 4000 items"},
		"4,000 of a KiB each":   {many(4000, strings.Repeat("x", 1024)), "too large"},
		"an id of 129 bytes":    {thing{sandboxReports, "", reportOf(strings.Repeat("x", 129))}.dryRun("worker-1"), "Too long: may not be"},
		"an id of 128 as usual": {thing{sandboxReports, "", reportOf(strings.Repeat("x", 128))}.dryRun("worker-1"), ""},
	} {
		err := c.try(t.Context(), admin)
		switch {
		case c.says == "":
			check(t, err)
		case err == nil:
			t.Errorf("%s: it was taken", what)
		default:
			contains(t, what, err.Error(), c.says)
		}
	}
}

// reportOf makes reports of one sandbox.
func reportOf(id string) func(name string) *unstructured.Unstructured {
	return func(name string) *unstructured.Unstructured {
		u := newReport(name)
		u.Object["sandboxes"] = []any{map[string]any{"id": id, "state": "Ready"}}
		return u
	}
}
