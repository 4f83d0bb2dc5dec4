package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

const fieldManager = "ip-reconcile" // names our writes in managedFields

// writers returns clients that send only requests that may be sent.
func (c *Cluster) writers(may func(*http.Request) bool) (
	objects dynamic.Interface, ofMetadata metadata.Interface, err error,
) {
	through, err := c.httpClient(may)
	if err == nil {
		objects, err = dynamic.NewForConfigAndClient(c.ofObjects, through)
	}
	if err == nil {
		ofMetadata, err = metadata.NewForConfigAndClient(c.ofMetadata, through)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("set up a client for %s: %w", c.host, err)
	}
	return objects, ofMetadata, nil
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

// deleteReservation deletes this very object, and not a later reservation of the same name.
func (c *Cluster) deleteReservation(ctx context.Context, through dynamic.Interface, r *ippool.Reservation) error {
	uid := types.UID(r.UID)
	err := through.Resource(ippool.ReservationResource).Namespace(r.Namespace).Delete(ctx, r.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &r.ResourceVersion},
	})
	if isAbsent(err) {
		return nil
	}
	return c.writeError("delete reservation "+r.Ref(), err, apierrors.IsConflict(err))
}

func (c *Cluster) createReservation(ctx context.Context, through dynamic.Interface, r *ippool.Reservation) error {
	_, err := c.create(ctx, through, ippool.ReservationResource, "reservation", r.AsNew())
	return err
}

func (c *Cluster) create(
	ctx context.Context, through dynamic.Interface, resource schema.GroupVersionResource, kind string,
	o *unstructured.Unstructured,
) (resourceVersion string, err error) {
	api := through.Resource(resource).Namespace(o.GetNamespace())
	created, err := api.Create(ctx, o, metav1.CreateOptions{FieldManager: fieldManager})
	what := fmt.Sprintf("create %s %s/%s", kind, o.GetNamespace(), o.GetName())
	if err = c.writeError(what, err, apierrors.IsAlreadyExists(err)); err != nil {
		return "", err
	}
	return created.GetResourceVersion(), nil
}
