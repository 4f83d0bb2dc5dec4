//go:build slow

package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// A migration types the commands of docs/install in a folder with deploy and mine.
type migration struct {
	*stage
	log    *harness.AuditLog
	folder string
}

// TestMigrate_ByKustomizeAndBack goes from whereabouts' own reconciler to the Deployment with agents, with an upgrade
// on the way, and back. At each step the audit log has who wrote. At the end the cluster has what it had before.
func TestMigrate_ByKustomizeAndBack(t *testing.T) {
	t.Parallel()
	m := &migration{stage: newStage(t, "worker-1"), folder: t.TempDir()}
	m.endNamespaces(t)
	m.enter(t, "..", "kubectl delete -f deploy/leases --ignore-not-found") // whereabouts alone has none
	m.mustKubectl(t, "apply", "-f", harness.UpstreamManifest(t, "daemonset-install.yaml"), "-f",
		harness.UpstreamManifest(t, "reconciler-deployment.yaml"))
	stays, lost := m.up(t, "worker-1", "stays", blue), m.up(t, "worker-1", "lost", blue)
	before, entries := try(m.objects(t)).must(t), m.contents(t)
	m.log = m.AuditLog()
	try(m.log.Next()).must(t)

	m.types(t, "migrate", "1. Pause before you install", "kubectl ")
	m.mine(t, "0.0.9")
	m.types(t, "kustomize", "", "kubectl apply")
	equal(t, "the image and the CRD of the older release", m.imageAndCRD(t), "example.com/ip-reconcile:0.0.9 false")
	m.mine(t, "")
	m.types(t, "upgrade", "", "kubectl apply")
	equal(t, "the image and the CRD after the upgrade", m.imageAndCRD(t), "example.com/ip-reconcile:0.1.0 true")

	agent := m.agent(t, "worker-1")
	agent.writeReport(t, stays.listed(v1alpha1.SandboxReady), lost.stopped())
	lost.leak(t)
	objects := kustomized(t, filepath.Join(m.folder, "mine"))
	pod := reconcilerPod(t, objects)
	pod.Name, pod.Spec.NodeName = reconcilerName+"-0", "worker-1"
	pod = try(m.Client().CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{})).must(t)
	kubeconfig := m.KubeconfigForPod(t, pod)
	granted(t, kubeconfig, pod.Spec.ServiceAccountName, objects)
	v := m.serve(t, kubeconfig, "--reconciler-namespace=kube-system")
	v.is(t, `ip_reconcile_paused`, 1)
	v.is(t, `ip_reconcile_allocations{reason="PodGone",verdict="Stale"}`, 1)
	m.product(t, "check").exits(t, 1)
	status := m.beginProduct(t, "status", "--kubeconfig", m.Kubeconfig()).wait()
	equal(t, "the exit code of status", status.code, 1)
	contains(t, "status", status.stdout, "runs whereabouts' own", "All releases are paused")
	equal(t, "who wrote while releases were paused", fmt.Sprint(m.writers(t)), "[]")
	m.checkReleased(t, entries)

	const stop, start = "4. Stop whereabouts' own", "3. Start whereabouts' own again"
	for _, part := range []string{"deployment/whereabouts-reconciler", "patch daemonset", "wait --for=delete"} {
		m.types(t, "migrate", stop, part)
	}
	equal(t, "whereabouts' own", m.theirs(t), "0 replicas, control loop false")
	m.types(t, "migrate", "5. Resume", "kubectl ")
	m.waitReleased(t, promptly, "10.1.0.0-24", "2")
	v.is(t, `ip_reconcile_candidates`, 0)
	m.checkReleased(t, entries, stored(lost)...)
	equal(t, "who wrote after the resume", fmt.Sprint(m.writers(t)), "[ip-reconcile]")

	agent.change(func() { agent.silent = true })
	m.types(t, "uninstall", "1. Remove ip-reconcile", "kubectl ")
	check(t, m.Client().CoreV1().Pods(pod.Namespace).Delete(t.Context(), pod.Name, *metav1.NewDeleteOptions(0)))
	v.cmd.Process.Kill() // as kubelet does when the pod's time is over
	m.types(t, "uninstall", "2. Remove what stays", "kubectl ")
	maps.DeleteFunc(before, func(object string, _ metav1.ObjectMeta) bool { // the reservation that was released
		return strings.Contains(object, " kube-system/10.1.0.2")
	})
	var rest []string
	if !within(time.Minute, time.Second, func() bool {
		now, err := m.objects(t)
		rest = changedBetween(before, now)
		return err == nil && len(rest) == 0
	}) {
		t.Errorf("docs/install/uninstall.md leaves, or removes too much:\n%s", strings.Join(rest, "\n"))
	}
	m.up(t, "worker-1", "again", blue).leak(t)
	entries = m.contents(t)
	equal(t, "who wrote after the removal", fmt.Sprint(m.writers(t)), "[]")
	m.types(t, "uninstall", start, "deployment/whereabouts-reconciler")
	equal(t, "whereabouts' own", m.theirs(t), "1 replicas, control loop false")
	m.upstream(t)
	m.checkReleased(t, entries, entryAndReservation(2)...)
	equal(t, "who wrote at the end", fmt.Sprint(m.writers(t)), "[ip-reconciler]")
}

