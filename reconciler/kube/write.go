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
)

const fieldManager = "ip-reconcile" // names our writes in managedFields

// PatchPool sends a JSON patch. A lost race is a 409, a failed test, or a missing pool. Only the metadata of the result
// is requested: a pool of 5,000 entries has 2 MB.
func (c *Cluster) PatchPool(ctx context.Context, p *ippool.Pool, patch []byte) (resourceVersion string, err error) {
	m, err := c.metadata.Resource(ippool.PoolResource).Namespace(p.Namespace).
		Patch(ctx, p.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	isConflict := apierrors.IsConflict(err) || testFailed(err) || apierrors.IsNotFound(err)
	if err = c.writeError("patch IPPool "+p.Ref(), err, isConflict); err != nil {
		return "", err
	}
	return m.ResourceVersion, nil
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
	if isAbsent(err) {
		return nil
	}
	return c.writeError("delete reservation "+r.Ref(), err, apierrors.IsConflict(err))
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
	api := c.objects.Resource(resource).Namespace(o.GetNamespace())
	created, err := api.Create(ctx, o, metav1.CreateOptions{FieldManager: fieldManager})
	what := fmt.Sprintf("create %s %s/%s", kind, o.GetNamespace(), o.GetName())
	if err = c.writeError(what, err, apierrors.IsAlreadyExists(err)); err != nil {
		return "", err
	}
	return created.GetResourceVersion(), nil
}
