//go:build !slow && !cluster

package e2e

import (
	_ "embed" // of values
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// apiSamples are folders of the module k8s.io/api with an object of each kind that has all fields of a version of
// Kubernetes. HEAD is the version of the module itself.
var apiSamples = []struct{ kubernetes, module, folder string }{
	{"v1.27.0", "v0.29.0", "v1.27.0"}, {"v1.28.0", "v0.29.0", "v1.28.0"}, {"v1.29.0", "v0.29.0", "HEAD"},
	{"v1.30.0", "v0.32.0", "v1.30.0"}, {"v1.31.0", "v0.32.0", "v1.31.0"}, {"v1.32.0", "v0.32.0", "HEAD"},
	{"v1.33.0", "v0.37.2", "v1.33.0"}, {"v1.34.0", "v0.37.2", "v1.34.0"}, {"v1.35.0", "v0.37.2", "v1.35.0"},
}

const (
	plainValues = `{mode: cronjob, agent: {enabled: false}, networkPolicy: {enabled: false},
people: {aggregateToView: true}}`
	exposedValues = `{agent: {metrics: {expose: true}, podMonitor: {enabled: true, insecureSkipVerify: true},
admissionPolicy: false}}`
)

var (
	//go:embed testdata/values/placed.yaml
	placedValues string
	//go:embed testdata/values/served.yaml
	servedValues string
	//go:embed testdata/values/openshift.yaml
	openshiftValues string
)

// valueSets are installations that together set every value.
var valueSets = []string{"{}", "mode: cronjob", plainValues, placedValues + servedValues,
	placedValues + "mode: cronjob", openshiftValues, exposedValues}

// TestChart_RendersForEachKubernetes renders the chart for the versions that it names, and checks each object strictly:
// by the API's Go types, and by the fields and kinds of that version.
func TestChart_RendersForEachKubernetes(t *testing.T) {
	t.Parallel()
	types := runtime.NewScheme()
	check(t, errors.Join(clientscheme.AddToScheme(types), monitoringv1.AddToScheme(types)))
	for _, v := range apiSamples {
		t.Run(v.kubernetes, func(t *testing.T) {
			folder := filepath.Join(moduleAt(t, "k8s.io/api", v.module), "testdata", v.folder)
			withoutTypes := map[string]bool{}
			for _, values := range valueSets {
				if v.kubernetes < "v1.30" { // the admission policy needs it
					values = string(try(yaml.Marshal(withoutPolicy(t, values))).must(t))
				}
				objects := try(helmOn(v.kubernetes, "addresses", values)).must(t)
				for _, o := range append(objects, helmTests(t, v.kubernetes, "addresses", values)...) {
					typed, err := types.New(o.GroupVersionKind())
					if runtime.IsNotRegisteredError(err) {
						withoutTypes[o.GetKind()] = true
						continue
					}
					check(t, err)
					err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, typed, true)
					for _, problem := range append(differences(t, folder, o), errorOf(err)...) {
						t.Errorf("%s %s with %s: %s", o.GetKind(), o.GetName(), values, problem)
					}
				}
			}
			equal(t, "kinds without types", len(withoutTypes), 2)
			equal(t, "Certificate and SecurityContextConstraints", withoutTypes["Certificate"] &&
				withoutTypes["SecurityContextConstraints"], true)
		})
	}
}

// TestChart_Lints runs `helm lint`, which also knows which APIs a version of Kubernetes deprecates.
func TestChart_Lints(t *testing.T) {
	t.Parallel()
	for _, values := range valueSets {
		given := map[string]any{}
		check(t, yaml.Unmarshal([]byte(values), &given))
		if given["image"] == nil {
			given["image"] = map[string]any{"repository": imageToSet}
		}
		newest := try(common.ParseKubeVersion("v1.36.3")).must(t)
		for _, m := range lint.RunAll(chartFolder, given, "addresses", lint.WithKubeVersion(newest)).Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("with %s: %v", values, m)
			}
		}
	}
}

