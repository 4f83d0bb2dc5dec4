package statuscmd

import (
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

// readSchedule finds the expression where the workload's program finds it: --cron, else the
// ConfigMap that is mounted at --cron-file, else the default.
func readSchedule(ctx context.Context, core kubernetes.Interface, w *workload) (configured, error) {
	edit := fmt.Sprintf("kubectl -n %s edit %s", w.namespace, w.object())
	if w.kind == "CronJob" {
		return configured{w.schedule, w.ref(), edit}, nil
	}
	if cron := w.argument("--cron"); cron != "" {
		return configured{cron, "--cron of " + w.ref(), edit}, nil
	}
	file := w.argument("--cron-file")
	if file == "" {
		file = schedule.DefaultFile
	}
	source, key := mountedConfigMap(w.spec, file)
	if source == nil {
		return elsewhere(w, edit)
	}
	object, err := core.CoreV1().ConfigMaps(w.namespace).Get(ctx, source.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && ptr.Deref(source.Optional, false) {
		return elsewhere(w, edit)
	}
	if err != nil {
		return configured{}, err
	}
	text, there := object.Data[key]
	if !there {
		return elsewhere(w, edit)
	}
	return configured{
		strings.TrimSpace(text), fmt.Sprintf("key %s of ConfigMap %s/%s", key, w.namespace, source.Name),
		fmt.Sprintf("kubectl -n %s edit configmap %s", w.namespace, source.Name),
	}, nil
}

// errOnNodes: what decides is not in the API.
var errOnNodes = errors.New("it may be in whereabouts.conf on the nodes, which is not read")

// elsewhere is what counts without a ConfigMap: whereabouts' own file where the workload
// mounts its folder, else the default.
func elsewhere(w *workload, edit string) (configured, error) {
	for _, m := range w.spec.Containers[0].VolumeMounts {
		for _, file := range schedule.DefaultFlatFiles() {
			if strings.HasPrefix(file, path.Clean(m.MountPath)+"/") {
				return configured{}, errOnNodes
			}
		}
	}
	return configured{schedule.Default, "the default", edit}, nil
}

// mountedConfigMap is the ConfigMap and its key that a file of the first container is; nil
// for none.
func mountedConfigMap(spec *corev1.PodSpec, file string) (*corev1.ConfigMapVolumeSource, string) {
	for _, m := range spec.Containers[0].VolumeMounts {
		if path.Clean(m.MountPath) != path.Dir(file) {
			continue
		}
		for _, v := range spec.Volumes {
			if v.Name != m.Name || v.ConfigMap == nil {
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
