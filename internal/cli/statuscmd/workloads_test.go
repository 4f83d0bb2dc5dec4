package statuscmd

import (
	"fmt"
	"slices"
	"strings"
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

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

func TestStatus_WorkloadsOfOneNamespace(t *testing.T) {
	core := fake.NewClientset(
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "ours"},
			Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: *running("ip-reconcile:1")}}},
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "agent"},
			Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: *running("ip-reconcile:1")}}})
	if all, err := list(t.Context(), core, "kube-system", ""); err != nil || len(all) != 2 {
		t.Errorf("got %+v, %v", all, err)
	}
	core.PrependReactor("list", "daemonsets", func(a k8stesting.Action) (bool, runtime.Object, error) {
		return a.GetNamespace() == "", nil, apierrors.NewForbidden(schema.GroupResource{Resource: "daemonsets"}, "", nil)
	})
	if all, err := list(t.Context(), core, "kube-system", ""); !apierrors.IsForbidden(err) || len(all) != 1 {
		t.Errorf("where DaemonSets of other namespaces are forbidden: %+v, %v", all, err)
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
			"DaemonSet other/agent 0/1", "CronJob kube-system/job 0/0 TZ=Asia/Tokyo @daily /ip-reconciler",
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
		found, err := listIn(t.Context(), core, c.namespace, "")
		if apierrors.IsForbidden(err) != (c.forbidden != "") {
			t.Errorf("where %q is forbidden the error is %v", c.forbidden, err)
		}
		texts := []string{}
		for _, w := range found {
			text := fmt.Sprintf("%s %d/%d", w.String(), w.Ready, w.Wanted)
			for _, more := range []string{w.Schedule, w.competingProgram()} {
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

// Where DaemonSets may not be listed, nobody knows whether agents are deployed: no line that depends on it is OK.
func TestStatus_DaemonSetsThatMayNotBeListed(t *testing.T) {
	p := sound()
	p.workloads, p.unlisted = p.workloads[:1], forbidden
	p.deployment().Spec.Containers[0].Args = nil // --agents=auto
	p.lacking(v1alpha1.Resource())
	p.forbid("sandboxreports", "list", "watch")
	p.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), bounded, Node("worker-1"))
	levels := map[string]view.Level{}
	for _, text := range texts(t, p) {
		level, rest, _ := strings.Cut(text, " ")
		id, _, _ := strings.Cut(rest, ":")
		levels[id] = view.Level(level)
	}
	for _, id := range []string{"agents", "admission-policy", "versions", "crds", "rights"} {
		if levels[id] != view.LevelUnknown {
			t.Errorf("%s is %q", id, levels[id])
		}
	}
}
