package kube

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
)

// AllowRetirement lets the sessions of this process delete these pools, and no others, if RBAC does. Only a command by
// which a person has asked for it calls it, before the first hold. Where RBAC forbids it the error is
// apply.ErrForbidden.
func (c *Cluster) AllowRetirement(ctx context.Context, pools []types.NamespacedName) error {
	allowed := map[types.NamespacedName]bool{}
	for _, p := range pools {
		may, err := c.May(ctx, "", authorizationv1.ResourceAttributes{Group: ippool.PoolResource.Group,
			Version: ippool.PoolResource.Version, Resource: ippool.PoolResource.Resource, Verb: "delete",
			Namespace: p.Namespace, Name: p.Name})
		if err != nil {
			return err
		}
		if !may {
			return fmt.Errorf("delete IPPool %s: %w: the ClusterRole ip-reconcile-recover has that right", p, apply.ErrForbidden)
		}
		allowed[p] = true
	}
	c.retirable = allowed
	return nil
}

// DeletePool implements apply.Session. The propagation policy sets no finalizer, so that the pool ends at once.
func (s *session) DeletePool(ctx context.Context, r *ippool.Removal) error {
	at := r.Pool()
	uid, resourceVersion := r.Version()
	err := s.objects.Resource(ippool.PoolResource).Namespace(at.Namespace).Delete(ctx, at.Name, metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: ptr.To(types.UID(uid)), ResourceVersion: &resourceVersion},
		PropagationPolicy: ptr.To(metav1.DeletePropagationBackground),
	})
	if isAbsent(err) {
		return nil
	}
	return s.c.writeError("delete IPPool "+at.String(), err, apierrors.IsConflict(err))
}

// deletesPool reports whether a request deletes pools: one, or all of a namespace.
func deletesPool(r *http.Request) bool {
	return r.Method == http.MethodDelete && strings.Contains(r.URL.Path+"/", "/"+ippool.PoolResource.Resource+"/")
}

// mayRetire reports whether a delete is of one of the pools that this process was asked to retire.
func (c *Cluster) mayRetire(r *http.Request) bool {
	of := ippool.PoolResource
	_, path, _ := strings.Cut(r.URL.Path, "/apis/"+of.Group+"/"+of.Version+"/namespaces/")
	namespace, name, _ := strings.Cut(path, "/"+of.Resource+"/")
	return c.retirable[types.NamespacedName{Namespace: namespace, Name: name}]
}
