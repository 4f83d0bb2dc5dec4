//go:build slow

package harness

import (
	"bytes"
	"context"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPlanes_AreCleanForTheNextTest(t *testing.T) {
	t.Parallel()
	if why := Unsupported(); why != "" {
		t.Skip(why)
	}
	planes := &Planes{}
	t.Cleanup(func() { check(t, planes.Close()) })
	var folder, address string
	var fresh contents
	t.Run("the first leaves much", func(t *testing.T) {
		c := planes.Start(t)
		folder, address, fresh = c.Dir(), c.server(), try(c.contents(t.Context(), false)).must(t)
		_, err := c.CreatePod(t.Context(), "default", "web", "")
		check(t, err)
		check(t, c.Dynamic().Resource(crds).Delete(t.Context(), "ippools.whereabouts.cni.cncf.io", metav1.DeleteOptions{}))
		check(t, poll(t.Context(), func(ctx context.Context) (bool, error) { // else another is started
			_, err := c.Dynamic().Resource(crds).Get(ctx, "ippools.whereabouts.cni.cncf.io", metav1.GetOptions{})
			return apierrors.IsNotFound(err), nil
		}))
		check(t, c.Client().CoreV1().Namespaces().Delete(t.Context(), LeaseNamespace, metav1.DeleteOptions{}))
		admin := try(c.Client().RbacV1().ClusterRoles().Get(t.Context(), "cluster-admin", metav1.GetOptions{})).must(t)
		admin.Rules = []rbacv1.PolicyRule{}
		try(c.Client().RbacV1().ClusterRoles().Update(t.Context(), admin, metav1.UpdateOptions{})).must(t)
	})
	t.Run("the next finds nothing of it", func(t *testing.T) {
		c := planes.Start(t)
		equal(t, "the server", c.server(), address)
		equal(t, "the folder is another one", c.Dir() != folder, true)
		found := try(c.contents(t.Context(), false)).must(t)
		for key, was := range fresh {
			if !bytes.Equal(found[key].value, was.value) && key != "/registry/leases/kube-system/"+identity(t, c) {
				t.Errorf("%s is another one", key)
			}
			delete(found, key)
		}
		for key := range found {
			t.Errorf("%s is there", key)
		}
		_, err := c.Client().CoreV1().Pods("default").Get(t.Context(), "web", metav1.GetOptions{})
		equal(t, "the pod is gone", apierrors.IsNotFound(err), true)
		try(c.Dynamic().Resource(IPPools).List(t.Context(), metav1.ListOptions{})).must(t)
		equal(t, "writes of pools and reservations", len(try(c.AuditLog().Next()).must(t)), 0)
		c.StopAPI()
	})
	t.Run("one that was stopped is not given again", func(t *testing.T) {
		equal(t, "the server is another one", planes.Start(t).server() != address, true)
	})
}

// identity is the Lease that the API server renews.
func identity(t *testing.T, c *ControlPlane) string {
	t.Helper()
	leases := try(c.Client().CoordinationV1().Leases("kube-system").List(t.Context(),
		metav1.ListOptions{LabelSelector: "apiserver.kubernetes.io/identity"})).must(t)
	equal(t, "API servers", len(leases.Items), 1)
	return leases.Items[0].Name
}
