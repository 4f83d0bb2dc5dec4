package statuscmd

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// The labels of deploy/.
const (
	nameLabel      = "app.kubernetes.io/name"
	componentLabel = "app.kubernetes.io/component"
	product        = "ip-reconcile"
)

// workload is a Deployment, CronJob or DaemonSet that runs this product or competes with it.
type workload struct {
	kind, namespace, name string
	labels                map[string]string // of its pods
	spec                  *corev1.PodSpec

	wanted, ready int32 // pods of a Deployment or DaemonSet

	schedule     string // of a CronJob
	suspended    bool
	active       int
	lastSchedule time.Time // zero for never
}

func (w *workload) ref() string { return fmt.Sprintf("%s %s/%s", w.kind, w.namespace, w.name) }

// object is how kubectl names it.
func (w *workload) object() string { return strings.ToLower(w.kind) + "/" + w.name }

func (w *workload) ours() bool { return w.labels[nameLabel] == product || kube.HasOurImage(w.spec) }

func (w *workload) isAgent() bool {
	return w.ours() && w.kind == "DaemonSet" && (w.labels[componentLabel] == "agent" || w.labels[nameLabel] != product && kube.CompetingProgram(w.spec) == "")
}

// isReconciler: the Deployment, the CronJob, and the drop-in in the place of whereabouts' own.
func (w *workload) isReconciler() bool {
	return w.ours() && w.kind != "DaemonSet" && w.labels[componentLabel] != "agent"
}

// competing is the program that frees addresses beside this product; "" for none.
func (w *workload) competing() string {
	running := w.wanted > 0 && w.kind != "CronJob" || w.kind == "CronJob" && !w.suspended
	if w.ours() || !running {
		return ""
	}
	return kube.CompetingProgram(w.spec)
}

// argument is the value of a flag of the first container; "" where it is not given.
func (w *workload) argument(flag string) string {
	args := slices.Concat(w.spec.Containers[0].Command, w.spec.Containers[0].Args)
	for i, a := range args {
		if value, ok := strings.CutPrefix(a, flag+"="); ok {
			return value
		}
		if a == flag && i+1 < len(args) {
			return args[i+1]
		}
	}
	return ""
}

// version is the tag of its image; "" where the image has none.
func (w *workload) version() string {
	image, _, _ := strings.Cut(w.spec.Containers[0].Image, "@")
	if i := strings.LastIndex(image, ":"); i > strings.LastIndex(image, "/") {
		return image[i+1:]
	}
	return ""
}

// account is the name of its ServiceAccount.
func (w *workload) account() string { return cmp.Or(w.spec.ServiceAccountName, "default") }

// pods selects its pods for kubectl.
func (w *workload) pods() string {
	if w.labels[nameLabel] == product && w.labels[componentLabel] != "" {
		return fmt.Sprintf("kubectl -n %s get pods -l %s=%s,%s=%s -o wide", w.namespace, nameLabel, product, componentLabel, w.labels[componentLabel])
	}
	return fmt.Sprintf("kubectl -n %s describe %s", w.namespace, w.object())
}

func (w *workload) logs() string {
	return fmt.Sprintf("kubectl -n %s logs %s --tail=50", w.namespace, w.object())
}

// pageOfWorkloads is how many are listed at a time.
const pageOfWorkloads = 500

// inventory are the workloads that could be listed.
type inventory struct {
	workloads []workload
	onlyIn    string // the namespace to which the right to list some kind is limited; "" for all
}

// readWorkloads lists all workloads that matter, of all namespaces or, where that is
// forbidden, of the given one; with a label selector those that it picks.
func readWorkloads(ctx context.Context, core kubernetes.Interface, namespace, selector string) (inventory, error) {
	var all []workload
	onlyIn := ""
	for _, list := range []func(context.Context, kubernetes.Interface, string, metav1.ListOptions, *[]workload) (string, error){deployments, daemonSets, cronJobs} {
		in, opts := metav1.NamespaceAll, metav1.ListOptions{Limit: pageOfWorkloads, LabelSelector: selector}
		for {
			next, err := list(ctx, core, in, opts, &all)
			if apierrors.IsForbidden(err) && in == metav1.NamespaceAll {
				in, onlyIn = namespace, namespace
				continue
			}
			if err != nil {
				return inventory{}, err
			}
			if opts.Continue = next; next == "" {
				break
			}
		}
	}
	return inventory{slices.DeleteFunc(all, func(w workload) bool {
		return len(w.spec.Containers) == 0 || !w.ours() && kube.CompetingProgram(w.spec) == ""
	}), onlyIn}, nil
}

func deployments(ctx context.Context, core kubernetes.Interface, namespace string, opts metav1.ListOptions, all *[]workload) (string, error) {
	list, err := core.AppsV1().Deployments(namespace).List(ctx, opts)
	if err != nil {
		return "", err
	}
	for i := range list.Items {
		*all = append(*all, ofDeployment(&list.Items[i]))
	}
	return list.Continue, nil
}

func ofDeployment(d *appsv1.Deployment) workload {
	return workload{kind: "Deployment", namespace: d.Namespace, name: d.Name, labels: d.Spec.Template.Labels, spec: &d.Spec.Template.Spec,
		wanted: ptr.Deref(d.Spec.Replicas, 1), ready: d.Status.ReadyReplicas}
}

func daemonSets(ctx context.Context, core kubernetes.Interface, namespace string, opts metav1.ListOptions, all *[]workload) (string, error) {
	list, err := core.AppsV1().DaemonSets(namespace).List(ctx, opts)
	if err != nil {
		return "", err
	}
	for i := range list.Items {
		d := &list.Items[i]
		w := workload{kind: "DaemonSet", namespace: d.Namespace, name: d.Name, labels: d.Spec.Template.Labels, spec: &d.Spec.Template.Spec,
			wanted: d.Status.DesiredNumberScheduled, ready: d.Status.NumberReady}
		if d.Status.ObservedGeneration == 0 {
			w.wanted = max(w.wanted, 1) // its controller has not counted yet
		}
		*all = append(*all, w)
	}
	return list.Continue, nil
}

func cronJobs(ctx context.Context, core kubernetes.Interface, namespace string, opts metav1.ListOptions, all *[]workload) (string, error) {
	list, err := core.BatchV1().CronJobs(namespace).List(ctx, opts)
	if err != nil {
		return "", err
	}
	for i := range list.Items {
		*all = append(*all, ofCronJob(&list.Items[i]))
	}
	return list.Continue, nil
}

func ofCronJob(j *batchv1.CronJob) workload {
	template := &j.Spec.JobTemplate.Spec.Template
	w := workload{kind: "CronJob", namespace: j.Namespace, name: j.Name, labels: template.Labels, spec: &template.Spec,
		schedule: j.Spec.Schedule, suspended: ptr.Deref(j.Spec.Suspend, false), active: len(j.Status.Active)}
	if zone := ptr.Deref(j.Spec.TimeZone, ""); zone != "" {
		w.schedule = "TZ=" + zone + " " + w.schedule
	}
	if j.Status.LastScheduleTime != nil {
		w.lastSchedule = j.Status.LastScheduleTime.Time
	}
	return w
}

// pick are the workloads of which something holds.
func pick(all []workload, is func(*workload) bool) (some []*workload) {
	for i := range all {
		if is(&all[i]) {
			some = append(some, &all[i])
		}
	}
	return some
}
