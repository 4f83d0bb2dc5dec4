//go:build !slow && !cluster

package e2e

import (
	"bufio"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	chartutil "helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"
)

const (
	chartFolder = "../deploy/helm/ip-reconcile"
	imageToSet  = "set-your-image.invalid/ip-reconcile" // in the manifests
)

// helm renders the chart as `helm install` does, with values as a YAML file has
// them.
func helm(namespace, values string) ([]*unstructured.Unstructured, error) {
	return helmOn("v1.36.3", namespace, values)
}

func helmOn(kubernetes, namespace, values string) ([]*unstructured.Unstructured, error) {
	files, err := helmFiles(kubernetes, namespace, values)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		in, err := documentsOf(files[name])
		if err != nil {
			return nil, err
		}
		objects = append(objects, in...)
	}
	return objects, nil
}

// notesOf is what an installation says at its end.
func notesOf(t testing.TB, values string) string {
	t.Helper()
	files := try(helmFiles("v1.36.3", metav1.NamespaceSystem, values)).must(t)
	return files["ip-reconcile/templates/NOTES.txt"]
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
	if given["image"] == nil { // nothing is rendered without one
		given["image"] = map[string]any{"repository": imageToSet}
	}
	all, err := chartutil.ToRenderValues(chart, given, common.ReleaseOptions{Name: "addresses", Namespace: namespace, IsInstall: true, Revision: 1}, cluster)
	if err != nil {
		return nil, err
	}
	return engine.Render(chart, all)
}

// documentsOf are the objects of a YAML text.
func documentsOf(text string) (objects []*unstructured.Unstructured, err error) {
	for documents := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &o.Object); err != nil {
			return nil, err
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
}

// quotaManifests are deploy/namespace/quota.yaml for a namespace; none for kube-system.
func quotaManifests(t testing.TB, namespace string) []*unstructured.Unstructured {
	t.Helper()
	if namespace == metav1.NamespaceSystem {
		return nil
	}
	text := string(try(os.ReadFile("../deploy/namespace/quota.yaml")).must(t))
	return try(documentsOf(strings.ReplaceAll(text, "namespace: ip-reconcile", "namespace: "+namespace))).must(t)
}

// leasesManifests are deploy/leases for accounts in a namespace, as it says.
func leasesManifests(t testing.TB, namespace string) []*unstructured.Unstructured {
	t.Helper()
	text := string(try(os.ReadFile("../deploy/leases/leases.yaml")).must(t))
	return try(documentsOf(strings.ReplaceAll(text, "namespace: kube-system", "namespace: "+namespace))).must(t)
}

func TestTheChartAndTheManifestsAreTheSame(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t)
	for values, c := range map[string]struct {
		resources, components []string
	}{
		"{}":                      {[]string{"deployment-with-agent"}, nil},
		"agent: {enabled: false}": {[]string{"deployment"}, nil},
		"{mode: cronjob, agent: {enabled: false}}":             {[]string{"cronjob"}, nil},
		"{mode: cronjob}":                                      {[]string{"cronjob", "agent"}, []string{"components/agents"}},
		"agent: {runtime: cri-o}":                              {[]string{"deployment-with-agent"}, []string{"agent/components/cri-o"}},
		"agent: {runtime: k3s, selinux: true}":                 {[]string{"deployment-with-agent"}, []string{"agent/components/k3s", "agent/components/selinux"}},
		"agent: {runtime: mixed}":                              {[]string{"deployment-with-agent"}, []string{"agent/components/mixed"}},
		"agent: {admissionPolicy: false}":                      {[]string{"deployment-with-agent"}, []string{"agent/components/without-admission-policy"}},
		"openshift: true":                                      {[]string{"deployment-with-agent"}, []string{"agent/components/openshift", "components/openshift"}},
		"agent: {metrics: {secure: true}}":                     {[]string{"deployment-with-agent"}, []string{"agent/components/secure-metrics"}},
		"{metrics: {secure: true}, agent: {enabled: false}}":   {[]string{"deployment"}, []string{"components/secure-metrics"}},
		"{leaseNames: [whereabouts], agent: {enabled: false}}": {[]string{"deployment"}, []string{"components/leases-by-name"}},
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
				manifests := s.rendered(t, overlay(t, namespace, c.resources, c.components, patches))
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
			if in, err := os.ReadFile(filepath.Join(chartFolder, "crds", filepath.Base(file))); err != nil || string(in) != string(shipped) {
				t.Errorf("copy %s into the chart: it is not what is there (%v)", file, err)
			}
		}
	})
}

