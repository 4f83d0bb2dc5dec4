package kube

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

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