func withoutPolicy(t testing.TB, values string) map[string]any {
	t.Helper()
	all := map[string]any{}
	check(t, yaml.Unmarshal([]byte(values), &all))
	agent, _ := all["agent"].(map[string]any)
	if agent == nil {
		agent = map[string]any{}
	}
	agent["admissionPolicy"], all["agent"] = false, agent
	return all
}

func errorOf(err error) []string {
	if err == nil {
		return nil
	}
	return []string{err.Error()}
}

// differences are what the version of Kubernetes whose samples are in a folder does not have of an object.
func differences(t testing.TB, folder string, o *unstructured.Unstructured) []string {
	t.Helper()
	gvk := o.GroupVersionKind()
	if gvk.Group == monitoringv1.SchemeGroupVersion.Group {
		return nil
	}
	if gvk.Group == "" {
		gvk.Group = "core"
	}
	text, err := os.ReadFile(filepath.Join(folder, fmt.Sprintf("%s.%s.%s.json", gvk.Group, gvk.Version, gvk.Kind)))
	if errors.Is(err, fs.ErrNotExist) {
		return []string{o.GetAPIVersion() + " is not served"}
	}
	check(t, err)
	var sample any
	check(t, json.Unmarshal(text, &sample))
	return unknownFields(o.GetKind(), o.Object, sample)
}

// unknownFields are the paths that a sample does not have. A map of a sample has one key, which ends with "Key".
func unknownFields(path string, value, sample any) (unknown []string) {
	switch value := value.(type) {
	case map[string]any:
		known, _ := sample.(map[string]any)
		var element any
		for name := range known {
			if len(known) == 1 && strings.HasSuffix(name, "Key") {
				element = known[name]
			}
		}
		for name, field := range value {
			like := element
			if element == nil {
				like = known[name]
			}
			if like == nil {
				unknown = append(unknown, "unknown field "+path+"."+name)
				continue
			}
			unknown = append(unknown, unknownFields(path+"."+name, field, like)...)
		}
	case []any:
		items, is := sample.([]any)
		if !is || len(items) == 0 {
			return []string{path + " is no list"}
		}
		for _, item := range value {
			unknown = append(unknown, unknownFields(path+"[]", item, items[0])...)
		}
	}
	return unknown
}

// TestChart_EachValueIsSetSomewhere checks that valueSets change every value of the chart, and that values.yaml has
// every value of the schema.
func TestChart_EachValueIsSetSomewhere(t *testing.T) {
	t.Parallel()
	var defaults, schema map[string]any
	check(t, yaml.Unmarshal(try(os.ReadFile(chartFolder+"/values.yaml")).must(t), &defaults))
	check(t, json.Unmarshal(try(os.ReadFile(chartFolder+"/values.schema.json")).must(t), &schema))
	var sets []map[string]any
	for _, text := range valueSets {
		var set map[string]any
		check(t, yaml.Unmarshal([]byte(text), &set))
		sets = append(sets, set)
	}
	var walk func(path []string, value any, schema map[string]any)
	walk = func(path []string, value any, described map[string]any) {
		if ref, is := described["$ref"].(string); is {
			described = schema["definitions"].(map[string]any)[filepath.Base(ref)].(map[string]any)
		}
		fields, _ := value.(map[string]any)
		properties, _ := described["properties"].(map[string]any)
		if len(fields) == 0 || len(properties) == 0 || path[len(path)-1] == "resources" {
			if !slices.ContainsFunc(sets, func(set map[string]any) bool {
				given, is, _ := unstructured.NestedFieldNoCopy(set, path...)
				return is && !reflect.DeepEqual(given, value)
			}) {
				t.Errorf("add %s to valueSets", strings.Join(path, "."))
			}
			return
		}
		for name := range properties {
			field, is := fields[name]
			if !is {
				t.Errorf("the schema has %s, values.yaml does not", strings.Join(append(path, name), "."))
				continue
			}
			walk(append(slices.Clone(path), name), field, properties[name].(map[string]any))
		}
	}
	for name, described := range schema["properties"].(map[string]any) {
		walk([]string{name}, defaults[name], described.(map[string]any))
	}
}

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
