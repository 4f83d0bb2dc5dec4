//go:build slow

package e2e

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// dropInPorts is held while a drop-in serves: its ports are what they are, and here on the machine's own network.
var dropInPorts sync.Mutex

func TestTheDeploymentOfV094RunsWithOnlyItsImageChanged(t *testing.T) {
	if why := harness.ContainerdV2.Unsupported(); why != "" {
		t.Skip(why)
	}
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2")
	for _, file := range []string{"daemonset-install.yaml", "reconciler-deployment.yaml"} {
		if _, errs, err := s.Kubectl(t.Context(), "apply", "-f", harness.UpstreamManifest(t, file)); err != nil {
			t.Fatalf("kubectl apply: %v\n%s", err, errs)
		}
	}
	mayNow(t, s.KubeconfigFor(t, metav1.NamespaceSystem, "whereabouts"), upstreamRules(t)[0])
	dropInPorts.Lock()
	t.Cleanup(dropInPorts.Unlock) // when the containers have ended
	n := &realNode{Runtime: harness.NewRuntime(t, s.nodes["worker-1"], harness.ContainerdV2), s: s, name: "worker-1"}
	check(t, n.ImportImage(t.Context(), dropInImage, shipped.program(t, "ip-reconciler")))
	check(t, s.CreateNAD(t.Context(), blue))
	s.up(t, "worker-1", "live", blue)
	before := s.contents(t)
	// What is on a node out of service is proven stale without agents.
	s.notReady(t, "worker-2", time.Hour)
	s.outOfService(t, "worker-2")
	leak := func(name string) *pod {
		p := s.up(t, "worker-2", name, blue)
		p.delete(t, 30)
		return p
	}

	lost := leak("lost")
	schedule := newVolume(t)
	one := n.dropIn(t, "whereabouts-reconciler-one", schedule)
	one.said(t, `starting reconciler run`)
	one.said(t, `successfully cleanup IPs: \[10.1.0.2\]`)
	one.said(t, `removed stale overlappingIP allocation \[kube-system/10.1.0.2\]`)
	one.said(t, `reconciler run succeeded`)
	s.lost(t, before)
	s.event(t, "IPAddressGarbageCollected", "Pod", "lost")
	lost.forceDelete(t)
	one.said(t, `the schedule of passes is in force.*expression="30 4 \* \* \*" source=/cron-schedule/config`)
	v := &server{metrics: "127.0.0.1:9745"}
	v.passes(t, 1)

	schedule.swap(t, "@every 1s\n")
	v.passes(t, 3)
	schedule.swap(t, "every 5 minutes")
	v.is(t, `ip_reconcile_schedule_error`, 2) // schedule_error, and schedule_errors_total, which begins so
	one.said(t, `level=ERROR msg="the schedule of passes cannot be used" expression="@every 1s".*every 5 minutes`)
	contains(t, "the event", s.event(t, "BadSchedule", "Namespace", metav1.NamespaceSystem), "/cron-schedule/config", `until then "@every 1s" stays in force`)
	v.passes(t, v.metric(`ip_reconcile_passes_total`)+2)
	schedule.swap(t, "@every 1h")
	v.is(t, `ip_reconcile_schedule_error`, 1)

	// As while a Deployment is rolled out.
	two := n.dropIn(t, "whereabouts-reconciler-two", schedule)
	two.said(t, `level=WARN msg="there are no metrics: the address cannot be had" address=127.0.0.1:9745`)
	two.said(t, `the cluster is watched`)
	next := leak("next")
	one.said(t, `msg=released pool=kube-system/10.1.0.0-24 .*podRef=default/next`)
	s.freed(t, promptly, "10.1.0.0-24", "2")
	next.forceDelete(t)
	if strings.Contains(two.logs(t), "reconciler run") {
		t.Error("a second one works beside the first")
	}
	equal(t, "exit code of the first", one.stop(t), 0)
	two.said(t, `this replica works from now on`)
	leak("last")
	two.said(t, `msg=released pool=kube-system/10.1.0.0-24 .*podRef=default/last`)
	s.freed(t, promptly, "10.1.0.0-24", "2")
	equal(t, "exit code of the second", two.stop(t), 0)
	s.lost(t, before)
}

const dropInImage = "e2e.invalid/whereabouts:latest"

// A dropIn is ip-reconciler in a container, as a manifest of whereabouts has it.
type dropIn struct {
	n         *realNode
	container string
}

