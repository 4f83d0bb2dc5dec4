//go:build !slow && !cluster

package e2e

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v4/pkg/chart/common"
	chartutil "helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	util "helm.sh/helm/v4/pkg/release/v1/util"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

const (
	chartFolder = "../deploy/helm/ip-reconcile"
	notesFile   = "ip-reconcile/templates/NOTES.txt"
	imageToSet  = "set-your-image.invalid/ip-reconcile" // in the manifests
)

// helm renders the chart as `helm install` does, with values as YAML.
func helm(namespace, values string) ([]*unstructured.Unstructured, error) {
	return helmOn("v1.36.3", namespace, values)
}

func helmOn(kubernetes, namespace, values string) ([]*unstructured.Unstructured, error) {
	files, err := helmFiles(kubernetes, namespace, values)
	if err != nil {
		return nil, err
	}
	delete(files, notesFile)
	_, manifests, err := util.SortManifests(files, nil, util.InstallOrder)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, m := range manifests {
		in, err := harness.Documents(m.Content)
		if err != nil {
			return nil, err
		}
		objects = append(objects, in...)
	}
	return objects, nil
}

// helmTests are the objects that `helm test` creates.
func helmTests(t testing.TB, kubernetes, namespace, values string) (objects []*unstructured.Unstructured) {
	t.Helper()
	files := try(helmFiles(kubernetes, namespace, values)).must(t)
	delete(files, notesFile)
	hooks, _, err := util.SortManifests(files, nil, util.InstallOrder)
	check(t, err)
	for _, h := range hooks {
		equal(t, "the events of "+h.Name, fmt.Sprint(h.Events), "[test]")
		objects = append(objects, try(harness.Documents(h.Manifest)).must(t)...)
	}
	return objects
}

// notesOf are the notes that an installation prints at its end.
func notesOf(t testing.TB, values string) string {
	t.Helper()
	files := try(helmFiles("v1.36.3", metav1.NamespaceSystem, values)).must(t)
	return files[notesFile]
}

func helmFiles(kubernetes, namespace, values string) (map[string]string, error) {
	cluster := common.DefaultCapabilities.Copy()
	cluster.KubeVersion.Version = kubernetes
	chart, err := loader.LoadDir(chartFolder)
	if err != nil {
		return nil, err
	}
	given, err := common.ReadValues([]byte(values))
	if err != nil {
		return nil, err
	}
	if given["image"] == nil { // the chart requires one
		given["image"] = map[string]any{"repository": imageToSet}
	}
	all, err := chartutil.ToRenderValues(chart, given, common.ReleaseOptions{Name: "addresses", Namespace: namespace,
		IsInstall: true, Revision: 1}, cluster)
	if err != nil {
		return nil, err
	}
	return engine.Render(chart, all)
}

// quotaManifests are deploy/namespace/quota.yaml for a namespace; none for kube-system.
func quotaManifests(t testing.TB, namespace string) []*unstructured.Unstructured {
	t.Helper()
	if namespace == metav1.NamespaceSystem {
		return nil
	}
	text := string(try(os.ReadFile("../deploy/namespace/quota.yaml")).must(t))
	return try(harness.Documents(strings.ReplaceAll(text, "namespace: ip-reconcile", "namespace: "+namespace))).must(t)
}

// leasesManifests are deploy/leases for accounts in a namespace, as that file says.
func leasesManifests(t testing.TB, namespace string) []*unstructured.Unstructured {
	t.Helper()
	text := string(try(os.ReadFile("../deploy/leases/leases.yaml")).must(t))
	return try(harness.Documents(strings.ReplaceAll(text, "namespace: kube-system", "namespace: "+namespace))).must(t)
}

