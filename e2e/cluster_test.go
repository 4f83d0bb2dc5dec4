//go:build cluster

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// An installation is a cluster with kubelets in which the product runs as users run it: from the manifests of deploy
// and its image. The test plays no component.
type installation struct {
	*stage
	cluster    *harness.Cluster
	oracle     *oracle
	prometheus *harness.Prometheus // nil where nothing scrapes the product
}

// soon is long enough for what an event triggers, on a machine with three clusters and two cores. The log has how long
// it took.
const soon = 3 * time.Minute

// install starts a cluster and installs the Deployment, with extra arguments, and the agents. An oracle checks until
// the test ends that no address on the wire is released.
func install(t *testing.T, workers int, args ...string) *installation {
	t.Helper()
	i := ready(t, workers)
	i.deploy(t, args...)
	return i
}

// deploy installs the product in a cluster that is ready.
func (i *installation) deploy(t *testing.T, args ...string) {
	t.Helper()
	i.apply(t, args...)
	t.Cleanup(func() { i.oracle.check(t) })
}

// apply is deploy without the oracle's check at the end.
func (i *installation) apply(t *testing.T, args ...string) {
	t.Helper()
	began := time.Now()
	patch := "patches:\n- target: {kind: Deployment}\n  patch: |\n    - {op: test, path: " +
		"/spec/template/spec/containers/0/args/0, value: serve}\n"
	for _, a := range args {
		patch += fmt.Sprintf("    - {op: add, path: /spec/template/spec/containers/0/args/-, value: %q}\n", a)
	}
	if i.prometheus != nil {
		patch += "- target: {kind: DaemonSet}\n  patch: |\n    - {op: add, path: /spec/template/spec/containers/0/args, " +
			"value: ['--metrics-bind-address=:9746']}\n"
	}
	i.mustKubectl(t, "apply", "--validate=strict", "-k", overlay(t, "", []string{"deployment-with-agent"}, nil, patch))
	i.rolledOut(t, "daemonset/ip-reconcile-agent", "deployment/ip-reconcile")
	t.Logf("the product was ready after %.1fs", time.Since(began).Seconds())
}

// ready starts a cluster with the network blue and the product's image on its workers. The product does not run.
func ready(t *testing.T, workers int) *installation {
	t.Helper()
	return readyOn(t, workers, false)
}

// readyOn is ready where the pods' default network may use whereabouts.
func readyOn(t *testing.T, workers int, shared bool) *installation {
	t.Helper()
	began := time.Now()
	if why := harness.ContainerdV2.Unsupported(); why != "" {
		t.Skip(why)
	}
	programs := []string{shipped.program(t, "ip-reconcile"), shipped.program(t, "ip-reconcile-agent")}
	w := harness.StartCluster(t, workers, shared)
	t.Logf("the cluster was ready after %.1fs", time.Since(began).Seconds())
	i := &installation{stage: &stage{ControlPlane: w.ControlPlane, programs: shipped}, cluster: w}
	check(t, w.ImportImage(t.Context(), productImage, programs...))
	check(t, w.CreateNAD(t.Context(), blue))
	i.oracle = i.watched(t)
	t.Cleanup(func() {
		if t.Failed() {
			i.logProduct(t)
		}
	})
	return i
}

func (i *installation) rolledOut(t testing.TB, workloads ...string) {
	t.Helper()
	for _, w := range workloads {
		i.mustKubectl(t, "rollout", "status", "--timeout=180s", "-n", "kube-system", w)
	}
}

// rolled waits until workloads of the namespace "default" are rolled out.
func (i *installation) rolled(t testing.TB, workloads ...string) {
	t.Helper()
	for _, w := range workloads {
		i.mustKubectl(t, "rollout", "status", "--timeout=600s", w)
	}
}

// logProduct logs what the product's pods print and on which node they run.
func (i *installation) logProduct(t *testing.T) {
	for _, p := range try(i.Client().CoreV1().Pods(metav1.NamespaceSystem).List(context.Background(),
		metav1.ListOptions{})).must(t).Items {
		worker := i.cluster.Worker(p.Spec.NodeName)
		if worker == nil {
			t.Logf("%s is on no worker: %v", p.Name, p.Status.Conditions)
			continue
		}
		stdout, stderr, err := worker.Output(&p)
		t.Logf("%s on %s, %s (%v):\n%s%s", p.Name, p.Spec.NodeName, p.Status.Phase, err, shortened(withoutHeld(stdout)),
			shortened(withoutHeld(stderr)))
	}
}