// dropIn runs a pod of the Deployment's template as kubelet does, but for the
// image, for the machine's network, where the API server is, and for the limits
// of CPU and memory.
func (n *realNode) dropIn(t *testing.T, name string, schedule *volume) *dropIn {
	t.Helper()
	d := try(n.s.Client().AppsV1().Deployments(metav1.NamespaceSystem).Get(t.Context(), "whereabouts-reconciler", metav1.GetOptions{})).must(t)
	template := d.Spec.Template.Spec
	template.NodeName = n.name
	pod := try(n.s.Client().CoreV1().Pods(d.Namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: d.Spec.Template.Labels, OwnerReferences: []metav1.OwnerReference{{
			APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "ReplicaSet", Name: d.Name + "-1", UID: "1", Controller: ptr.To(true),
		}}},
		Spec: template,
	}, metav1.CreateOptions{})).must(t)
	sandbox := try(n.RunPod(t.Context(), harness.PodSpec{Namespace: pod.Namespace, Name: name, UID: string(pod.UID), HostNetwork: true})).must(t)
	c := template.Containers[0]
	// With a network of its own a pod's name is its host name, and the runtime says so.
	spec := harness.ContainerSpec{Image: dropInImage, Command: c.Command, Args: c.Args, Env: map[string]string{"HOSTNAME": name}}
	for _, e := range c.Env {
		value, known := map[string]string{"metadata.namespace": pod.Namespace}[e.ValueFrom.FieldRef.FieldPath]
		if !known {
			t.Fatalf("the template has an environment that this test does not know: %+v", e)
		}
		spec.Env[e.Name] = value
	}
	if len(c.VolumeMounts) != 1 || len(template.Volumes) != 1 {
		t.Fatalf("the template has volumes that this test does not know: %+v", template.Volumes)
	}
	from := template.Volumes[0].ConfigMap
	config := try(n.s.Client().CoreV1().ConfigMaps(d.Namespace).Get(t.Context(), from.Name, metav1.GetOptions{})).must(t)
	if schedule.file == "" {
		schedule.file = from.Items[0].Path
		schedule.swap(t, config.Data[from.Items[0].Key])
	}
	spec.Mounts = []harness.Mount{{OnNode: schedule.dir, InContainer: c.VolumeMounts[0].MountPath, ReadOnly: true}}
	n.inCluster(t, pod, &spec)
	r := &dropIn{n: n, container: n.runs(t, sandbox, spec)}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s said:\n%s", name, shortened(r.logs(t)))
		}
	})
	return r
}

func (r *dropIn) logs(t testing.TB) string {
	logs, err := os.ReadFile(try(r.n.Container(context.Background(), r.container)).must(t).LogPath)
	if err != nil {
		return err.Error()
	}
	return string(logs)
}

func (r *dropIn) said(t testing.TB, pattern string) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	eventually(t, "the log to have "+pattern, func() bool { return re.MatchString(r.logs(t)) })
}

// stop ends it as kubelet does, and returns its exit code.
func (r *dropIn) stop(t testing.TB) int32 {
	t.Helper()
	check(t, r.n.StopContainer(t.Context(), r.container, 30))
	return try(r.n.Container(t.Context(), r.container)).must(t).ExitCode
}

// v054Rules are what whereabouts v0.5.4's ClusterRole grants of that of v0.9.4
// (doc/crds/daemonset-install.yaml).
func v054Rules(t testing.TB) []rbacv1.PolicyRule {
	return without(without(without(upstreamRules(t), "nodes"), "pods", "get"), "nodeslicepools")
}

// readReports is what node agents need of who reads their reports.
var readReports = rbacv1.PolicyRule{APIGroups: []string{sandboxReports.Group}, Resources: []string{sandboxReports.Resource}, Verbs: []string{"list", "get"}}

// jobPod makes the pod object of a CronJob's Job.
func (s *stage) jobPod(t testing.TB) *corev1.Pod {
	t.Helper()
	return try(s.Client().CoreV1().Pods(metav1.NamespaceSystem).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "ip-reconciler-29393930-", OwnerReferences: []metav1.OwnerReference{{
			APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Name: "ip-reconciler-29393930", UID: "1", Controller: ptr.To(true),
		}}},
		Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyOnFailure, Containers: []corev1.Container{{Name: "whereabouts", Image: dropInImage}}},
	}, metav1.CreateOptions{})).must(t)
}

