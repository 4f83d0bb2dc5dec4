package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
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
				return fmt.Errorf("%w: %s leases in namespace %s", reconciler.ErrLeaseForbidden, verb, namespace)
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

// UID returns the UID of namespace kube-system, "" where RBAC forbids reading it.
func (c *Cluster) UID(ctx context.Context) (uid string) {
	_ = c.call(ctx, func(ctx context.Context) error {
		ns, err := c.core.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		if err == nil {
			uid = string(ns.UID)
		}
		return err
	})
	return uid
}

// OwnedByJob reports whether a Job controls the pod, and whether the pod exists. It uses a LIST, which every
// ClusterRole of whereabouts allows; get on pods came with v0.9.0.
func (c *Cluster) OwnedByJob(ctx context.Context, pod types.NamespacedName) (isJob, exists bool, err error) {
	var list *corev1.PodList
	err = c.call(ctx, func(ctx context.Context) (err error) {
		list, err = c.core.CoreV1().Pods(pod.Namespace).List(ctx, byName(pod.Name))
		return err
	})
	if err != nil || len(list.Items) == 0 {
		return false, false, c.explainError("list pods", err, "grant list on pods")
	}
	owner := metav1.GetControllerOf(&list.Items[0])
	return owner != nil && owner.Kind == "Job" && owner.APIVersion == batchv1.SchemeGroupVersion.String(), true, nil
}

// The labels of deploy/.
const (
	NameLabel      = "app.kubernetes.io/name"
	ComponentLabel = "app.kubernetes.io/component"
	Product        = "ip-reconcile"
)

// Workload is a Deployment, DaemonSet or CronJob that runs this product, or a program of whereabouts that releases.
type Workload struct {
	Kind, Namespace, Name string
	Labels                map[string]string // of its pods
	Spec                  *corev1.PodSpec

	Wanted, Ready int32 // pods of a Deployment or DaemonSet

	Schedule  string // of a CronJob
	Suspended bool
}

// workloadOf converts a Deployment, DaemonSet or CronJob; the result is zero for any other object.
func workloadOf(o runtime.Object) Workload {
	of := func(kind string, at metav1.ObjectMeta, template *corev1.PodTemplateSpec) Workload {
		return Workload{Kind: kind, Namespace: at.Namespace, Name: at.Name, Labels: template.Labels, Spec: &template.Spec}
	}
	switch o := o.(type) {
	case *appsv1.Deployment:
		w := of("Deployment", o.ObjectMeta, &o.Spec.Template)
		w.Wanted, w.Ready = ptr.Deref(o.Spec.Replicas, 1), o.Status.ReadyReplicas
		return w
	case *appsv1.DaemonSet:
		w := of("DaemonSet", o.ObjectMeta, &o.Spec.Template)
		w.Wanted, w.Ready = o.Status.DesiredNumberScheduled, o.Status.NumberReady
		if o.Status.ObservedGeneration == 0 {
			w.Wanted = max(w.Wanted, 1) // its controller has not counted yet
		}
		return w
	case *batchv1.CronJob:
		w := of("CronJob", o.ObjectMeta, &o.Spec.JobTemplate.Spec.Template)
		w.Schedule, w.Suspended = o.Spec.Schedule, ptr.Deref(o.Spec.Suspend, false)
		if zone := ptr.Deref(o.Spec.TimeZone, ""); zone != "" {
			w.Schedule = "TZ=" + zone + " " + w.Schedule
		}
		return w
	}
	return Workload{}
}

// Workloads lists the workloads of a namespace, "" for all, that a label selector selects. An error names the kinds
// that could not be listed; the result has the others. An error that is no answer of the API server ends the listing.
func Workloads(
	ctx context.Context, core kubernetes.Interface, namespace, selector string,
) (found []Workload, err error) {
	apps, batch := core.AppsV1(), core.BatchV1()
	var errs []error
	for _, list := range []pager.ListPageFunc{
		pages(apps.Deployments(namespace).List), pages(apps.DaemonSets(namespace).List),
		pages(batch.CronJobs(namespace).List),
	} {
		err := pager.New(list).EachListItem(ctx, metav1.ListOptions{LabelSelector: selector}, func(o runtime.Object) error {
			if w := workloadOf(o); w.Spec != nil && len(w.Spec.Containers) > 0 && (w.IsOurs() || w.program() != "") {
				found = append(found, w)
			}
			return nil
		})
		if errs = append(errs, err); err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown {
			break
		}
	}
	return found, errors.Join(errs...)
}

// pages adapts a typed list call to the pager.
func pages[L runtime.Object](list func(context.Context, metav1.ListOptions) (L, error)) pager.ListPageFunc {
	return func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) { return list(ctx, opts) }
}

// String returns kind, namespace and name, as in "Deployment kube-system/ip-reconcile".
func (w *Workload) String() string { return fmt.Sprintf("%s %s/%s", w.Kind, w.Namespace, w.Name) }

// IsOurs reports whether a workload runs this product: by its label, or by the image name of this project's manifests
// in any registry. The image name ip-reconciler does not count, since a mirror may use it for whereabouts' program.
func (w *Workload) IsOurs() bool {
	return w.Labels[NameLabel] == Product || slices.ContainsFunc(w.Spec.Containers, func(container corev1.Container) bool {
		image, _, _ := strings.Cut(container.Image, "@")
		return slices.ContainsFunc(strings.Split(image, "/"), func(part string) bool {
			part, _, _ = strings.Cut(part, ":")
			return part == Product || strings.HasPrefix(part, Product+"-")
		})
	})
}

// IsAgent reports whether the workload is the node agents' DaemonSet.
func (w *Workload) IsAgent() bool {
	return w.IsOurs() && w.Kind == "DaemonSet" &&
		(w.Labels[ComponentLabel] == "agent" || w.Labels[NameLabel] != Product && w.program() == "")
}

// IsReconciler reports whether the workload is the Deployment, the CronJob, or the drop-in for whereabouts' program.
func (w *Workload) IsReconciler() bool {
	return w.IsOurs() && w.Kind != "DaemonSet" && w.Labels[ComponentLabel] != "agent"
}

// Runs reports whether the workload should run pods.
func (w *Workload) Runs() bool { return w.Kind == "CronJob" && !w.Suspended || w.Wanted > 0 }

// CompetingProgram returns the program of whereabouts by which a workload also releases addresses; "" for none.
func (w *Workload) CompetingProgram() string {
	if w.IsOurs() || !w.Runs() {
		return ""
	}
	return w.program()
}

// program returns the program in the containers that releases addresses as whereabouts' own reconciler does (v0.9.4,
// doc/crds/daemonset-install.yaml and reconciler-deployment.yaml; v0.5, ip-reconciler-job.yaml); "" for none. Our
// drop-in has the same name.
func (w *Workload) program() string {
	for _, container := range w.Spec.Containers {
		text := strings.Join(slices.Concat(container.Command, container.Args), " ")
		// The last one is OpenShift's, which starts the control loop.
		for _, program := range []string{"/ip-control-loop", "/ip-reconciler", "/usr/src/whereabouts/bin/entrypoint.sh"} {
			if strings.Contains(text, program) {
				return program
			}
		}
	}
	return ""
}