func TestTheAPIServerAcceptsWhatIsRendered(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t)
	restricted := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "restricted", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	try(s.Client().CoreV1().Namespaces().Create(t.Context(), restricted, metav1.CreateOptions{})).must(t)
	pod := func(t *testing.T, objects []*unstructured.Unstructured) *corev1.Pod {
		p := reconcilerPod(t, objects)
		p.Name, p.Namespace = "any", restricted.Name
		return try(s.Client().CoreV1().Pods(p.Namespace).Create(t.Context(), p, metav1.CreateOptions{
			DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
		})).must(t)
	}
	t.Run("of the manifests", func(t *testing.T) {
		for _, folder := range []string{
			"../deploy/deployment", "../deploy/cronjob", "../deploy/deployment-with-agent",
			overlay(t, "", []string{"deployment"}, []string{"components/secure-metrics", "components/openshift"}, ""),
		} {
			objects := s.rendered(t, folder)
			equal(t, "kinds that are not served", s.accepted(t, objects), []string(nil))
			pod(t, objects) // even where Pod Security is at its strictest
		}
	})
	for values, unserved := range map[string][]string{
		"{}":              nil,
		"{mode: cronjob}": nil,
		"{poolNamespaces: [kube-system, default], env: [{name: A, value: b}], networkPolicy: {apiServerPorts: [443, 6443]}}":                                nil,
		"agent: {runtime: mixed, env: [{name: A, value: b}], cni: {multus: /run/multus}, port: 9999, metrics: {expose: true}, podMonitor: {enabled: true}}": {"PodMonitor"},
		"agent: {leaseNamespace: kube-system}": nil,
		"openshift: true":                      {"SecurityContextConstraints"},
		"{prometheusRule: {enabled: true}, serviceMonitor: {enabled: true, labels: {release: prometheus}}, metrics: {secure: true, tls: {issuerRef: {name: ca}}}}": {"Certificate", "PrometheusRule", "ServiceMonitor"},
		"{leaseNames: [whereabouts], poolNamespaces: [kube-system], metrics: {secure: true, tls: {secretName: mine}}, cron: {expression: '* * * * *'}}":            nil,
		"agent: {priorityClassName: '', criSocket: /run/k0s/containerd.sock, affinity: {nodeAffinity: {}}, updateStrategy: {type: OnDelete}}":                      nil,
		"{replicas: 1, networkPolicy: {enabled: false}, podDisruptionBudget: {enabled: false}, priorityClassName: '', tolerations: []}":                            nil,
		"{cron: {expression: '*/5 * * * * # five'}, extraArgs: ['--agent-nodes=a in (b, c)'], confirmAfter: 1h30m, fenceTimeout: 60s, podLabels: {team: '007'}}":   nil,
		"{agent: {extraArgs: [--log-level=debug], podAnnotations: {a: b}, podLabels: {c: d}, nodeSelector: {e: f}}}":                                               nil,
		"{podAnnotations: {a: b}, imagePullSecrets: [{name: pull}], affinity: {nodeAffinity: {}}, image: {repository: r.example.com/i, tag: v1}}":                  nil,
	} {
		t.Run("of the chart with "+values, func(t *testing.T) {
			objects, err := helm(metav1.NamespaceSystem, values)
			check(t, err)
			equal(t, "kinds that are not served", s.accepted(t, objects), unserved)
			pod(t, objects)
		})
	}
	t.Run("of the chart with hostNetwork: true", func(t *testing.T) {
		objects, err := helm(metav1.NamespaceSystem, "hostNetwork: true")
		check(t, err)
		equal(t, "kinds that are not served", s.accepted(t, objects), []string(nil))
		p := reconcilerPod(t, objects)
		p.Name = "any"
		c := try(s.Client().CoreV1().Pods(p.Namespace).Create(t.Context(), p, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})).must(t).Spec.Containers[0]
		// The scheduler keeps pods apart that want the same port of a node.
		for _, p := range c.Ports {
			equal(t, "the node's port for "+p.Name, p.HostPort, p.ContainerPort)
		}
		contains(t, "the arguments", strings.Join(c.Args, " "), "--metrics-bind-address=127.0.0.1:9745", "--health-probe-bind-address=127.0.0.1:9744")
		for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe} {
			equal(t, "where the kubelet asks", probe.HTTPGet.Host, "127.0.0.1")
		}
		d := as[appsv1.Deployment](t, byName(t, objects)["Deployment "+reconcilerName])
		equal(t, "pods on top in a rollout, for which there may be no node", d.Spec.Strategy.RollingUpdate.MaxSurge.IntValue(), 0)
	})
}

