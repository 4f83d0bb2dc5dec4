//go:build !slow && !cluster

package e2e

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Without a kubelet, the test creates the pod of `helm test` itself and runs its command with its token.
func TestChart_HelmTestRunsStatus(t *testing.T) {
	t.Parallel()
	i := newStatusStage(t)
	i.healthy(t, "before the test")
	goldenTest(t, helmTest, metav1.NamespaceSystem, "")
	i.mustKubectl(t, "create", "--validate=strict", "-f", helmTest)
	api := i.Client().CoreV1().Pods(metav1.NamespaceSystem)
	pod := try(api.Get(t.Context(), "ip-reconcile-test", metav1.GetOptions{})).must(t)
	equal(t, "its command", strings.Join(append(pod.Spec.Containers[0].Command, pod.Spec.Containers[0].Args...), " "),
		"/ip-reconcile status")
	for _, selected := range []string{"reconciler", "agent"} { // by Deployment, Service, policies or DaemonSet
		equal(t, "its component is not "+selected, pod.Labels["app.kubernetes.io/component"] != selected, true)
	}

	kubeconfig := i.KubeconfigForPod(t, pod)
	var out *outcome
	if !within(2*time.Minute, 200*time.Millisecond, func() bool {
		i.status(t) // renews Leases
		out = i.runStatus(t, kubeconfig)
		return out.code == 0
	}) {
		t.Fatalf("exit code %d:\n%s%s", out.code, out.stdout, out.stderr)
	}
	contains(t, "the output", out.stdout, "0 errors, 0 warnings")
	equal(t, "lines that say unknown", strings.Count(out.stdout, "\n–"), 1) // the rights of the reconciler's account
}

func TestChart_HelmTestOnOpenShift(t *testing.T) {
	t.Parallel()
	goldenTest(t, "testdata/rendered/helm-test-openshift.yaml", "addresses",
		"{openshift: true, extraEnv: [{name: A, value: b}], podAnnotations: {c: d}}")
}

// goldenTest compares all that `helm test` creates with a file.
func goldenTest(t *testing.T, file, namespace, values string) {
	t.Helper()
	text := ""
	for _, o := range helmTests(t, "v1.36.3", namespace, values) {
		text += "---\n" + string(try(yaml.Marshal(o.Object)).must(t))
	}
	golden(t, file, text)
}
