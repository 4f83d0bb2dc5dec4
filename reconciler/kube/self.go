package kube

import (
	"context"
	"errors"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// errAccessNotKnown: an authorizer could not decide.
var errAccessNotKnown = errors.New("the API server could not tell")

// CheckLeases asks the API server whether these credentials may take whereabouts' Leases
// in a namespace. ErrLeaseForbidden says that they may not; any other error that this
// is not known.
func (c *Cluster) CheckLeases(ctx context.Context, namespace string, leases []string) error {
	if c.WithoutLease {
		return nil
	}
	for _, verb := range []string{"get", "create", "update"} {
		for _, name := range leases {
			may, err := c.May(ctx, "", authorizationv1.ResourceAttributes{Group: "coordination.k8s.io", Resource: "leases", Verb: verb, Namespace: namespace, Name: name})
			if err != nil {
				return err
			}
			if !may {
				return fmt.Errorf("%w: %s leases in namespace %s", reconciler.ErrLeaseForbidden, verb, namespace)
			}
			if verb == "create" {
				break // for all names
			}
		}
	}
	return nil
}

// May asks whether a ServiceAccount, as "<namespace>:<name>", or these credentials for "", may do something.
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
		// The groups are those that the API server gives it (k8s.io/apiserver, pkg/authentication/serviceaccount/util.go,
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
	if err == nil && !answer.Allowed && answer.EvaluationError != "" { // an authorizer failed: that is no refusal
		err = fmt.Errorf("%w: %s", errAccessNotKnown, answer.EvaluationError)
	}
	if err != nil {
		return false, fmt.Errorf("ask for the right to %s %s: %w", what.Verb, what.Resource, err)
	}
	return answer.Allowed, nil
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

// OwnedByJob reports whether a Job runs the pod, and whether there is a pod of that
// name at all. It asks with a LIST, for which every ClusterRole of whereabouts
// has the right; get on pods came with v0.9.0.
func (c *Cluster) OwnedByJob(ctx context.Context, pod types.NamespacedName) (job, there bool, err error) {
	var list *corev1.PodList
	err = c.call(ctx, func(ctx context.Context) (err error) {
		list, err = c.core.CoreV1().Pods(pod.Namespace).List(ctx, named(pod.Name))
		return err
	})
	if err != nil || len(list.Items) == 0 {
		return false, false, c.explain("list pods", err, "grant list on pods")
	}
	owner := metav1.GetControllerOf(&list.Items[0])
	return owner != nil && owner.Kind == "Job" && owner.APIVersion == batchv1.SchemeGroupVersion.String(), true, nil
}