func TestDeploy_ChartMatchesManifests(t *testing.T) {
	t.Parallel()
	for values, c := range map[string]struct {
		resources, components []string
	}{
		"{}":                      {[]string{"deployment-with-agent"}, nil},
		"agent: {enabled: false}": {[]string{"deployment"}, nil},
		"{mode: cronjob, agent: {enabled: false}}": {[]string{"cronjob"}, nil},
		"{mode: cronjob}":                          {[]string{"cronjob", "agent"}, []string{"components/agents"}},
		"agent: {runtime: cri-o}": {[]string{"deployment-with-agent"},
			[]string{"agent/components/cri-o"}},
		"agent: {runtime: k3s, selinux: true}": {[]string{"deployment-with-agent"},
			[]string{"agent/components/k3s", "agent/components/selinux"}},
		"agent: {runtime: mixed}": {[]string{"deployment-with-agent"},
			[]string{"agent/components/mixed"}},
		"agent: {admissionPolicy: false}": {[]string{"deployment-with-agent"},
			[]string{"agent/components/without-admission-policy"}},
		"openshift: true": {[]string{"deployment-with-agent"},
			[]string{"agent/components/openshift", "components/openshift"}},
		"agent: {metrics: {secure: true}}": {[]string{"deployment-with-agent"},
			[]string{"agent/components/secure-metrics"}},
		"{metrics: {secure: true}, agent: {enabled: false}}": {[]string{"deployment"},
			[]string{"components/secure-metrics"}},
		"{metrics: {secure: true}, ui: {enabled: true}, agent: {enabled: false}}": {[]string{"deployment"},
			[]string{"components/secure-metrics", "components/ui"}},
		"{prometheusRule: {enabled: true}, serviceMonitor: {enabled: true}, dashboard: {enabled: true}, " +
			"networkPolicy: {metricsFrom: [monitoring]}}": {[]string{"deployment-with-agent"},
			[]string{"components/prometheus"}},
		"{leaseNames: [whereabouts], agent: {enabled: false}}": {[]string{"deployment"},
			[]string{"components/leases-by-name"}},
		"{openshift: true, agent: {metrics: {secure: true}}}": {[]string{"deployment-with-agent"}, []string{
			"components/openshift", "agent/components/openshift", "agent/components/secure-metrics",
		}},
	} {
		for _, namespace := range []string{metav1.NamespaceSystem, "addresses"} {
			t.Run(values+" in "+namespace, func(t *testing.T) {
				patches := ""
				if !strings.Contains(values, "cronjob") {
					patches = ownNamespace(namespace)
				}
				manifests := kustomized(t, overlay(t, namespace, c.resources, c.components, patches))
				if slices.ContainsFunc(c.resources, func(r string) bool { return strings.HasSuffix(r, "agent") }) {
					manifests = append(manifests, leasesManifests(t, namespace)...)
				}
				manifests = append(manifests, quotaManifests(t, namespace)...)
				want := byName(t, manifests)
				objects, err := helm(namespace, values)
				check(t, err)
				got := byName(t, objects)
				equal(t, "objects", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
				for name, o := range got {
					if want[name] != nil && plain(t, o) != plain(t, want[name]) {
						t.Errorf("%s: the chart has\n%s\nthe manifests have\n%s", name, plain(t, o), plain(t, want[name]))
					}
				}
			})
		}
	}
	t.Run("and so is the CRD in the chart", func(t *testing.T) {
		files := try(filepath.Glob("../deploy/crds/*.yaml")).must(t)
		equal(t, "CRDs", len(try(os.ReadDir(chartFolder+"/crds")).must(t)), len(files))
		for _, file := range files {
			shipped := try(os.ReadFile(file)).must(t)
			if in, err := os.ReadFile(filepath.Join(chartFolder, "crds", filepath.Base(file))); err != nil ||
				string(in) != string(shipped) {
				t.Errorf("copy %s into the chart: it is not what is there (%v)", file, err)
			}
		}
	})
}

func TestDeploy_ChartNamesTheWrongValue(t *testing.T) {
	t.Parallel()
	for values, says := range map[string]string{
		"mode: Deploy":            "mode",
		"replicas: many":          "replicas",
		"replica: 3":              "'replica' not allowed",
		"image: {repository: ''}": "image.repository: no image is published",
		"image: {repository: 'r.example.com:5000/a/i:v1'}": "image/repository",
		"image: {tag: v1}": "image.repository=example.com/ip-reconcile",
		"image: {repository: a/b, digest: 'sha256:1'}":                                       "image/digest",
		"image: {pullPolicy: Sometimes}":                                                     "image/pullPolicy",
		"agent: {runtime: docker}":                                                           "agent/runtime",
		"agent: {enable: true}":                                                              "'enable' not allowed",
		"agent: {resources: {memory: 1Gi}}":                                                  "agent/resources",
		"openshift: 'yes'":                                                                   "openshift",
		"confirmAfter: 15 minutes":                                                           "confirmAfter",
		"fenceTimeout: 1 minute":                                                             "fenceTimeout",
		"{mode: cronjob, confirmAfter: 50m}":                                                 "confirmAfter: ",
		"{mode: cronjob, confirmAfter: 1h}":                                                  "confirmAfter: ",
		"fenceTimeout: 5m":                                                                   "fenceTimeout: ",
		"fenceTimeout: 1m31s":                                                                "fenceTimeout: ",
		"repair: maybe":                                                                      "repair",
		"allowMassRepair: 1":                                                                 "allowMassRepair",
		"cron: {configMap: {key: ''}}":                                                       "cron/configMap/key",
		"extraArgs: --log-level=debug":                                                       "extraArgs",
		"agent: {leaseNamespace: A_b}":                                                       "agent/leaseNamespace",
		"agent: {leaseNamespace: kube-system}":                                               "agent.leaseNamespace: ",
		"agent: {leaseNamespace: kube-node-lease}":                                           "agent.leaseNamespace: ",
		"{poolNamespaces: [pools], agent: {leaseNamespace: pools}}":                          "agent.leaseNamespace: ",
		"agent: {cni: {multus: run/multus}}":                                                 "agent/cni/multus",
		"agent: {podMonitor: {enabled: true}}":                                               "agent.podMonitor.enabled: ",
		"poolNamespaces: kube-system":                                                        "poolNamespaces",
		"networkPolicy: {apiServerPorts: [0]}":                                               "networkPolicy/apiServerPorts",
		"metrics: {secure: 1}":                                                               "metrics/secure",
		"podAnnotations: {number: 1}":                                                        "podAnnotations/number",
		"podLabels: {app.kubernetes.io/name: mine}":                                          "podLabels",
		"agent: {podLabels: {app.kubernetes.io/component: mine}}":                            "agent/podLabels",
		"global: {imageRegistry: [r.example.com]}":                                           "global/imageRegistry",
		"imagePullSecrets: [mine]":                                                           "imagePullSecrets/0",
		"extraEnv: [{name: A, value: 1}]":                                                    "extraEnv/0/value",
		"extraEnv: {A: b}":                                                                   "extraEnv",
		"agent: {extraEnv: [{value: b}]}":                                                    "agent/extraEnv/0",
		"affinity: {podAffinities: {}}":                                                      "'podAffinities' not allowed",
		"agent: {affinity: {required: {}}}":                                                  "agent/affinity",
		"tolerations: [{operator: Exist}]":                                                   "tolerations/0/operator",
		"agent: {tolerations: {operator: Exists}}":                                           "agent/tolerations",
		"topologySpreadConstraints: [{maxSkew: 1}]":                                          "topologySpreadConstraints/0",
		"agent: {updateStrategy: {maxUnavailable: 1}}":                                       "agent/updateStrategy",
		"serviceMonitor: {relabelings: [{source_labels: [a]}]}":                              "serviceMonitor/relabelings/0",
		"agent: {podMonitor: {metricRelabelings: [{sourceLabels: a}]}}":                      "metricRelabelings/0",
		"{hostNetwork: true, openshift: true}":                                               "hostNetwork: ",
		"{mode: cronjob, serviceMonitor: {enabled: true}}":                                   "serviceMonitor.enabled: ",
		"{mode: cronjob, prometheusRule: {enabled: true}}":                                   "prometheusRule.enabled: ",
		"{mode: cronjob, dashboard: {enabled: true}}":                                        "dashboard.enabled: ",
		"{hostNetwork: true, serviceMonitor: {enabled: true}}":                               "serviceMonitor.enabled: ",
		"{mode: cronjob, ui: {enabled: true}}":                                               "ui.enabled: ",
		"{hostNetwork: true, ui: {enabled: true}}":                                           "ui.enabled: ",
		"ui: {port: http}":                                                                   "ui/port",
		"serviceMonitor: {enabled: true}":                                                    "networkPolicy.metricsFrom",
		"{serviceMonitor: {enabled: true}, metrics: {secure: true}}":                         "serviceMonitor.enabled",
		"agent: {podMonitor: {enabled: true}, metrics: {secure: true}}":                      "agent.podMonitor.enabled",
		"{serviceMonitor: {enabled: true, credentials: {name: r}}, metrics: {secure: true}}": "metrics.tls.issuerRef",
		"agent: {criSocket: containerd.sock}":                                                "agent/criSocket",
		"agent: {criSocket: /containerd.sock}":                                               "agent/criSocket",
		"networkPolicy: {metricsFrom: [A]}":                                                  "networkPolicy/metricsFrom",
	} {
		t.Run(values, func(t *testing.T) {
			objects, err := helm(metav1.NamespaceSystem, values)
			if err == nil {
				t.Fatalf("it was rendered: %d objects", len(objects))
			}
			contains(t, "the error", err.Error(), says)
		})
	}
}

func TestDeploy_GlobalRegistryReplacesOrPrecedes(t *testing.T) {
	t.Parallel()
	for repository, want := range map[string]string{
		"r.example.com/a/i": "m.example.com/b/a/i:0.1.0", "r:5000/i": "m.example.com/b/i:0.1.0",
		"localhost/i": "m.example.com/b/i:0.1.0", "a/i": "m.example.com/b/a/i:0.1.0", "i": "m.example.com/b/i:0.1.0",
	} {
		values := "{global: {imageRegistry: m.example.com/b}, image: {repository: '" + repository + "'}}"
		for _, o := range try(helm(metav1.NamespaceSystem, values)).must(t) {
			if pod := madeBy(t, o); pod != nil {
				equal(t, repository+" of the "+o.GetKind(), pod.Spec.Containers[0].Image, want)
			}
		}
	}
}

// ownNamespace is the patch that deploy/deployment requires in another namespace.
func ownNamespace(namespace string) string {
	return fmt.Sprintf(`patches:
- target: {kind: ClusterRole, name: ip-reconcile-own-namespace}
  patch: '- {op: replace, path: /rules/0/resourceNames/0, value: %s}'
`, namespace)
}

// TestDeploy_NamesLikeNumbersStayText has names that YAML takes for numbers and booleans unless they are quoted.
func TestDeploy_NamesLikeNumbersStayText(t *testing.T) {
	t.Parallel()
	types := runtime.NewScheme()
	check(t, errors.Join(clientscheme.AddToScheme(types), monitoringv1.AddToScheme(types)))
	for _, values := range []string{
		"{agent: {leaseNamespace: '007', cni: {results: '/1', multus: '/2'}}, poolNamespaces: ['42'], cron: {configMap: " +
			"{name: '123', key: 'on'}}}",
		"{mode: cronjob, openshift: true}",
		"{metrics: {secure: true, tls: {secretName: '12'}}, serviceMonitor: {enabled: true, credentials: {name: '34', key: " +
			"'true'}}, ui: {enabled: true}, agent: {metrics: {secure: true, tls: {secretName: '56'}}, podMonitor: {enabled: " +
			"true}}, prometheusRule: {enabled: true}, dashboard: {enabled: true}}",
	} {
		objects := try(helm("123", values)).must(t)
		for _, o := range append(objects, helmTests(t, "v1.36.3", "123", values)...) {
			typed, err := types.New(o.GroupVersionKind())
			if runtime.IsNotRegisteredError(err) {
				continue
			}
			check(t, err)
			err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, typed, true)
			for _, problem := range errorOf(err) {
				t.Errorf("%s %s with %s: %s", o.GetKind(), o.GetName(), values, problem)
			}
		}
	}
}
