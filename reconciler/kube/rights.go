package kube

import (
	"context"
	"errors"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// errAccessNotKnown: an authorizer could not decide.
var errAccessNotKnown = errors.New("the API server could not tell what these credentials may do")

// CheckLeases asks the API server whether these credentials may take whereabouts' Leases
// in a namespace. ErrLeaseForbidden says that they may not; any other error that this
// is not known.
func (c *Cluster) CheckLeases(ctx context.Context, namespace string, leases []string) error {
	if c.WithoutLease {
		return nil
	}
	for _, verb := range []string{"get", "create", "update"} {
		for _, name := range leases {
			if verb == "create" {
				name = "" // RBAC cannot restrict it by name
			}
			may, err := c.may(ctx, &authorizationv1.ResourceAttributes{Group: "coordination.k8s.io", Resource: "leases", Verb: verb, Namespace: namespace, Name: name})
			if err != nil {
				return err
			}
			if !may {
				return fmt.Errorf("%w: %s leases in namespace %s", reconciler.ErrLeaseForbidden, verb, namespace)
			}
			if name == "" {
				break
			}
		}
	}
	return nil
}

func (c *Cluster) may(ctx context.Context, what *authorizationv1.ResourceAttributes) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: what}}
	var answer *authorizationv1.SelfSubjectAccessReview
	err := c.call(ctx, func(ctx context.Context) (err error) {
		answer, err = c.core.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return false, fmt.Errorf("ask for the right to %s %s: %w", what.Verb, what.Resource, err)
	}
	if !answer.Status.Allowed && answer.Status.EvaluationError != "" {
		return false, fmt.Errorf("%w: %s", errAccessNotKnown, answer.Status.EvaluationError)
	}
	return answer.Status.Allowed, nil
}

// ClusterIdentity is the API server's address and the UID of the cluster, which is that of its
// namespace kube-system, "" where that may not be read.
func (c *Cluster) ClusterIdentity(ctx context.Context) (server, uid string) {
	_ = c.call(ctx, func(ctx context.Context) error {
		ns, err := c.core.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		if err == nil {
			uid = string(ns.UID)
		}
		return err
	})
	return c.host, uid
}
