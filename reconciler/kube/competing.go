package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// competingFor is for how long a pass waits for the workloads: they are for a warning only.
const competingFor = 10 * time.Second

// competingReconcilers is a warning for each workload beside whereabouts' pools that runs
// whereabouts' own reconciler or control loop: it frees what is held here. Where
// workloads may not be listed there is no warning: most clusters have none.
func (c *Cluster) competingReconcilers(ctx context.Context, pools []*ippool.Pool) (warnings []string) {
	ctx, cancel := context.WithTimeout(ctx, competingFor)
	defer cancel()
	namespaces := []string{c.Namespace}
	for _, p := range pools {
		namespaces = append(namespaces, p.Namespace)
	}
	slices.Sort(namespaces)
	for _, namespace := range slices.Compact(namespaces) {
		for _, list := range []func(context.Context, string) ([]workload, error){c.deployments, c.daemonSets, c.cronJobs} {
			found, err := list(ctx, namespace)
			if err != nil {
				c.Log.Debug("workloads cannot be listed to find whereabouts' own reconciler", "namespace", namespace, "error", err)
				continue
			}
			for _, w := range found {
				if program := w.program(); program != "" && !c.isOurs(w) {
					warnings = append(warnings, fmt.Sprintf("%s %s/%s runs whereabouts' own %s beside this, which frees addresses that are held here: stop it (deploy/whereabouts)", w.kind, namespace, w.name, program))
				}
			}
		}
	}
	return warnings
}

// workload is what may run a competing reconciler.
type workload struct {
	kind, name string
	running    bool
	spec       *corev1.PodSpec
}

// program is the competing reconciler that a workload runs, "" for none.
func (w workload) program() string {
	if !w.running {
		return ""
	}
	return CompetingProgram(w.spec)
}

// CompetingProgram is the program in a pod's containers that frees addresses as whereabouts'
// own reconciler does (v0.9.4, doc/crds/daemonset-install.yaml and reconciler-deployment.yaml;
// v0.5, ip-reconciler-job.yaml), "" for none. A drop-in of ours has the same name: see
// HasOurImage.
func CompetingProgram(spec *corev1.PodSpec) string {
	for _, container := range spec.Containers {
		text := strings.Join(slices.Concat(container.Command, container.Args), " ")
		// The last is OpenShift's, which starts the control loop.
		for _, program := range []string{"/ip-control-loop", "/ip-reconciler", "/usr/src/whereabouts/bin/entrypoint.sh"} {
			if strings.Contains(text, program) {
				return program
			}
		}
	}
	return ""
}

// isOurs reports whether a workload runs our drop-in: this process is of its pods,
// or its image has our name.
func (c *Cluster) isOurs(w workload) bool {
	return w.made(c.Pod) || HasOurImage(w.spec)
}

// HasOurImage reports whether a container of the pod has an image by the name that this
// project's manifests give it, in whatever registry: a mirror may name whereabouts' own ip-reconciler.
func HasOurImage(spec *corev1.PodSpec) bool {
	return slices.ContainsFunc(spec.Containers, func(container corev1.Container) bool {
		image, _, _ := strings.Cut(container.Image, "@")
		return slices.ContainsFunc(strings.Split(image, "/"), func(part string) bool {
			part, _, _ = strings.Cut(part, ":")
			return part == "ip-reconcile" || strings.HasPrefix(part, "ip-reconcile-")
		})
	})
}

// made reports whether a workload made a pod, by the names that controllers give:
// <Deployment>-<hash>-<5>, <CronJob>-<minutes>-<5>, <DaemonSet>-<5>.
func (w workload) made(pod string) bool {
	rest, ok := strings.CutPrefix(pod, w.name+"-")
	parts := strings.Split(rest, "-")
	most := 2
	if w.kind == "DaemonSet" {
		most = 1
	}
	return ok && len(parts) == most && len(parts[most-1]) == 5
}

func (c *Cluster) deployments(ctx context.Context, namespace string) (all []workload, err error) {
	list, err := c.core.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		d := &list.Items[i]
		all = append(all, workload{"Deployment", d.Name, ptr.Deref(d.Spec.Replicas, 1) > 0, &d.Spec.Template.Spec})
	}
	return all, nil
}

func (c *Cluster) daemonSets(ctx context.Context, namespace string) (all []workload, err error) {
	list, err := c.core.AppsV1().DaemonSets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		d := &list.Items[i]
		all = append(all, workload{"DaemonSet", d.Name, d.Status.ObservedGeneration == 0 || d.Status.DesiredNumberScheduled > 0, &d.Spec.Template.Spec})
	}
	return all, nil
}

func (c *Cluster) cronJobs(ctx context.Context, namespace string) (all []workload, err error) {
	list, err := c.core.BatchV1().CronJobs(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		j := &list.Items[i]
		all = append(all, workload{"CronJob", j.Name, !ptr.Deref(j.Spec.Suspend, false), &j.Spec.JobTemplate.Spec.Template.Spec})
	}
	return all, nil
}
