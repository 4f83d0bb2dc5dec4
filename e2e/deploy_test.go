package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/restmapper"
)

const reconcilerName = "ip-reconcile" // of its workload, account and container

// objectsOf are rendered objects by "Kind name", the second of a name in another namespace by "Kind name in namespace".
type objectsOf map[string]*unstructured.Unstructured

func byName(t testing.TB, objects []*unstructured.Unstructured) objectsOf {
	t.Helper()
	all := objectsOf{}
	for _, o := range objects {
		name := o.GetKind() + " " + o.GetName()
		if first := all[name]; first != nil && first.GetNamespace() != o.GetNamespace() {
			name += " in " + o.GetNamespace()
		}
		if all[name] != nil {
			t.Fatalf("there are two of %s", name)
		}
		all[name] = o
	}
	return all
}

// as converts a rendered object to a type, and fails for a field that the type does not have.
func as[T any](t testing.TB, o *unstructured.Unstructured) *T {
	t.Helper()
	if o == nil {
		t.Fatalf("no %T exists", *new(T))
		return nil
	}
	typed := new(T)
	check(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, typed, true))
	return typed
}

// overlay is a kustomize folder: folders of deploy in another namespace, with components and patches.
func overlay(t testing.TB, namespace string, resources, components []string, patches string) string {
	t.Helper()
	folder := try(filepath.EvalSymlinks(t.TempDir())).must(t)
	deploy := try(filepath.Rel(folder, try(filepath.EvalSymlinks(try(filepath.Abs("../deploy")).must(t))).must(t))).must(t)
	text := ""
	if isAgent := func(r string) bool { return strings.HasSuffix(r, "agent") }; namespace != "" &&
		slices.ContainsFunc(resources, isAgent) && !slices.Contains(components, "agent/components/without-admission-policy") {
		text = agentsNamespace(t)
	}
	text += "resources:\n"
	for _, r := range resources {
		text += fmt.Sprintf("- %s/%s\n", deploy, r)
	}
	if namespace != "" {
		text += fmt.Sprintf("namespace: %s\n", namespace)
	}
	text += "components:\n"
	for _, c := range components {
		text += fmt.Sprintf("- %s/%s\n", deploy, c)
	}
	check(t, os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(text+patches), 0o600))
	return folder
}

// agentsNamespace are the replacements that deploy/agent requires in another namespace.
func agentsNamespace(t testing.TB) string {
	t.Helper()
	text := string(try(os.ReadFile("../deploy/agent/kustomization.yaml")).must(t))
	_, text, there := strings.Cut(text, "#   replacements:")
	equal(t, "there are some", there, true)
	text, _, _ = strings.Cut(text, "\n#\n")
	return "replacements:" + strings.ReplaceAll(text, "\n#   ", "\n") + "\n"
}

// applied applies a kustomize folder and returns the kubeconfig of its reconciler, with the token of a pod created from
// its template.
func (s *stage) applied(t testing.TB, folder string) (kubeconfig string) {
	t.Helper()
	objects := kustomized(t, folder)
	out, errs, err := s.Kubectl(t.Context(), "apply", "-k", folder, "--validate=strict")
	if err != nil || errs != "" {
		t.Fatalf("kubectl apply: %v\n%s", err, errs)
	}
	equal(t, "objects created", strings.Count(out, " created\n"), len(objects))
	pod := reconcilerPod(t, objects)
	pod.Name, pod.Spec.NodeName = reconcilerName+"-0", "worker-1"
	pod = try(s.Client().CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{})).must(t)
	kubeconfig = s.KubeconfigForPod(t, pod)
	granted(t, kubeconfig, pod.Spec.ServiceAccountName, objects)
	return kubeconfig
}

// reconcilerPod is a pod as the Deployment, the CronJob or the Job creates it.
func reconcilerPod(t testing.TB, objects []*unstructured.Unstructured) *corev1.Pod {
	t.Helper()
	for _, o := range objects {
		if pod := madeBy(t, o); pod != nil && o.GetKind() != "DaemonSet" {
			pod.Namespace = o.GetNamespace()
			return pod
		}
	}
	t.Fatal("there is no Deployment, CronJob or Job")
	return nil
}

// madeBy is a pod as a workload creates it; nil for another object.
func madeBy(t testing.TB, o *unstructured.Unstructured) *corev1.Pod {
	t.Helper()
	path := []string{"spec", "template"}
	switch o.GetKind() {
	case "CronJob":
		path = []string{"spec", "jobTemplate", "spec", "template"}
	case "Deployment", "DaemonSet", "Job":
	default:
		return nil
	}
	template, _, err := unstructured.NestedMap(o.Object, path...)
	check(t, err)
	return as[corev1.Pod](t, &unstructured.Unstructured{Object: template})
}

