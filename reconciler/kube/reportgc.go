package kube

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// HasNode asks, by quorum, whether there is a Node object.
func (c *Cluster) HasNode(ctx context.Context, name string) (bool, error) {
	_, err := c.core.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if absent(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("get Node %s: %w", name, err)
	}
	return true, nil
}

// DeleteReport deletes this very report, and then its agent's Lease. A Lease by
// that name that no agent wrote stays.
func (c *Cluster) DeleteReport(ctx context.Context, r *podstate.Report) error {
	err := c.objects.Resource(v1alpha1.Resource()).Delete(ctx, r.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &r.UID, ResourceVersion: &r.ResourceVersion},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete SandboxReport %s: %w", r.Name, err)
	}
	leases := c.core.CoordinationV1().Leases(c.LeaseNamespace)
	lease, err := leases.Get(ctx, r.Name, metav1.GetOptions{})
	if err == nil && lease.Annotations[v1alpha1.HashAnnotation] != "" {
		err = leases.Delete(ctx, r.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion},
		})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete Lease %s in namespace %s: %w", r.Name, c.LeaseNamespace, err)
	}
	return nil
}
