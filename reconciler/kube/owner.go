package kube

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// OwnedByJob reports whether a Job runs the pod, and whether there is a pod of that
// name at all. It asks with a LIST, for which every ClusterRole of whereabouts
// has the right; get on pods came with v0.9.0.
func (c *Cluster) OwnedByJob(ctx context.Context, pod types.NamespacedName) (job, there bool, err error) {
	var list *corev1.PodList
	err = c.call(ctx, func(ctx context.Context) (err error) {
		list, err = c.core.CoreV1().Pods(pod.Namespace).List(ctx, named(pod.Name))
		return err
	})
	if err != nil {
		return false, false, c.explain(fmt.Sprintf("list pods to find %s", pod), err, "grant list on pods")
	}
	for i := range list.Items {
		owner := metav1.GetControllerOf(&list.Items[i])
		return owner != nil && owner.Kind == "Job" && owner.APIVersion == batchv1.SchemeGroupVersion.String(), true, nil
	}
	return false, false, nil
}
