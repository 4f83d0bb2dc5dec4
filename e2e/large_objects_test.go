//go:build slow

package e2e

import (
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// largest is nearly the size of an object that etcd stores.
const largest = 1400 << 10

// TestLargeObjects has a tenant make pods and definitions of 1.4 MB. With the chart's memory limit as a real one the
// programs still release what is stale. -args -full has 500 pods and 200 definitions. It runs alone: the API server and
// etcd take the processors while they store and list so much.
func TestLargeObjects(t *testing.T) {
	s := newStageWithReports(t, "worker-1")
	s.Dispose()
	pods, definitions := 120, 40
	if *full {
		pods, definitions = 500, 200
	}
	s.makeLarge(t, pods, definitions)
	procs := try(s.MemoryLimit("limit", 256<<20)).must(t)
	limited := func(program string, args ...string) *exec.Cmd {
		return exec.Command("sh", append([]string{"-c", `echo $$ >"$0" && exec "$@"`, procs,
			shipped.program(t, program)}, args...)...)
	}
	one := s.agent(t, "worker-1")
	live := s.up(t, "worker-1", "live", blue)
	leak := func(name string) *pod {
		t.Helper()
		p := s.up(t, "worker-1", name, blue)
		one.writeReport(t, live.listed(v1alpha1.SandboxReady), p.listed(v1alpha1.SandboxReady))
		p.leak(t)
		one.writeReport(t, live.listed(v1alpha1.SandboxReady), p.stopped())
		return p
	}

	first := leak("first")
	before := s.contents(t)
	start(t, limited("ip-reconcile", "check", "--kubeconfig", s.Kubeconfig())).wait().exits(t, 1)
	address, health := freeAddress(t), freeAddress(t)
	v := &server{metrics: address, health: health, command: start(t, limited("ip-reconcile", "serve", "--kubeconfig",
		s.Kubeconfig(), "--leader-elect=false", "--cron", "@every 5s", "--metrics-bind-address", address,
		"--health-probe-bind-address", health))}
	v.passes(t, 1)
	s.waitReleased(t, recovery, "10.1.0.0-24", strings.Fields(stored(first)[0])[1])
	s.checkReleased(t, before, stored(first)...)
	v.passes(t, v.metric(`ip_reconcile_passes_total{result="done"}`)+2) // beside its caches
	all, _ := residentMemory(t, v.command)
	t.Logf("serve beside %d pods and %d definitions of 1.4 MB: %.0f MiB resident", pods, definitions, all)
	check(t, v.cmd.Process.Kill())
	_ = v.cmd.Wait()

	second := leak("second")
	before = s.contents(t)
	cmd := limited("ip-reconciler", "-log-level=verbose", "-timeout=30")
	cmd.Env = []string{"HOSTNAME=" + s.jobPod(t).Name, "KUBECONFIG=" + s.Kubeconfig()}
	start(t, cmd).wait().exits(t, 0)
	s.checkReleased(t, before, stored(second)...)
}

// makeLarge makes Pending pods with a large variable, and definitions with a large annotation.
func (s *stage) makeLarge(t *testing.T, pods, definitions int) {
	t.Helper()
	text, next := strings.Repeat("x", largest), make(chan int)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for n := range next {
				name := "large-" + strconv.Itoa(n)
				var err error
				if n < pods {
					_, err = s.Client().CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
						ObjectMeta: metav1.ObjectMeta{Name: name},
						Spec: corev1.PodSpec{SchedulerName: "none", Containers: []corev1.Container{{Name: "main",
							Image: "e2e.invalid/none", Env: []corev1.EnvVar{{Name: "LARGE", Value: text}}}}},
					}, metav1.CreateOptions{})
				} else {
					config := `{"type":"macvlan","ipam":{"type":"whereabouts","range":"10.77.0.0/24"},"x":"` + text + `"}`
					_, err = s.Dynamic().Resource(harness.NADs).Namespace("default").Create(t.Context(), &unstructured.Unstructured{
						Object: map[string]any{"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
							"metadata": map[string]any{"name": name}, "spec": map[string]any{"config": config}},
					}, metav1.CreateOptions{})
				}
				if err != nil {
					t.Errorf("make %s: %v", name, err)
				}
			}
		})
	}
	for n := range pods + definitions {
		next <- n
	}
	close(next)
	all.Wait()
}