// withoutHeld leaves out of a log what each pass says of each address again.
func withoutHeld(log string) string {
	return strings.Join(slices.DeleteFunc(strings.SplitAfter(log, "\n"), func(line string) bool {
		return strings.Contains(line, "level=INFO msg=Held ")
	}), "")
}

// waitReported waits until the agents of the pods' nodes report their sandboxes Ready: until then AddressOnPod is as
// correct as SandboxReady.
func (i *installation) waitReported(t testing.TB, pods ...*corev1.Pod) {
	t.Helper()
	for _, p := range pods {
		i.reported(t, p.Spec.NodeName, "the sandbox of "+p.Name, func(r *v1alpha1.SandboxReport) bool {
			return slices.ContainsFunc(r.Sandboxes, func(b v1alpha1.Sandbox) bool {
				return b.UID == string(p.UID) &&
					b.State == v1alpha1.SandboxReady
			})
		})
		i.fresh(t, p.Spec.NodeName)
	}
}

// asPod runs the product to its end in a pod with the reconciler's permissions; -o json is added.
func (i *installation) asPod(t testing.TB, args ...string) *outcome {
	t.Helper()
	began, pods := time.Now(), i.Client().CoreV1().Pods(metav1.NamespaceSystem)
	pod := try(pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: args[0] + "-"},
		Spec: corev1.PodSpec{
			ServiceAccountName: "ip-reconcile", RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{
				Name: "main", Image: productImage, ImagePullPolicy: corev1.PullNever, Args: append(args, "-o", "json"),
			}},
		},
	}, metav1.CreateOptions{})).must(t)
	eventuallyWithin(t, patience, pod.Name+" to end", func() bool {
		pod = try(pods.Get(t.Context(), pod.Name, metav1.GetOptions{})).must(t)
		return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	})
	o := &outcome{code: int(pod.Status.ContainerStatuses[0].State.Terminated.ExitCode), took: time.Since(began)}
	var err error
	o.stdout, o.stderr, err = i.cluster.Worker(pod.Spec.NodeName).Output(pod)
	check(t, err)
	if o.code == 2 {
		t.Fatalf("%v could not read the cluster: %s", args, o.stderr)
	}
	o.read(t)
	return o
}

// leader is the replica that leads.
func (i *installation) leader(t testing.TB) *server {
	t.Helper()
	v := &server{}
	eventuallyWithin(t, time.Minute, "a replica to lead", func() bool {
		lease, err := i.Client().CoordinationV1().Leases(metav1.NamespaceSystem).Get(t.Context(), "ip-reconcile",
			metav1.GetOptions{})
		if err != nil {
			return false
		}
		name, _, _ := strings.Cut(ptr.Deref(lease.Spec.HolderIdentity, ""), "_")
		pod, err := i.Client().CoreV1().Pods(metav1.NamespaceSystem).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return false
		}
		v.metrics, v.node, v.pod = pod.Status.PodIP+":9745", pod.Spec.NodeName, pod
		return v.metric(`ip_reconcile_passes_total{result="done"}`) > 0
	})
	return v
}

// workload is a pod of the workload on a worker, or wherever it fits.
func workload(name, worker string, networks ...string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"app": name},
			Annotations: map[string]string{"k8s.v1.cni.cncf.io/networks": strings.Join(networks, ",")},
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "main", Image: harness.WorkloadImage,
				ImagePullPolicy: corev1.PullNever}},
			TerminationGracePeriodSeconds: ptr.To(int64(1)),
		},
	}
	if worker != "" {
		p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: worker}
	}
	return p
}

// stubborn is a pod that ends only after its grace period, in seconds.
func stubborn(name, worker string, grace int64) *corev1.Pod {
	p := workload(name, worker, "blue")
	p.Spec.Containers[0].Args = []string{"-stubborn"}
	p.Spec.TerminationGracePeriodSeconds = ptr.To(grace)
	return p
}

// start creates a pod and waits until it runs.
func (i *installation) start(t testing.TB, p *corev1.Pod) *corev1.Pod {
	t.Helper()
	try(i.Client().CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{})).must(t)
	return i.running(t, p.Name)[0]
}

// next starts a pod on the network blue, which must get this address.
func (i *installation) next(t testing.TB, name, worker, address string) *corev1.Pod {
	t.Helper()
	p := i.start(t, workload(name, worker, "blue"))
	equal(t, "the address of "+name, addressOn(t, p, "net1").String(), address)
	return p
}

