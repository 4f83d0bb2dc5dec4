package harness

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"testing"

	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KubectlProgram is the path of a program that is kubectl when it is called so.
func (c *ControlPlane) KubectlProgram() string { return c.kubeparts() }

// Kubectl runs kubectl as the admin.
func (c *ControlPlane) Kubectl(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, c.kubeparts(), append([]string{"kubectl", "--kubeconfig=" + c.Kubeconfig()},
		args...)...)
	cmd.Env = append(cmd.Environ(), "HOME="+c.run.dir) // for its caches
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// KubeconfigFor is the path of a kubeconfig with an API server's token of an existing ServiceAccount, under RBAC.
func (c *ControlPlane) KubeconfigFor(t testing.TB, namespace, serviceAccount string) string {
	t.Helper()
	return c.kubeconfigFor(t, namespace, serviceAccount, nil)
}

// KubeconfigForPod is KubeconfigFor the ServiceAccount of a pod, with a token that
// is bound to the pod and, if it has a node, names the node.
func (c *ControlPlane) KubeconfigForPod(t testing.TB, pod *corev1.Pod) string {
	t.Helper()
	return c.kubeconfigFor(t, pod.Namespace, pod.Spec.ServiceAccountName,
		&authv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID})
}

func (c *ControlPlane) kubeconfigFor(t testing.TB, namespace, serviceAccount string,
	bound *authv1.BoundObjectReference) string {
	t.Helper()
	token, err := c.client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), serviceAccount,
		&authv1.TokenRequest{Spec: authv1.TokenRequestSpec{BoundObjectRef: bound}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("asking for a token of the ServiceAccount %s/%s (create it first): %v", namespace, serviceAccount, err)
	}
	path := filepath.Join(c.run.dir, "kubeconfig-"+randomHex(4))
	if err := c.credentials.writeKubeconfig(path, c.server(), token.Status.Token); err != nil {
		t.Fatal(err)
	}
	return path
}
