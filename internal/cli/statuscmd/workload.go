package statuscmd

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// workload is a Deployment, DaemonSet or CronJob that runs this product, or a program of whereabouts that releases.
type workload struct {
	Kind, Namespace, Name string
	Labels                map[string]string // of its pods
	Spec                  *corev1.PodSpec

	Wanted, Ready int32 // pods of a Deployment or DaemonSet

	Schedule  string // of a CronJob
	Suspended bool
}

// workloadOf converts a Deployment, DaemonSet or CronJob. It returns nil for any other object.
func workloadOf(o runtime.Object) *workload {
	of := func(kind string, at metav1.ObjectMeta, template *corev1.PodTemplateSpec) *workload {
		return &workload{Kind: kind, Namespace: at.Namespace, Name: at.Name, Labels: template.Labels, Spec: &template.Spec}
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
	return nil
}

// String returns kind, namespace and name, as in "Deployment kube-system/ip-reconcile".
func (w *workload) String() string { return fmt.Sprintf("%s %s/%s", w.Kind, w.Namespace, w.Name) }

// isOurs reports whether a workload runs this product: by its label, or by the image name of this project's manifests
// in any registry. The image name ip-reconciler does not count, since a mirror may use it for whereabouts' program.
func (w *workload) isOurs() bool {
	if w.Labels[kube.NameLabel] == kube.Product {
		return true
	}
	return slices.ContainsFunc(w.Spec.Containers, func(container corev1.Container) bool {
		image, _, _ := strings.Cut(container.Image, "@")
		return slices.ContainsFunc(strings.Split(image, "/"), func(part string) bool {
			part, _, _ = strings.Cut(part, ":")
			return part == kube.Product || strings.HasPrefix(part, kube.Product+"-")
		})
	})
}

// isAgent reports whether the workload is the node agents' DaemonSet.
func (w *workload) isAgent() bool {
	return w.isOurs() && w.Kind == "DaemonSet" &&
		(w.Labels[kube.ComponentLabel] == "agent" || w.Labels[kube.NameLabel] != kube.Product && w.program() == "")
}

// isReconciler reports whether the workload is the Deployment, the CronJob, or the drop-in for whereabouts' program.
func (w *workload) isReconciler() bool {
	return w.isOurs() && w.Kind != "DaemonSet" && w.Labels[kube.ComponentLabel] != "agent"
}

// runs reports whether the workload should run pods.
func (w *workload) runs() bool { return w.Kind == "CronJob" && !w.Suspended || w.Wanted > 0 }

// competingProgram returns the program of whereabouts by which a workload also releases addresses; "" for none.
func (w *workload) competingProgram() string {
	if w.isOurs() || !w.runs() {
		return ""
	}
	return w.program()
}

// program returns the program in the containers that releases addresses as whereabouts' own reconciler does (v0.9.4,
// doc/crds/daemonset-install.yaml and reconciler-deployment.yaml; v0.5, ip-reconciler-job.yaml); "" for none. Our
// drop-in has the same name.
func (w *workload) program() string {
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

func (w *workload) ownNamespace() string {
	return cmp.Or(w.argument("reconciler-namespace", ""), w.Namespace)
}

// argument returns the value of a flag of the first container, "" where it is not given. The last one counts, as in the
// program, and one dash is enough, as for the drop-in. bare is the value of a flag that needs none, "" for all others.
func (w *workload) argument(flag, bare string) (value string) {
	args := slices.Concat(w.Spec.Containers[0].Command, w.Spec.Containers[0].Args)
	for i, a := range args {
		name, text, hasText := strings.Cut(a, "=")
		switch {
		case name != "--"+flag && name != "-"+flag:
		case hasText:
			value = text
		case bare != "":
			value = bare
		case i+1 < len(args):
			value = args[i+1]
		}
	}
	return value
}

func (w *workload) version() string { return tagOf(w.Spec.Containers[0].Image) }

func tagOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	return tag
}

func kubectl(namespace, format string, args ...any) string {
	return "kubectl -n " + namespace + " " + fmt.Sprintf(format, args...)
}

func (w *workload) do(verb, more string) string {
	return strings.TrimSpace(kubectl(w.Namespace, "%s %s/%s %s", verb, strings.ToLower(w.Kind), w.Name, more))
}

func (w *workload) logs() string { return w.do("logs", "--tail=50") }

func (w *workload) pods() string {
	return kubectl(w.Namespace, "get pods -l %s -o wide", labels.FormatLabels(w.Labels))
}

// stopCompeting returns the command that docs/install/migrate.md and deploy/whereabouts have.
func (w *workload) stopCompeting() string {
	switch w.Kind {
	case "DaemonSet":
		return w.do("patch", "--type json --patch-file deploy/whereabouts/without-control-loop.yaml")
	case "CronJob":
		return w.do("patch", `-p '{"spec":{"suspend":true}}'`)
	}
	return w.do("delete", "")
}