func TestTheDeploymentIsHardenedAndReadsTheSchedule(t *testing.T) {
	t.Parallel()
	objects, err := helm(metav1.NamespaceSystem, "")
	check(t, err)
	d := as[appsv1.Deployment](t, byName(t, objects)["Deployment "+reconcilerName])
	pod, c := d.Spec.Template.Spec, d.Spec.Template.Spec.Containers[0]
	equal(t, "replicas", *d.Spec.Replicas, 2)
	equal(t, "containers", len(pod.Containers)+len(pod.InitContainers), 1)
	equal(t, "the ServiceAccount", pod.ServiceAccountName, reconcilerName)
	equal(t, "the node's namespaces", pod.HostNetwork || pod.HostPID || pod.HostIPC, false)
	equal(t, "the priority", pod.PriorityClassName, "system-cluster-critical")
	equal(t, "the pod's security context", *pod.SecurityContext, corev1.PodSecurityContext{
		RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To(int64(65532)), RunAsGroup: ptr.To(int64(65532)),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	})
	equal(t, "the container's security context", *c.SecurityContext, corev1.SecurityContext{
		Privileged: ptr.To(false), AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	})
	equal(t, "the command", append(c.Command, c.Args...), []string{
		"/ip-reconcile", "serve", "--metrics-bind-address=:9745", "--health-probe-bind-address=:9744", "--agents=required", "--repair",
	})
	equal(t, "volumes", len(pod.Volumes), 1)
	schedule := pod.Volumes[0].ConfigMap
	equal(t, "the schedule", []any{schedule.Name, *schedule.Optional, *schedule.DefaultMode, schedule.Items}, []any{
		"whereabouts-config", true, 0o444, []corev1.KeyToPath{{Key: "cron-expression", Path: "config"}},
	})
	equal(t, "mounts", c.VolumeMounts, []corev1.VolumeMount{{Name: pod.Volumes[0].Name, MountPath: "/cron-schedule", ReadOnly: true}})
}

func TestTheChartSaysWhichValueIsWrong(t *testing.T) {
	t.Parallel()
	for values, says := range map[string]string{
		"mode: Deploy":            "mode",
		"replicas: many":          "replicas",
		"replica: 3":              "'replica' not allowed",
		"image: {repository: ''}": "image.repository: must name the image",
		"image: {tag: v1}":        "image.repository=example.com/ip-reconcile",
		"image: {repository: a/b, digest: 'sha256:1'}":                  "image/digest",
		"image: {pullPolicy: Sometimes}":                                "image/pullPolicy",
		"agent: {runtime: docker}":                                      "agent/runtime",
		"agent: {enable: true}":                                         "'enable' not allowed",
		"agent: {resources: {memory: 1Gi}}":                             "agent/resources",
		"openshift: 'yes'":                                              "openshift",
		"confirmAfter: 15 minutes":                                      "confirmAfter",
		"fenceTimeout: 1 minute":                                        "fenceTimeout",
		"repair: maybe":                                                 "repair",
		"allowMassRepair: 1":                                            "allowMassRepair",
		"cron: {configMap: {key: ''}}":                                  "cron/configMap/key",
		"extraArgs: --log-level=debug":                                  "extraArgs",
		"agent: {leaseNamespace: A_b}":                                  "agent/leaseNamespace",
		"agent: {cni: {multus: run/multus}}":                            "agent/cni/multus",
		"agent: {podMonitor: {enabled: true}}":                          "agent.podMonitor.enabled: ",
		"poolNamespaces: kube-system":                                   "poolNamespaces",
		"networkPolicy: {apiServerPorts: [0]}":                          "networkPolicy/apiServerPorts",
		"metrics: {secure: 1}":                                          "metrics/secure",
		"podAnnotations: {number: 1}":                                   "podAnnotations/number",
		"{hostNetwork: true, openshift: true}":                          "hostNetwork: ",
		"{mode: cronjob, serviceMonitor: {enabled: true}}":              "serviceMonitor.enabled: ",
		"{mode: cronjob, prometheusRule: {enabled: true}}":              "prometheusRule.enabled: ",
		"{hostNetwork: true, serviceMonitor: {enabled: true}}":          "serviceMonitor.enabled: ",
		"serviceMonitor: {enabled: true}":                               "networkPolicy.metricsFrom",
		"{serviceMonitor: {enabled: true}, metrics: {secure: true}}":    "serviceMonitor.enabled: Prometheus presents its token",
		"agent: {podMonitor: {enabled: true}, metrics: {secure: true}}": "agent.podMonitor.enabled: Prometheus presents its token",
		"{serviceMonitor: {enabled: true, credentials: {name: reader}}, metrics: {secure: true}}": "metrics.tls.issuerRef",
		"agent: {criSocket: containerd.sock}":                                                     "agent/criSocket",
		"agent: {criSocket: /containerd.sock}":                                                    "agent/criSocket",
		"networkPolicy: {metricsFrom: [A]}":                                                       "networkPolicy/metricsFrom",
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

func TestMassRepairIsAllowedOnlyWhereItIsSaid(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]bool{"{}": false, "allowMassRepair: true": true, "{allowMassRepair: true, mode: cronjob}": true} {
		objects, err := helm(metav1.NamespaceSystem, values)
		check(t, err)
		equal(t, values, slices.Contains(reconcilerPod(t, objects).Spec.Containers[0].Args, "--allow-mass-repair"), want)
	}
}

func TestRepairIsOnWithAgentsUnlessSaidOtherwise(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]bool{
		"{}":                      true,
		"agent: {enabled: false}": false,
		"repair: false":           false,
		"{repair: true, agent: {enabled: false}}": true,
		"{repair: null, agent: {enabled: false}}": false,
		"{repair: null, mode: cronjob}":           true,
	} {
		objects, err := helm(metav1.NamespaceSystem, values)
		check(t, err)
		equal(t, values, slices.Contains(reconcilerPod(t, objects).Spec.Containers[0].Args, "--repair"), want)
	}
}
