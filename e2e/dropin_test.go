//go:build slow

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

const dropInImage = "e2e.invalid/whereabouts:latest"

// v054Rules are the rules of v0.9.4's ClusterRole that whereabouts v0.5.4 has too (doc/crds/daemonset-install.yaml).
func v054Rules(t testing.TB) []rbacv1.PolicyRule {
	return without(without(without(upstreamRules(t), "nodes"), "pods", "get"), "nodeslicepools")
}

// readNodes is the rule of docs/install/drop-in.md.
var readNodes = rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"},
	Verbs: []string{"list", "watch"}}

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
	leases := try(s.Client().CoordinationV1().Leases("").List(t.Context(), metav1.ListOptions{})).must(t)
	for i := range leases.Items { // which show that there are agents
		if l := &leases.Items[i]; l.Annotations[v1alpha1.HashAnnotation] != "" {
			check(t, s.Client().CoordinationV1().Leases(l.Namespace).Delete(t.Context(), l.Name, metav1.DeleteOptions{}))
		}
	}
	s.play(t, "without agents it waits until a leak is confirmed", func(t *testing.T) {
		s.up(t, "worker-1", "leaked", blue).leak(t)
		before := s.contents(t)
		// Nobody knows which node may still run the pod.
		out := job(t, kubeconfig)
		out.exits(t, 0)
		contains(t, "the log", out.stderr, `reason=NodesUnknown`, "reconciler run succeeded")
		s.checkReleased(t, before)

		c := beginDropIn(t, s.account(t, "nodes", append(v054Rules(t), readNodes)), s.jobPod(t).Name, "-log-level=verbose")
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

// TestDropIn_UnderUpstreamsManifests types the commands of docs/install/drop-in.md for whereabouts' own manifests, and
// runs the container that results under the account of the manifests.
func TestDropIn_UnderUpstreamsManifests(t *testing.T) {
	t.Parallel()
	const page = "docs/install/drop-in.md"
	for workload, manifests := range map[string][]string{
		"cronjob/ip-reconciler": {"testdata/whereabouts-v0.5.yaml"},
		"deployment/whereabouts-reconciler": {harness.UpstreamManifest(t, "daemonset-install.yaml"),
			harness.UpstreamManifest(t, "reconciler-deployment.yaml")},
	} {
		t.Run(workload, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "worker-1", "worker-2")
			var objects []*unstructured.Unstructured
			for _, file := range manifests {
				s.mustKubectl(t, "apply", "-f", file)
				objects = append(objects, try(harness.Documents(string(try(os.ReadFile(file)).must(t)))).must(t)...)
			}
			stored := func() map[string]any {
				text := s.mustKubectl(t, "-n", "kube-system", "get", workload, "-o", "yaml")
				return try(harness.Documents(text)).must(t)[0].Object
			}
			before := &unstructured.Unstructured{Object: stored()}
			own := madeBy(t, before).Spec.Containers[0]
			_, name, _ := strings.Cut(workload, "/")
			s.enter(t, "..", commandsUnder(t, page, "", "kubectl -n kube-system", name)...)
			after := &unstructured.Unstructured{Object: stored()}
			pod := madeBy(t, after)
			image := pod.Spec.Containers[0].Image
			equal(t, "the image", image, "example.com/ip-reconcile-drop-in:0.1.0")
			text := string(try(json.Marshal(after.Object["spec"])).must(t))
			equal(t, "but for the image", strings.ReplaceAll(text, image, own.Image),
				string(try(json.Marshal(before.Object["spec"])).must(t)))

			pod.Name, pod.Spec.NodeName = "reconciler", "worker-1"
			if after.GetKind() == "CronJob" {
				pod.OwnerReferences = s.jobPod(t).OwnerReferences
			}
			pod = try(s.Client().CoreV1().Pods(metav1.NamespaceSystem).Create(t.Context(), pod, metav1.CreateOptions{})).must(t)
			kubeconfig := s.KubeconfigForPod(t, pod)
			granted(t, kubeconfig, pod.Spec.ServiceAccountName, objects)
			s.runsDropIn(t, pod, kubeconfig, page)

			if after.GetKind() == "CronJob" {
				back := commandsUnder(t, page, "Back", workload)[0]
				s.enter(t, "..", strings.ReplaceAll(back, "WHEREABOUTS_IMAGE", own.Image))
				equal(t, "after the way back", stored()["spec"], before.Object["spec"])
			}
			s.enter(t, "..", commandsUnder(t, page, "Back", "delete clusterrolebinding")...)
			s.enter(t, "..", commandsUnder(t, page, "Back", "delete leases")...)
			for name := range s.leases(t) {
				if strings.HasPrefix(name, "ip-reconcile") {
					t.Errorf("the Lease %s remains", name)
				}
			}
		})
	}
}

// runsDropIn runs the container of a pod under an account: it releases what was on a node that is out of service, and
// nothing else, since without reports a leak must be confirmed. The account of the CronJob may not list nodes: its pass
// releases nothing until the page's command grants that, and then waits for the confirmation.
func (s *stage) runsDropIn(t *testing.T, pod *corev1.Pod, kubeconfig, page string) {
	t.Helper()
	lost, c := s.up(t, "worker-2", "lost", blue), pod.Spec.Containers[0]
	s.up(t, "worker-1", "live", blue)
	lost.delete(t, 30)
	check(t, s.nodes["worker-2"].SetReady(t.Context(), false))
	s.outOfService(t, "worker-2")
	s.up(t, "worker-1", "leaked", blue).leak(t)
	before, args := s.contents(t), append(c.Command, c.Args...)
	equal(t, "the program", args[0], "/ip-reconciler")
	isJob := len(pod.OwnerReferences) > 0
	// The plugin's rights are those of v0.9.4. From here on the account has what its manifest says.
	s.mustKubectl(t, "delete", "clusterrolebinding", "e2e-whereabouts")
	listNodes := authorizationv1.ResourceAttributes{Resource: "nodes", Verb: "list"}
	may(t, kubeconfig, listNodes, !isJob)
	if isJob {
		beginDropIn(t, kubeconfig, pod.Name, args[1:]...).wait().exits(t, 0)
		s.checkReleased(t, before)
		s.enter(t, "..", commandsUnder(t, page, "Grant list on nodes", "kubectl create")...)
		may(t, kubeconfig, listNodes, true)
	}
	run := beginDropIn(t, kubeconfig, pod.Name, args[1:]...)
	if isJob {
		eventually(t, "the first pass", func() bool {
			return matches(run, `msg="Waiting before the next pass".* unconfirmed=1`)
		})
	}
	s.waitReleased(t, promptly, "10.1.0.0-24", "1")
	check(t, run.cmd.Process.Signal(syscall.SIGTERM))
	run.wait().exits(t, 0)
	s.checkReleased(t, before, stored(lost)...)
}
