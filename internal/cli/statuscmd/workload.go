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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"
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

// workloadOf is nil for another object than a Deployment, CronJob or DaemonSet.
func workloadOf(o runtime.Object) *workload {
	of := func(kind string, at metav1.ObjectMeta, template *corev1.PodTemplateSpec) *workload {
		return &workload{kind: kind, namespace: at.Namespace, name: at.Name, labels: template.Labels, spec: &template.Spec}
	}
	switch o := o.(type) {
	case *appsv1.Deployment:
		w := of("Deployment", o.ObjectMeta, &o.Spec.Template)
		w.wanted, w.ready = ptr.Deref(o.Spec.Replicas, 1), o.Status.ReadyReplicas
		return w
	case *appsv1.DaemonSet:
		w := of("DaemonSet", o.ObjectMeta, &o.Spec.Template)
		w.wanted, w.ready = o.Status.DesiredNumberScheduled, o.Status.NumberReady
		if o.Status.ObservedGeneration == 0 {
			w.wanted = max(w.wanted, 1) // its controller has not counted yet
		}
		return w
	case *batchv1.CronJob:
		w := of("CronJob", o.ObjectMeta, &o.Spec.JobTemplate.Spec.Template)
		w.schedule, w.suspended, w.active = o.Spec.Schedule, ptr.Deref(o.Spec.Suspend, false), len(o.Status.Active)
		if zone := ptr.Deref(o.Spec.TimeZone, ""); zone != "" {
			w.schedule = "TZ=" + zone + " " + w.schedule
		}
		w.lastSchedule = ptr.Deref(o.Status.LastScheduleTime, metav1.Time{}).Time
		return w
	}
	return nil
}

// inventory are the workloads that could be listed.
type inventory struct {
	workloads []workload
	onlyIn    string // the namespace to which the right to list some kind is limited; "" for all
}

// readWorkloads lists all workloads that matter, of all namespaces or, where that is
// forbidden, of the given one; with a label selector those that it picks.
func readWorkloads(ctx context.Context, core kubernetes.Interface, namespace, selector string) (inventory, error) {
	var found inventory
	read := func(list pager.ListPageFunc) error {
		return pager.New(list).EachListItem(ctx, metav1.ListOptions{LabelSelector: selector}, func(o runtime.Object) error {
			if w := workloadOf(o); len(w.spec.Containers) > 0 && (w.ours() || kube.CompetingProgram(w.spec) != "") {
				found.workloads = append(found.workloads, *w)
			}
			return nil
		})
	}
	for _, of := range []func(namespace string) pager.ListPageFunc{
		func(in string) pager.ListPageFunc { return pages(core.AppsV1().Deployments(in).List) },
		func(in string) pager.ListPageFunc { return pages(core.AppsV1().DaemonSets(in).List) },
		func(in string) pager.ListPageFunc { return pages(core.BatchV1().CronJobs(in).List) },
	} {
		err := read(of(metav1.NamespaceAll))
		if apierrors.IsForbidden(err) {
			found.onlyIn = namespace
			err = read(of(namespace))
		}
		if err != nil {
			return inventory{}, err
		}
	}
	return found, nil
}

// pages is a typed list call as the pager calls it.
func pages[L runtime.Object](list func(context.Context, metav1.ListOptions) (L, error)) pager.ListPageFunc {
	return func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) { return list(ctx, opts) }
}

func (w *workload) ref() string { return fmt.Sprintf("%s %s/%s", w.kind, w.namespace, w.name) }

func (w *workload) ours() bool { return w.labels[nameLabel] == product || kube.HasOurImage(w.spec) }

func (w *workload) isAgent() bool {
	if !w.ours() || w.kind != "DaemonSet" {
		return false
	}
	return w.labels[componentLabel] == "agent" || w.labels[nameLabel] != product && kube.CompetingProgram(w.spec) == ""
}

// isReconciler reports whether it is the Deployment, the CronJob, or the drop-in in the place of whereabouts' own.
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

// image is the first container's without its digest, and its tag; "" where it has none.
func (w *workload) image() (name, tag string) {
	name, _, _ = strings.Cut(w.spec.Containers[0].Image, "@")
	if i := strings.LastIndex(name, ":"); i > strings.LastIndex(name, "/") {
		return name[:i], name[i+1:]
	}
	return name, ""
}

func (w *workload) version() string {
	_, tag := w.image()
	return tag
}

// compare is 1 where version a is newer than b, -1 where it is older, and 0 where one of them is none, as "devel".
func compare(a, b string) int {
	one, err := version.ParseGeneric(a)
	if err != nil {
		return 0
	}
	order, _ := one.Compare(b) // 0 with an error
	return order
}

// account is the name of its ServiceAccount.
func (w *workload) account() string { return cmp.Or(w.spec.ServiceAccountName, "default") }

// object is how kubectl names it.
func (w *workload) object() string { return strings.ToLower(w.kind) + "/" + w.name }

// kubectl is a command in a namespace.
func kubectl(namespace, format string, args ...any) string {
	return "kubectl -n " + namespace + " " + fmt.Sprintf(format, args...)
}

func (w *workload) kubectl(format string, args ...any) string {
	return kubectl(w.namespace, format, args...)
}

func (w *workload) logs() string   { return w.kubectl("logs %s --tail=50", w.object()) }
func (w *workload) delete() string { return w.kubectl("delete %s", w.object()) }

// suspend is for a CronJob.
func (w *workload) suspend(is bool) string {
	return w.kubectl(`patch cronjob %s -p '{"spec":{"suspend":%v}}'`, w.name, is)
}

// pods shows its pods.
func (w *workload) pods() string {
	if component := w.labels[componentLabel]; component != "" && w.labels[nameLabel] == product {
		return w.kubectl("get pods -l %s=%s,%s=%s -o wide", nameLabel, product, componentLabel, component)
	}
	return w.kubectl("describe %s", w.object())
}

func (w *workload) setImage(tag string) string {
	image, _ := w.image()
	return w.kubectl("set image %s %s=%s:%s", w.object(), w.spec.Containers[0].Name, image, tag)
}

// stopCompeting is what docs/install.md and deploy/whereabouts say.
func (w *workload) stopCompeting() string {
	switch w.kind {
	case "DaemonSet":
		return w.kubectl("patch daemonset %s --type json --patch-file deploy/whereabouts/without-control-loop.yaml", w.name)
	case "CronJob":
		return w.suspend(true)
	}
	return w.delete()
}
