package kube

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// fieldManager names our writes in managedFields.
const fieldManager = "ip-reconcile"

// PatchPool sends a JSON patch. A lost race is a 409, a failed test, or a missing pool. Only the metadata of the result
// is requested: a pool of 5,000 entries has 2 MB.
func (c *Cluster) PatchPool(ctx context.Context, p *ippool.Pool, patch []byte) (resourceVersion string, err error) {
	m, err := c.metadata.Resource(ippool.PoolResource).Namespace(p.Namespace).
		Patch(ctx, p.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	switch {
	case err == nil:
		return m.ResourceVersion, nil
	case apierrors.IsConflict(err), testFailed(err), apierrors.IsNotFound(err):
		return "", fmt.Errorf("patch IPPool %s: %w: %v", p.Ref(), reconciler.ErrConflict, err) //nolint:errorlint // only text
	}
	return "", c.writeError(fmt.Sprintf("patch IPPool %s", p.Ref()), err)
}

// testFailed reports whether a test of a JSON patch failed: a 422 that names no object (k8s.io/apiserver v0.36,
// endpoints/handlers/patch.go). The 422 of an admission policy or a schema names the object.
func testFailed(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || !apierrors.IsInvalid(err) {
		return false
	}
	details := status.Status().Details
	return details == nil || details.Name == ""
}

// DeleteReservation deletes this very object, and not a later reservation of the same name.
func (c *Cluster) DeleteReservation(ctx context.Context, r *ippool.Reservation) error {
	uid := types.UID(r.UID)
	err := c.objects.Resource(ippool.ReservationResource).Namespace(r.Namespace).Delete(ctx, r.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &r.ResourceVersion},
	})
	switch {
	case err == nil, isAbsent(err):
		return nil
	case apierrors.IsConflict(err):
		//nolint:errorlint // only text
		return fmt.Errorf("delete reservation %s: %w: %v", r.Ref(), reconciler.ErrConflict, err)
	}
	return c.writeError(fmt.Sprintf("delete reservation %s", r.Ref()), err)
}

// CreatePool creates a pool. An existing pool remains as it is.
func (c *Cluster) CreatePool(ctx context.Context, o *unstructured.Unstructured) (resourceVersion string, err error) {
	return c.create(ctx, ippool.PoolResource, "IPPool", o)
}

// CreateReservation creates a reservation. An existing reservation remains as it is.
func (c *Cluster) CreateReservation(ctx context.Context, o *unstructured.Unstructured) error {
	_, err := c.create(ctx, ippool.ReservationResource, "reservation", o)
	return err
}

func (c *Cluster) create(
	ctx context.Context, resource schema.GroupVersionResource, kind string, o *unstructured.Unstructured,
) (resourceVersion string, err error) {
	what := fmt.Sprintf("create %s %s/%s", kind, o.GetNamespace(), o.GetName())
	api := c.objects.Resource(resource).Namespace(o.GetNamespace())
	created, err := api.Create(ctx, o, metav1.CreateOptions{FieldManager: fieldManager})
	switch {
	case err == nil:
		return created.GetResourceVersion(), nil
	case apierrors.IsAlreadyExists(err):
		return "", fmt.Errorf("%s: %w: %v", what, reconciler.ErrConflict, err) //nolint:errorlint // only text
	}
	return "", c.writeError(what, err)
}
