//go:build slow

package e2e

import (
	"os/exec"
	"regexp"
	"syscall"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const dropInImage = "e2e.invalid/whereabouts:latest"

// v054Rules are the rules of v0.9.4's ClusterRole that whereabouts v0.5.4 has too (doc/crds/daemonset-install.yaml).
func v054Rules(t testing.TB) []rbacv1.PolicyRule {
	return without(without(without(upstreamRules(t), "nodes"), "pods", "get"), "nodeslicepools")
}

// readReports is the rule that reading reports needs.
var readReports = rbacv1.PolicyRule{APIGroups: []string{sandboxReports.Group},
	Resources: []string{sandboxReports.Resource}, Verbs: []string{"list", "get"}}

// jobPod creates the pod of a CronJob's Job.
func (s *stage) jobPod(t testing.TB) *corev1.Pod {
	t.Helper()
	return try(s.Client().CoreV1().Pods(metav1.NamespaceSystem).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "ip-reconciler-29393930-", OwnerReferences: []metav1.OwnerReference{{
			APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Name: "ip-reconciler-29393930", UID: "1",
			Controller: ptr.To(true),
		}}},
		Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyOnFailure,
			Containers: []corev1.Container{{Name: "whereabouts", Image: dropInImage}}},
	}, metav1.CreateOptions{})).must(t)
}

// beginDropIn starts ip-reconciler with the host name of a pod. Outside of a container KUBECONFIG replaces the pod's
// account.
func beginDropIn(t testing.TB, kubeconfig, host string, args ...string) *command {
	t.Helper()
	cmd := exec.Command(shipped.program(t, "ip-reconciler"), args...)
	cmd.Env = []string{"HOSTNAME=" + host, "KUBECONFIG=" + kubeconfig}
	return start(t, cmd)
}

func TestDropIn_CronJobOfV054(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1")
	kubeconfig := s.account(t, "v0.5.4", v054Rules(t))
	// job runs the container of doc/crds/ip-reconciler-job.yaml to its end.
	job := func(t *testing.T, kubeconfig string) *outcome {
		return beginDropIn(t, kubeconfig, s.jobPod(t).Name, "-log-level=verbose").wait()
	}

	s.play(t, "one pass", func(t *testing.T) {
		s.up(t, "worker-1", "live", blue)
		before := s.contents(t)
		out := job(t, kubeconfig)
		out.exits(t, 0)
		contains(t, "the log", out.stderr, "starting reconciler run", "no IP addresses to cleanup",
			"reconciler run succeeded")
		s.checkReleased(t, before)
	})

	s.play(t, "with the agents' reports it releases what they prove", func(t *testing.T) {
		leaked, agent := s.up(t, "worker-1", "leaked", blue), s.agent(t, "worker-1")
		agent.writeReport(t, leaked.stopped())
		leaked.leak(t)
		s.up(t, "worker-1", "live", blue)
		before := s.contents(t)
		// 403 is no answer: without reports their allocations are held.
		job(t, kubeconfig).exits(t, 0)
		s.checkReleased(t, before)

		out := job(t, s.account(t, "no-patch", append(without(v054Rules(t), "ippools", "patch"), readReports)))
		out.exits(t, 3)
		contains(t, "the log", out.stderr, `"reconciler run failed" error="1 allocations`, "forbidden")
		equal(t, "entries and reservations", len(s.contents(t)), len(before))

		out = job(t, s.account(t, "reports", append(v054Rules(t), readReports)))
		out.exits(t, 0)
		contains(t, "the log", out.stderr, `"successfully cleanup IPs" addresses=[10.1.0.1]`,
			`"removed stale overlappingIP allocation" reservation=kube-system/10.1.0.1`, "reconciler run succeeded")
		equal(t, "what remains", keys(s.contents(t)), []string{"10.1.0.0-24 2", "reservation 10.1.0.2"})
	})

	s.removeCRD(t, sandboxReports)
	s.play(t, "without agents it waits until a leak is confirmed", func(t *testing.T) {
		s.up(t, "worker-1", "leaked", blue).leak(t)
		before := s.contents(t)
		c := beginDropIn(t, kubeconfig, s.jobPod(t).Name, "-log-level=verbose")
		eventually(t, "the first pass", func() bool {
			return matches(c, `msg="Waiting before the next pass" pause=1m0s unconfirmed=1`)
		})
		check(t, c.cmd.Process.Signal(syscall.SIGTERM))
		c.wait().exits(t, 0)
		s.checkReleased(t, before)
	})

	s.play(t, "without a pod of its name it runs until it is stopped", func(t *testing.T) {
		c := beginDropIn(t, kubeconfig, "none")
		eventually(t, "the first pass", func() bool { return matches(c, "reconciler run succeeded") })
		check(t, c.cmd.Process.Signal(syscall.SIGTERM))
		out := c.wait()
		out.exits(t, 0)
		contains(t, "the log", out.stderr, "Own pod not found", "Shutting down")
	})
}

// matches reports whether the log matches a pattern.
func matches(c *command, pattern string) bool {
	return regexp.MustCompile(pattern).MatchString(c.stderr.String())
}
