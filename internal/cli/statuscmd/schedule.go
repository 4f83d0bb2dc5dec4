package statuscmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/reconciler/schedule"
)

// configured is the cron expression of a workload.
type configured struct {
	expression string
	source     string // for a person: where it is
	edit       string // the command that changes it
}

// next is when a pass is due after a moment.
func (c configured) next(after time.Time) (time.Time, error) {
	return schedule.Next(c.expression, after)
}

// errOnNodes: what decides is not in the API.
var errOnNodes = errors.New("it may be in whereabouts.conf on the nodes, which is not read")

// readSchedule finds the expression where the workload's program finds it: --cron, else the ConfigMap that is mounted
// at --cron-file, else whereabouts' own file where the workload mounts its folder, else the default.
func readSchedule(ctx context.Context, core kubernetes.Interface, w *workload) (configured, error) {
	edit := w.do("edit", "")
	if w.Kind == "CronJob" {
		return configured{w.Schedule, w.String(), edit}, nil
	}
	if cron := w.argument("--cron"); cron != "" {
		return configured{cron, "--cron of " + w.String(), edit}, nil
	}
	if source, key := mountedConfigMap(w.Spec, cmp.Or(w.argument("--cron-file"), schedule.DefaultFile)); source != nil {
		object, err := core.CoreV1().ConfigMaps(w.Namespace).Get(ctx, source.Name, metav1.GetOptions{})
		if err != nil && !(apierrors.IsNotFound(err) && ptr.Deref(source.Optional, false)) {
			return configured{}, err
		}
		if text, isThere := object.Data[key]; err == nil && isThere {
			return configured{
				strings.TrimSpace(text), fmt.Sprintf("key %s of ConfigMap %s/%s", key, w.Namespace, source.Name),
				kubectl(w.Namespace, "edit configmap %s", source.Name),
			}, nil
		}
	}
	for _, m := range w.Spec.Containers[0].VolumeMounts {
		for _, file := range schedule.DefaultFlatFiles() {
			if strings.HasPrefix(file, path.Clean(m.MountPath)+"/") {
				return configured{}, errOnNodes
			}
		}
	}
	return configured{schedule.Default, "the default", edit}, nil
}

// mountedConfigMap is the ConfigMap and its key that a file of the first container is; nil for none.
func mountedConfigMap(spec *corev1.PodSpec, file string) (*corev1.ConfigMapVolumeSource, string) {
	for _, m := range spec.Containers[0].VolumeMounts {
		for _, v := range spec.Volumes {
			if path.Clean(m.MountPath) != path.Dir(file) || v.Name != m.Name || v.ConfigMap == nil {
				continue
			}
			for _, item := range v.ConfigMap.Items {
				if item.Path == path.Base(file) {
					return v.ConfigMap, item.Key
				}
			}
			if len(v.ConfigMap.Items) == 0 {
				return v.ConfigMap, path.Base(file)
			}
		}
	}
	return nil, ""
}