// beginDropIn starts ip-reconciler with the host name of a pod. Outside of a
// container KUBECONFIG leads to the cluster in the place of the pod's account.
func beginDropIn(t testing.TB, kubeconfig, host string, args ...string) *command {
	t.Helper()
	cmd := exec.Command(shipped.program(t, "ip-reconciler"), args...)
	cmd.Env = []string{"HOSTNAME=" + host, "KUBECONFIG=" + kubeconfig}
	return start(t, cmd)
}

func TestTheCronJobOfV054RunsWithOnlyItsImageChanged(t *testing.T) {
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
		contains(t, "the log", out.stderr, "starting reconciler run", "no IP addresses to cleanup", "reconciler run succeeded")
		s.lost(t, before)
	})

	s.play(t, "with the agents' reports it frees what they prove", func(t *testing.T) {
		leaked, agent := s.up(t, "worker-1", "leaked", blue), s.agent(t, "worker-1")
		agent.writeReport(t, leaked.stopped())
		leaked.leak(t)
		s.up(t, "worker-1", "live", blue)
		before := s.contents(t)
		// 403 is no answer: what only reports could prove is held.
		job(t, kubeconfig).exits(t, 0)
		s.lost(t, before)

		out := job(t, s.account(t, "no-patch", append(without(v054Rules(t), "ippools", "patch"), readReports)))
		out.exits(t, 3)
		contains(t, "the log", out.stderr, "reconciler run failed: 1 allocations", "forbidden")
		equal(t, "entries and reservations", len(s.contents(t)), len(before))

		out = job(t, s.account(t, "reports", append(v054Rules(t), readReports)))
		out.exits(t, 0)
		contains(t, "the log", out.stderr, "successfully cleanup IPs: [10.1.0.1]", "removed stale overlappingIP allocation [kube-system/10.1.0.1]", "reconciler run succeeded")
		equal(t, "what is left", keys(s.contents(t)), []string{"10.1.0.0-24 2", "reservation 10.1.0.2"})
	})

	s.removeCRD(t, sandboxReports)
	s.play(t, "without agents it waits until a leak is confirmed", func(t *testing.T) {
		s.up(t, "worker-1", "leaked", blue).leak(t)
		before := s.contents(t)
		c := beginDropIn(t, kubeconfig, s.jobPod(t).Name, "-log-level=verbose")
		eventually(t, "the first pass", func() bool { return matches(c, `msg="waiting before the next pass" pause=1m0s unconfirmed=1`) })
		check(t, c.cmd.Process.Signal(syscall.SIGTERM))
		c.wait().exits(t, 0)
		s.lost(t, before)
	})

	s.play(t, "with the flags of a CronJob it asks for no pod", func(t *testing.T) {
		out := beginDropIn(t, "", "none", "-kubeconfig="+kubeconfig, "-log-level=verbose", "-timeout", "5").wait()
		out.exits(t, 0)
		contains(t, "the log", out.stderr, "reconciler run succeeded")
	})

	s.play(t, "what it cannot read", func(t *testing.T) {
		out := beginDropIn(t, "", "none", "-kubeconfig="+plainKubeconfig(t, "http://"+freeAddress(t)), "-timeout", "1").wait()
		out.exits(t, 2)
		contains(t, "the log", out.stderr, "reconciler run failed:", "cannot be reached")
		out = job(t, s.account(t, "no-pods", without(v054Rules(t), "pods")))
		out.exits(t, 2)
		contains(t, "the log", out.stderr, "it cannot be told whether a Job runs this pod", "grant list on pods")
		beginDropIn(t, kubeconfig, "none", "-timeout", "soon").wait().exits(t, 2)
	})

	s.play(t, "without a pod of its name it runs until it is told to end", func(t *testing.T) {
		dropInPorts.Lock()
		t.Cleanup(dropInPorts.Unlock) // when it has ended
		c := beginDropIn(t, kubeconfig, "none")
		eventually(t, "the first pass", func() bool { return matches(c, "reconciler run succeeded") })
		check(t, c.cmd.Process.Signal(syscall.SIGTERM))
		out := c.wait()
		out.exits(t, 0)
		contains(t, "the log", out.stderr, "there is no pod of this name", "shutting down reconciler")
	})
}

// matches reports whether the log has it.
func matches(c *command, pattern string) bool {
	return regexp.MustCompile(pattern).MatchString(c.stderr.String())
}