// ends waits until nobody on a worker has an address.
func (i *installation) ends(t testing.TB, worker *harness.Worker, address netip.Addr) {
	t.Helper()
	eventuallyWithin(t, 3*time.Minute, address.String()+" to be off the wire",
		func() bool { return !worker.Answers(t, address) })
}

// running waits until pods of the namespace "default" run.
func (i *installation) running(t testing.TB, names ...string) (pods []*corev1.Pod) {
	t.Helper()
	return i.runningWithin(t, 2*time.Minute, names...)
}

func (i *installation) runningWithin(t testing.TB, limit time.Duration, names ...string) (pods []*corev1.Pod) {
	t.Helper()
	eventuallyWithin(t, limit, strings.Join(names, ", ")+" to run", func() bool {
		pods = nil
		for _, name := range names {
			p, err := i.Client().CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
			if err == nil && p.Status.Phase == corev1.PodRunning {
				pods = append(pods, p)
			} else if err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		}
		return len(pods) == len(names)
	})
	return pods
}

// statefulSet creates a StatefulSet of the workload that is spread over the workers, and waits until its pods run.
func (i *installation) statefulSet(t testing.TB, name string, replicas int, change func(*appsv1.StatefulSet),
	networks ...string) []*corev1.Pod {
	t.Helper()
	labels, template := spread(name, networks...)
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To(int32(replicas)), ServiceName: name, Selector: labels,
			PodManagementPolicy: appsv1.ParallelPodManagement, Template: template,
		},
	}
	if change != nil {
		change(set)
	}
	try(i.Client().AppsV1().StatefulSets("default").Create(t.Context(), set, metav1.CreateOptions{})).must(t)
	var names []string
	for n := range replicas {
		names = append(names, fmt.Sprint(name, "-", n))
	}
	return i.running(t, names...)
}

// deployment creates a Deployment of the workload that is spread over the workers.
func (i *installation) deployment(t testing.TB, name string, replicas int, networks ...string) {
	t.Helper()
	labels, template := spread(name, networks...)
	try(i.Client().AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       appsv1.DeploymentSpec{Replicas: ptr.To(int32(replicas)), Selector: labels, Template: template},
	}, metav1.CreateOptions{})).must(t)
}

// spread makes a pod template of the workload, with as many pods on each worker.
func spread(name string, networks ...string) (*metav1.LabelSelector, corev1.PodTemplateSpec) {
	p := workload(name, "", networks...)
	labels := &metav1.LabelSelector{MatchLabels: p.Labels}
	p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: labels,
	}}
	return labels, corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: p.Labels, Annotations: p.Annotations},
		Spec: p.Spec}
}

// addressOn is the address of a pod's interface, as Multus reports it.
func addressOn(t testing.TB, p *corev1.Pod, ifName string) netip.Addr {
	t.Helper()
	var entries []harness.NetworkStatus
	check(t, json.Unmarshal([]byte(p.Annotations["k8s.v1.cni.cncf.io/network-status"]), &entries))
	at := slices.IndexFunc(entries, func(e harness.NetworkStatus) bool { return e.Interface == ifName })
	if at < 0 {
		t.Fatalf("%s has no %s", p.Name, ifName)
	}
	return netip.MustParseAddr(entries[at].IPs[0])
}

// answers checks which pod answers when a pod queries an address of the workload.
func (i *installation) answers(t testing.TB, asks *corev1.Pod, address netip.Addr, want *corev1.Pod) {
	t.Helper()
	if name, err := i.cluster.Asked(t.Context(), asks, address); err != nil || name != want.Name {
		t.Errorf("at %s %s gets %q and not %s: %v", address, asks.Name, name, want.Name, err)
	}
}

// sandbox is the sandbox of a pod.
func (i *installation) sandbox(t testing.TB, p *corev1.Pod) string {
	t.Helper()
	return try(i.cluster.Worker(p.Spec.NodeName).SandboxOf(t.Context(), string(p.UID))).must(t)
}

// killing waits until kubelet has begun a graceful termination. Otherwise a deletion by force makes it a quick one.
func (i *installation) killing(t *testing.T, p *corev1.Pod) {
	t.Helper()
	eventually(t, "kubelet to begin", func() bool {
		events, err := i.Client().CoreV1().Events(p.Namespace).List(t.Context(),
			metav1.ListOptions{FieldSelector: "reason=Killing,involvedObject.name=" + p.Name})
		return err == nil && len(events.Items) > 0
	})
}
