package kube_test

import (
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// A mirror may name whereabouts' image ip-reconciler.
func TestWorkload_IsOurs(t *testing.T) {
	for image, want := range map[string]bool{
		"example.com/ip-reconcile:0.1.0": true, "ip-reconcile": true, "example.com/ip-reconcile/ip-reconcile@sha256:0a": true,
		"example.com:5000/ip-reconcile-agent:1":   true,
		"example.com/mirror/ip-reconciler:v0.9.4": false, "example.com/whereabouts:ip-reconcile": false,
		"ghcr.io/k8snetworkplumbingwg/whereabouts:v0.9.4": false,
	} {
		w := kube.Workload{Spec: &corev1.PodSpec{Containers: []corev1.Container{{Image: image}}}}
		equal(t, image, w.IsOurs(), want)
	}
}

func TestWorkloads(t *testing.T) {
	at := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	template := func(image string, command ...string) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: image, Command: command}}}}
	}
	job := func(suspended bool) batchv1.CronJobSpec {
		return batchv1.CronJobSpec{Schedule: "@daily", TimeZone: ptr.To("Asia/Tokyo"), Suspend: &suspended,
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template("whereabouts:1", "/ip-reconciler")}}}
	}
	core := fake.NewClientset(
		&appsv1.Deployment{ObjectMeta: at("kube-system", "ours"),
			Spec:   appsv1.DeploymentSpec{Template: template("ip-reconcile:1")},
			Status: appsv1.DeploymentStatus{ReadyReplicas: 1}},
		&appsv1.Deployment{ObjectMeta: at("default", "web"), Spec: appsv1.DeploymentSpec{Template: template("nginx")}},
		&appsv1.Deployment{ObjectMeta: at("kube-system", "stopped"), Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](0),
			Template: template("whereabouts:1", "/ip-reconciler")}},
		&appsv1.DaemonSet{ObjectMeta: at("other", "agent"), Spec: appsv1.DaemonSetSpec{Template: template("ip-reconcile:1")}},
		&batchv1.CronJob{ObjectMeta: at("kube-system", "job"), Spec: job(false)},
		&batchv1.CronJob{ObjectMeta: at("kube-system", "suspended"), Spec: job(true)})
	for _, c := range []struct {
		namespace string
		forbidden string
		want      []string
	}{
		{"", "", []string{"Deployment kube-system/ours 1/1", "Deployment kube-system/stopped 0/0",
			"DaemonSet other/agent 0/1",
			"CronJob kube-system/job 0/0 TZ=Asia/Tokyo @daily /ip-reconciler",
			"CronJob kube-system/suspended 0/0 TZ=Asia/Tokyo @daily"}},
		{"other", "", []string{"DaemonSet other/agent 0/1"}},
		{"kube-system", "deployments", []string{"CronJob kube-system/job 0/0 TZ=Asia/Tokyo @daily /ip-reconciler",
			"CronJob kube-system/suspended 0/0 TZ=Asia/Tokyo @daily"}},
	} {
		core.PrependReactor("list", "*", func(a k8stesting.Action) (bool, runtime.Object, error) {
			resource := a.GetResource().GroupResource()
			return resource.Resource == c.forbidden, nil,
				apierrors.NewForbidden(schema.GroupResource{Resource: resource.Resource}, "", nil)
		})
		found, err := kube.Workloads(t.Context(), core, c.namespace, "")
		equal(t, "forbidden", apierrors.IsForbidden(err), c.forbidden != "")
		texts := []string{}
		for _, w := range found {
			text := fmt.Sprintf("%s %d/%d", w.String(), w.Ready, w.Wanted)
			for _, more := range []string{w.Schedule, w.CompetingProgram()} {
				if more != "" {
					text += " " + more
				}
			}
			texts = append(texts, text)
		}
		if !slices.Equal(texts, c.want) {
			t.Errorf("in namespace %q: got %q, want %q", c.namespace, texts, c.want)
		}
	}
}
