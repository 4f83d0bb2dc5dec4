package statuscmd

import (
	"cmp"
	"context"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"
)

type workloads []*workload

// list lists the workloads that a label selector picks. Where RBAC forbids listing a kind in all namespaces, it adds
// those of the given namespace, and returns the error.
func list(ctx context.Context, core kubernetes.Interface, namespace, selector string) (workloads, error) {
	all, err := listIn(ctx, core, "", selector)
	if !apierrors.IsForbidden(err) {
		return all, err
	}
	isListed := map[string]bool{}
	for _, w := range all {
		isListed[w.String()] = true
	}
	own, ownErr := listIn(ctx, core, namespace, selector)
	for _, w := range own {
		if !isListed[w.String()] {
			all = append(all, w)
		}
	}
	if ownErr != nil && !apierrors.IsForbidden(ownErr) {
		err = ownErr
	}
	return all, err
}

// listIn lists the workloads of a namespace, "" for all, that a label selector selects. An error names the kinds
// that could not be listed; the result has the others. An error that is no answer of the API server ends the listing.
func listIn(ctx context.Context, core kubernetes.Interface, namespace, selector string) (all workloads, err error) {
	apps, batch := core.AppsV1(), core.BatchV1()
	var errs []error
	for _, list := range []pager.ListPageFunc{
		pages(apps.Deployments(namespace).List), pages(apps.DaemonSets(namespace).List),
		pages(batch.CronJobs(namespace).List),
	} {
		err := pager.New(list).EachListItem(ctx, metav1.ListOptions{LabelSelector: selector}, func(o runtime.Object) error {
			if w := workloadOf(o); w != nil && len(w.Spec.Containers) > 0 && (w.isOurs() || w.program() != "") {
				all = append(all, w)
			}
			return nil
		})
		if errs = append(errs, err); err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown {
			break
		}
	}
	return all, errors.Join(errs...)
}

// pages adapts a typed list call to the pager.
func pages[L runtime.Object](list func(context.Context, metav1.ListOptions) (L, error)) pager.ListPageFunc {
	return func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) { return list(ctx, opts) }
}

// reconcilers returns the reconcilers. A Deployment comes first.
func (all workloads) reconcilers() []*workload {
	found := all.pick((*workload).isReconciler)
	slices.SortStableFunc(found, func(a, b *workload) int { return cmp.Compare(b.Kind, a.Kind) })
	return found
}

// reconcilerIn returns the reconciler of a namespace, nil for none.
func (all workloads) reconcilerIn(namespace string) *workload {
	for _, w := range all.reconcilers() {
		if w.ownNamespace() == namespace {
			return w
		}
	}
	return nil
}

func (all workloads) daemonSets() []*workload { return all.pick((*workload).isAgent) }

func (all workloads) pick(is func(*workload) bool) []*workload {
	return slices.DeleteFunc(slices.Clone(all), func(w *workload) bool { return !is(w) })
}
