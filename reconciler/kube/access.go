package kube

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
)

// CheckLeases returns ErrLeaseForbidden if this account may not take whereabouts' Leases; any other error is no answer.
func (c *Cluster) CheckLeases(ctx context.Context, namespace string, leases []string) error {
	if c.WithoutLease {
		return nil
	}
	for _, verb := range []string{"get", "create", "update"} {
		for _, name := range leases {
			may, err := c.May(ctx, "", authorizationv1.ResourceAttributes{
				Group: "coordination.k8s.io", Resource: "leases", Verb: verb, Namespace: namespace, Name: name,
			})
			if err != nil {
				return err
			}
			if !may {
				return fmt.Errorf("%w: %s leases in namespace %s", apply.ErrLeaseForbidden, verb, namespace)
			}
			if verb == "create" {
				break // it does not depend on the name
			}
		}
	}
	return nil
}

// May reports whether RBAC allows a request by a ServiceAccount, as "namespace:name", or by this account for "".
func (c *Cluster) May(ctx context.Context, account string, what authorizationv1.ResourceAttributes) (bool, error) {
	if what.Verb == "create" {
		what.Name = "" // RBAC cannot restrict it by name
	}
	api := c.core.AuthorizationV1()
	var answer authorizationv1.SubjectAccessReviewStatus
	err := c.call(ctx, func(ctx context.Context) error {
		if account == "" {
			review, err := api.SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &what},
			}, metav1.CreateOptions{})
			if err == nil {
				answer = review.Status
			}
			return err
		}
		namespace, _, _ := strings.Cut(account, ":")
		// The API server gives it these groups (k8s.io/apiserver, pkg/authentication/serviceaccount/util.go,
		// and system:authenticated).
		review, err := api.SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{
				ResourceAttributes: &what, User: "system:serviceaccount:" + account,
				Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
			},
		}, metav1.CreateOptions{})
		if err == nil {
			answer = review.Status
		}
		return err
	})
	if err == nil && !answer.Allowed && answer.EvaluationError != "" { // no refusal, but a failed authorizer
		err = fmt.Errorf("the API server could not decide: %s", answer.EvaluationError)
	}
	if err != nil {
		return false, fmt.Errorf("check access to %s %s: %w", what.Verb, what.Resource, err)
	}
	return answer.Allowed, nil
}