// granted waits until the API server grants an account every permission that the objects bind to it: it observes
// roles a moment after they are stored.
func granted(t testing.TB, kubeconfig, account string, objects []*unstructured.Unstructured) {
	t.Helper()
	for role, rules := range boundTo(t, account, objects) {
		namespace, _, _ := strings.Cut(role, "/")
		for _, a := range requests(rules) {
			if namespace != "" {
				a.Namespace = namespace
			}
			may(t, kubeconfig, a, true)
		}
	}
}

// boundTo are the rules of the roles that are bound to a ServiceAccount, by "<namespace>/<role>"; the namespace is ""
// for all.
func boundTo(t testing.TB, account string, objects []*unstructured.Unstructured) map[string][]rbacv1.PolicyRule {
	t.Helper()
	all, bound := byName(t, objects), map[string][]rbacv1.PolicyRule{}
	for _, o := range objects {
		if !strings.HasSuffix(o.GetKind(), "RoleBinding") {
			continue
		}
		// ClusterRoleBinding and RoleBinding have the same fields.
		b := as[rbacv1.RoleBinding](t, o)
		if len(b.Subjects) != 1 || b.Subjects[0].Name != account {
			continue
		}
		role := all[b.RoleRef.Kind+" "+b.RoleRef.Name]
		if role == nil {
			t.Errorf("%s binds %s %s, which is not there", o.GetName(), b.RoleRef.Kind, b.RoleRef.Name)
			continue
		}
		equal(t, "the namespace of who is bound by "+o.GetName(), b.Subjects[0].Namespace, all["ServiceAccount "+
			account].GetNamespace())
		// ClusterRole and Role have the same fields, too, except for aggregation.
		bound[o.GetNamespace()+"/"+role.GetName()] = as[rbacv1.Role](t, role).Rules
	}
	if len(bound) == 0 {
		t.Fatalf("nothing is bound to %s", account)
	}
	return bound
}

// requests are those that rules allow, one for each verb on each resource.
func requests(rules []rbacv1.PolicyRule) []authorizationv1.ResourceAttributes {
	var all []authorizationv1.ResourceAttributes
	for _, r := range rules {
		names := r.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, resource := range r.Resources {
			for _, verb := range r.Verbs {
				for _, name := range names {
					all = append(all, authorizationv1.ResourceAttributes{Group: r.APIGroups[0], Resource: resource, Verb: verb,
						Name: name})
				}
			}
		}
	}
	return all
}

// accepted checks that the API server would store every object, all fields known to it. It returns the kinds that the
// API server does not serve.
func (s *stage) accepted(t testing.TB, objects []*unstructured.Unstructured) (unserved []string) {
	t.Helper()
	mapper := restmapper.NewDiscoveryRESTMapper(try(restmapper.GetAPIGroupResources(s.Client().Discovery())).must(t))
	options := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
	for _, o := range objects {
		gvk := o.GroupVersionKind()
		mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if meta.IsNoMatchError(err) {
			unserved = append(unserved, gvk.Kind)
			continue
		}
		check(t, err)
		_, err = thing{r: mapping.Resource, namespace: o.GetNamespace()}.of(newVisitor(t, s.Config(), "")).Create(t.Context(),
			o, options)
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
	slices.Sort(unserved)
	return slices.Compact(unserved)
}

// plain is an object as JSON, without the labels that name the installer, and without the namespace that kustomize adds
// to kinds that it does not know.
func plain(t testing.TB, o *unstructured.Unstructured) string {
	o = o.DeepCopy()
	o.SetLabels(nil)
	switch o.GetKind() {
	case "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "SecurityContextConstraints", "FlowSchema",
		"PriorityLevelConfiguration":
		o.SetNamespace("")
	}
	return string(try(json.MarshalIndent(o.Object, "", " ")).must(t))
}

// helmTest is what `helm test` creates in kube-system.
const helmTest = "testdata/rendered/helm-test.yaml"

const productImage = "set-your-image.invalid/ip-reconcile:0.1.0"

// moduleAt is the folder of a Go module at a version.
func moduleAt(t testing.TB, module, version string) string {
	t.Helper()
	out, err := exec.Command("go", "mod", "download", "-json", module+"@"+version).Output()
	var info struct{ Dir, Error string }
	if json.Unmarshal(out, &info) != nil || info.Dir == "" {
		t.Skipf("%s@%s is not to be had: %v %s", module, version, err, info.Error)
	}
	return info.Dir
}

func (s *stage) mustKubectl(t testing.TB, args ...string) string {
	t.Helper()
	out, errs, err := s.Kubectl(t.Context(), args...)
	if err != nil {
		t.Fatalf("kubectl %v: %v\n%s", args, err, errs)
	}
	return out
}
