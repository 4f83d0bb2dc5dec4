package e2e

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

func TestStatus_RecordsRunsInPodsOnly(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	i := &statusStage{stage: s}
	kubeconfig := s.applied(t, "../deploy/cronjob")
	s.up(t, "worker-1", "live", blue)
	product(t, "run", "--kubeconfig", kubeconfig).exits(t, 2) // it may not list the CronJob whose flags count
	product(t, "run", "--kubeconfig", kubeconfig, "--reconciler-namespace", "kube-system", "--agents=auto").exits(t, 0)
	equal(t, "what a run by hand recorded", i.annotation(t, kube.PassLease, kube.PassAnnotation), "")

	account := try(clientcmd.BuildConfigFromFlags("", kubeconfig)).must(t)
	start(t, inPod(t, account, shipped.program(t, "ip-reconcile"), "run", "--yes")).wait().exits(t, 0)
	out := i.runStatus(t, s.Kubeconfig())
	out.exits(t, 0)
	contains(t, "status", unwrapped(out.stdout), `✓ CronJob kube-system/ip-reconcile has the schedule "*/15 * * * *"`,
		"✓ The last pass succeeded", "next is due at", "– No node agents are deployed")
}

// inPod is a static program with the account of a pod in kube-system, in a root folder with the files of that pod.
func inPod(t testing.TB, account *rest.Config, program string, args ...string) *exec.Cmd {
	t.Helper()
	root := t.TempDir()
	const secrets = "var/run/secrets/kubernetes.io/serviceaccount/"
	for path, content := range map[string][]byte{
		filepath.Base(program): try(os.ReadFile(program)).must(t), // clients call themselves by its name
		"cron-schedule/config": []byte("@every 4s"),               // of whereabouts' reconciler, whose runs may overlap
		secrets + "token":      []byte(account.BearerToken),
		secrets + "ca.crt":     account.CAData,
		secrets + "namespace":  []byte("kube-system"),
	} {
		check(t, os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755))
		check(t, os.WriteFile(filepath.Join(root, path), content, 0o755))
	}
	server := try(url.Parse(account.Host)).must(t)
	cmd := exec.Command("/"+filepath.Base(program), args...)
	cmd.Env = []string{"KUBERNETES_SERVICE_HOST=" + server.Hostname(), "KUBERNETES_SERVICE_PORT=" + server.Port()}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	cmd.Dir = "/"
	return cmd
}
