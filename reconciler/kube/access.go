package kube

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ForbiddenLeases returns those of whereabouts' Leases that RBAC forbids this account to take. With an error only some
// are known. Where RBAC names no Leases it asks once for all of them.
func (c *Cluster) ForbiddenLeases(
	ctx context.Context, namespace string, leases []string,
) (forbidden []string, err error) {
	if c.WithoutLease {
		return nil, nil
	}
	may := func(verb, name string) (bool, error) {
		return c.May(ctx, "", authorizationv1.ResourceAttributes{
			Group: "coordination.k8s.io", Resource: "leases", Verb: verb, Namespace: namespace, Name: name,
		})
	}
	named := []string{} // the verbs that RBAC does not grant for all Leases
	for _, verb := range []string{"create", "get", "update"} {
		switch may, err := may(verb, ""); {
		case err != nil:
			return nil, err
		case !may && verb == "create": // RBAC cannot restrict it by name
			return leases, nil
		case !may:
			named = append(named, verb)
		}
	}
	for _, name := range leases {
		for _, verb := range named {
			may, err := may(verb, name)
			if err != nil {
				return forbidden, err
			}
			if !may {
				forbidden = append(forbidden, name)
				break
			}
		}
	}
	return forbidden, nil
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