// types types the commands under a heading of a page of docs/install that have a part.
func (m *migration) types(t *testing.T, page, heading, part string) {
	t.Helper()
	m.enter(t, m.folder, commandsUnder(t, "docs/install/"+page+".md", heading, part)...)
}

// mine writes deploy and the kustomization of the page; with a tag those of an older release, whose CRD lacks a field.
func (m *migration) mine(t *testing.T, tag string) {
	t.Helper()
	deploy, page := filepath.Join(m.folder, "deploy"), string(try(os.ReadFile("../docs/install/kustomize.md")).must(t))
	check(t, os.RemoveAll(deploy))
	check(t, os.CopyFS(deploy, os.DirFS("../deploy")))
	lines := regexp.MustCompile(`(?m)^    (?:resources|images): .*$`).FindAllString(page, 2)
	text := strings.ReplaceAll(strings.Join(lines, "\n"), "    ", "")
	if tag != "" {
		text = strings.Replace(text, "ip-reconcile}]", "ip-reconcile, newTag: "+tag+"}]", 1)
		file := filepath.Join(deploy, "crds", "ip-reconcile.dev_sandboxreports.yaml")
		crd := try(harness.Documents(string(try(os.ReadFile(file)).must(t)))).must(t)[0]
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		unstructured.RemoveNestedField(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "gone")
		check(t, unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"))
		check(t, os.WriteFile(file, try(yaml.Marshal(crd.Object)).must(t), 0o600))
	}
	check(t, os.MkdirAll(filepath.Join(m.folder, "mine"), 0o755))
	check(t, os.WriteFile(filepath.Join(m.folder, "mine", "kustomization.yaml"), []byte(text), 0o600))
}

// imageAndCRD is the image of the Deployment, and whether the CRD has all fields.
func (m *migration) imageAndCRD(t *testing.T) string {
	t.Helper()
	sets := m.Client().AppsV1().Deployments("kube-system")
	set := try(sets.Get(t.Context(), reconcilerName, metav1.GetOptions{})).must(t)
	versions, _, _ := unstructured.NestedSlice(m.crd(t, sandboxReports).Object, "spec", "versions")
	_, has, _ := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "gone")
	return fmt.Sprint(set.Spec.Template.Spec.Containers[0].Image, " ", has)
}

// theirs is what whereabouts' Deployment and DaemonSet run.
func (m *migration) theirs(t *testing.T) string {
	t.Helper()
	apps := m.Client().AppsV1()
	d := try(apps.Deployments("kube-system").Get(t.Context(), "whereabouts-reconciler", metav1.GetOptions{})).must(t)
	set := try(apps.DaemonSets("kube-system").Get(t.Context(), "whereabouts", metav1.GetOptions{})).must(t)
	return fmt.Sprintf("%d replicas, control loop %v", *d.Spec.Replicas, strings.Contains(
		fmt.Sprint(set.Spec.Template.Spec.Containers[0].Args), "/ip-control-loop"))
}

// writers are the programs that wrote pools or reservations since the last call, but for the plugin.
func (m *migration) writers(t *testing.T) (programs []string) {
	t.Helper()
	for _, write := range try(m.log.Next()).must(t) {
		if write.Program != "whereabouts" && write.Program != "kubectl" { // which removes annotations
			programs = append(programs, write.Program)
		}
	}
	slices.Sort(programs)
	return slices.Compact(programs)
}

// endNamespaces does what the namespace controller does, until the test ends.
func (s *stage) endNamespaces(t *testing.T) {
	api := s.Client()
	go func() {
		for ctx := t.Context(); ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
			all, err := api.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
			if err != nil {
				continue
			}
			for _, n := range all.Items {
				if n.DeletionTimestamp == nil {
					continue
				}
				now, list := metav1.DeleteOptions{}, metav1.ListOptions{}
				_ = api.CoordinationV1().Leases(n.Name).DeleteCollection(ctx, now, list)
				_ = api.RbacV1().RoleBindings(n.Name).DeleteCollection(ctx, now, list)
				_ = api.RbacV1().Roles(n.Name).DeleteCollection(ctx, now, list)
				n.Spec.Finalizers = []corev1.FinalizerName{}
				_, _ = api.CoreV1().Namespaces().Finalize(context.WithoutCancel(ctx), &n, metav1.UpdateOptions{})
			}
		}
	}()
}

// objects are what the cluster stores, without pods, and without the generation of a DaemonSet that was changed back.
func (s *stage) objects(t *testing.T) (map[string]metav1.ObjectMeta, error) {
	all, err := objectsIn(t, s.Config(), "Pod", "ComponentStatus")
	for _, o := range all {
		delete(o.Annotations, appsv1.DeprecatedTemplateGeneration)
	}
	return all, err
}
