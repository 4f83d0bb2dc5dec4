//go:build !slow && !cluster

package e2e

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

const (
	spread = "{topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: " +
		"DoNotSchedule}, {maxSkew: 2, topologyKey: rack, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: " +
		"{a: b}}}], networkPolicy: {apiServerPorts: [6443]}, affinity: {nodeAffinity: {}}}"
	relabelings = "relabelings: [{action: labeldrop, regex: pod}], metricRelabelings: [{action: drop, sourceLabels: " +
		"[__name__], regex: 'go_.*'}]"
)

// renderings are installations by the chart, by the name of their golden file. unserved is the kind that the API server
// does not serve.
var renderings = []struct{ name, values, unserved string }{
	{"default", "{}", ""},
	{"cronjob", "mode: cronjob", ""},
	{"without-agents", "agent: {enabled: false}", ""},
	{"cronjob-without-agents", "{mode: cronjob, agent: {enabled: false}}", ""},
	{"own-namespace", "{}", ""},
	{"own-namespace-own-priorities", "{priorityClassName: '', agent: {priorityClassName: mine}}", ""},
	{"image-digest", "image: {repository: r.example.com:5000/i, tag: v1, digest: 'sha256:" + digest + "'}", ""},
	{"image-tag", "{podAnnotations: {a: b}, imagePullSecrets: [{name: pull}], affinity: {nodeAffinity: {}}, image: " +
		"{repository: r.example.com/i, tag: v1}}", ""},
	{"image-registry", "{global: {imageRegistry: 'm.example.com:5000/'}, image: {repository: r.example.com/a/i}}", ""},
	{"spread", spread, ""},
	{"spread-cronjob", "{mode: cronjob, " + spread[1:], ""},
	{"host-network", "hostNetwork: true", ""},
	{"openshift", "openshift: true", "SecurityContextConstraints"},

	{"repair-off", "repair: false", ""},
	{"repair-without-agents", "{repair: true, agent: {enabled: false}}", ""},
	{"mass-repair", "allowMassRepair: true", ""},
	{"mass-repair-cronjob", "{allowMassRepair: true, mode: cronjob}", ""},
	{"trust-network-status", "{agent: {enabled: false}, trustNetworkStatus: true}", ""},
	{"trust-network-status-cronjob", "{agent: {enabled: false}, trustNetworkStatus: true, mode: cronjob}", ""},
	{"schedule", "{cron: {expression: '*/5 * * * * # five'}, extraArgs: ['--agent-nodes=a in (b, c)'], confirmAfter: " +
		"1h30m, fenceTimeout: 60s, podLabels: {team: '007'}}", ""},
	{"small", "{replicas: 1, networkPolicy: {enabled: false}, podDisruptionBudget: {enabled: false}, " +
		"priorityClassName: '', tolerations: []}", ""},
	{"pool-namespaces", "{poolNamespaces: [kube-system, default], extraEnv: [{name: A, value: b}], networkPolicy: " +
		"{apiServerPorts: [443, 6443]}}", ""},
	{"lease-names", "{leaseNames: [whereabouts, blue-10.1.0.0-24], poolNamespaces: [default], metrics: {secure: true, " +
		"tls: {secretName: mine}}, cron: {expression: '* * * * *'}}", ""},

	{"pool-metrics-off", "metrics: {pools: false}", ""},
	{"metrics-secure", "metrics: {secure: true}", ""},
	{"metrics-from", "networkPolicy: {metricsFrom: [monitoring]}", ""},
	{"metrics-secure-from", "{metrics: {secure: true}, networkPolicy: {metricsFrom: [monitoring]}}", ""},
	{"alerts", "prometheusRule: {enabled: true}", "PrometheusRule"},
	{"alerts-docs", "prometheusRule: {enabled: true, docsURL: 'https://example.com/docs/'}", "PrometheusRule"},
	{"dashboard", "dashboard: {enabled: true}", ""},
	{"ui", "ui: {enabled: true}", ""},
	{"ui-secure", "{ui: {enabled: true, port: 8443}, metrics: {secure: true, tls: {issuerRef: {kind: ClusterIssuer, " +
		"name: ca}}}}", "Certificate"},
	{"alerts-confirm-after", "{prometheusRule: {enabled: true}, confirmAfter: 1h}", "PrometheusRule"},
	{"monitor-secret", "{serviceMonitor: {enabled: true, labels: {release: prometheus}}, metrics: {secure: true, tls: " +
		"{secretName: mine}}}", "ServiceMonitor"},
	{"monitor-issuer", "{serviceMonitor: {enabled: true}, metrics: {secure: true, tls: {issuerRef: {kind: " +
		"ClusterIssuer, name: ca}}}}", "Certificate ServiceMonitor"},
	{"monitor-relabelings", "{serviceMonitor: {enabled: true, " + relabelings + "}, networkPolicy: {metricsFrom: [m]}, " +
		"agent: {metrics: {expose: true}, podMonitor: {enabled: true, " + relabelings + "}}}", "PodMonitor ServiceMonitor"},
	{"monitor-unverified", "{serviceMonitor: {enabled: true, insecureSkipVerify: true, credentials: {name: reader}}, " +
		"metrics: {secure: true}}", "ServiceMonitor"},

	{"agent-nodes", "agent: {nodeSelector: {pool: sriov}}", ""},
	{"agent-nodes-empty-value", "agent: {nodeSelector: {a: b, d/e: ''}}", ""},
	{"agent-nodes-all", "agent: {nodeSelector: {kubernetes.io/os: null}}", ""},
	{"agent-nodes-cronjob", "{mode: cronjob, agent: {nodeSelector: {x: z}}}", ""},
	{"agent-nodes-argument", "{agent: {nodeSelector: {x: z}}, extraArgs: [--agent-nodes=z]}", ""},
	{"agent-lease-namespace", "agent: {leaseNamespace: leases-of-agents}", ""},
	{"agent-cri-o", "agent: {runtime: cri-o}", ""},
	{"agent-k3s-selinux", "agent: {runtime: k3s, selinux: true}", ""},
	{"agent-mixed", "agent: {runtime: mixed}", ""},
	{"agent-socket", "agent: {criSocket: /var/snap/microk8s/common/run/containerd.sock}", ""},
	{"agent-socket-mixed", "agent: {runtime: mixed, criSocket: /var/snap/microk8s/common/run/containerd.sock}", ""},
	{"agent-socket-secure", "agent: {metrics: {secure: true}, criSocket: /var/snap/microk8s/common/run/containerd.sock}",
		""},
	{"agent-folders", "agent: {port: 9999, extraEnv: [{name: GOMEMLIMIT, value: 100MiB}], cni: {results: /data/results, " +
		"multus: /run/multus}, extraArgs: [--log-level=debug]}", ""},
	{"agent-monitor", "{openshift: true, agent: {metrics: {expose: true}, podMonitor: {enabled: true, labels: " +
		"{release: p}}}}", "PodMonitor SecurityContextConstraints"},
	{"agent-monitor-secure", "{openshift: true, agent: {metrics: {secure: true, securePort: 9999, tls: {secretName: " +
		"agents}}, podMonitor: {enabled: true}}}", "SecurityContextConstraints ServiceMonitor"},
	{"agent-placed", "agent: {priorityClassName: mine, updateStrategy: {rollingUpdate: {maxUnavailable: 3}}, " +
		"podAnnotations: {a: b}, podLabels: {c: d}, " +
		"affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: " +
		"[{matchExpressions: [{key: type, operator: NotIn, values: [virtual-kubelet]}]}]}}}}", ""},
	{"agent-without-policy", "agent: {admissionPolicy: false}", ""},
}

var digest = strings.Repeat("0f", 32)

// TestDeploy_Rendered compares what the chart renders with golden files: everything for the default values, the
// difference for others. The API server accepts all of it strictly.
func TestDeploy_Rendered(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t)
	restricted := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "restricted",
		Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	try(s.Client().CoreV1().Namespaces().Create(t.Context(), restricted, metav1.CreateOptions{})).must(t)
	s.namespace(t, "leases-of-agents") // the chart creates it, and a dry run does not
	var standard objectsOf
	for _, c := range renderings {
		t.Run(c.name, func(t *testing.T) {
			namespace := metav1.NamespaceSystem
			if strings.HasPrefix(c.name, "own-namespace") {
				namespace = metav1.NamespaceDefault
			}
			objects := try(helm(namespace, c.values)).must(t)
			all := byName(t, objects)
			if standard == nil {
				standard = all
			}
			var changed []*unstructured.Unstructured
			text := "# " + c.values + "\n"
			for _, name := range slices.Sorted(maps.Keys(all)) {
				if c.name == "default" || standard[name] == nil || plain(t, standard[name]) != plain(t, all[name]) {
					changed = append(changed, all[name])
					text += "---\n" + string(try(yaml.Marshal(all[name].Object)).must(t))
				}
			}
			for _, name := range slices.Sorted(maps.Keys(standard)) {
				if all[name] == nil {
					text += "# without " + name + "\n"
				}
			}
			if notes := notesOf(t, c.values); c.name == "default" || notes != notesOf(t, "") {
				text += "# notes:\n# " + strings.ReplaceAll(notes, "\n", "\n# ") + "\n"
			}
			golden(t, filepath.Join("testdata", "rendered", c.name+".yaml"), text)

			equal(t, "kinds that are not served", strings.Join(s.accepted(t, changed), " "), c.unserved)
			asksForNoMoreThanItNeeds(t, objects)
			givesNoTokenToStrangers(t, objects, strings.Contains(c.values, "insecureSkipVerify"))
			asksTheNodesThatHaveAnAgent(t, objects, strings.Contains(c.values, "--agent-nodes"))
			if p := reconcilerPod(t, objects); !p.Spec.HostNetwork { // even where Pod Security is strictest
				p.Name, p.Namespace = "any", restricted.Name
				try(s.Client().CoreV1().Pods(p.Namespace).Create(t.Context(), p, metav1.CreateOptions{
					DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
				})).must(t)
			}
		})
	}
}

const nullRelabelings = "{serviceMonitor: {enabled: true, relabelings: null, metricRelabelings: null}, " +
	"networkPolicy: {metricsFrom: [m]}, agent: {metrics: {expose: true}, podMonitor: {enabled: true, relabelings: null}}}"

// TestDeploy_ValuesThatChangeNothing has values of what is not installed.
func TestDeploy_ValuesThatChangeNothing(t *testing.T) {
	t.Parallel()
	for values, like := range map[string]string{
		"{repair: null, mode: cronjob}":                 "mode: cronjob",
		"{mode: cronjob, metrics: {pools: false}}":      "mode: cronjob",
		"agent: {enabled: false, nodeSelector: {x: z}}": "agent: {enabled: false}",
		"{mode: cronjob, fenceTimeout: 1m30s}":          "mode: cronjob",
		// null removes a default, as Helm's documentation says.
		"{poolNamespaces: null, leaseNames: null, extraArgs: null, extraEnv: null, imagePullSecrets: null}":    "{}",
		"{agent: {extraArgs: null, extraEnv: null}, networkPolicy: {metricsFrom: null, apiServerPorts: null}}": "{}",
		nullRelabelings: strings.ReplaceAll(nullRelabelings, "null", "[]"),
	} {
		equal(t, "the objects with "+values, installed(t, values), installed(t, like))
		equal(t, "the notes with "+values, notesOf(t, values), notesOf(t, like))
	}
}

// golden compares a text with a file, or writes the file with -update.
func golden(t *testing.T, file, text string) {
	t.Helper()
	if *update {
		check(t, os.MkdirAll(filepath.Dir(file), 0o755))
		check(t, os.WriteFile(file, []byte(text), 0o644))
	}
	if want, err := os.ReadFile(file); err != nil || string(want) != text {
		t.Errorf("%s differs (see with -update and git diff): %v", file, err)
	}
}

// asksForNoMoreThanItNeeds checks the pods of every rendering: no privilege, no writable host path, and tokens that
// expire after six hours.
func asksForNoMoreThanItNeeds(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	for _, o := range objects {
		pod := madeBy(t, o)
		if pod == nil {
			continue
		}
		equal(t, "the host's namespaces", pod.Spec.HostPID || pod.Spec.HostIPC, false)
		equal(t, "containers", len(pod.Spec.Containers)+len(pod.Spec.InitContainers), 1)
		equal(t, "the container's security context", *pod.Spec.Containers[0].SecurityContext, corev1.SecurityContext{
			Privileged: ptr.To(false), AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		})
		for _, m := range pod.Spec.Containers[0].VolumeMounts {
			equal(t, m.MountPath+" is read-only", m.ReadOnly, true)
		}
		for _, v := range pod.Spec.Volumes {
			if v.Projected != nil && v.Projected.Sources[0].ServiceAccountToken != nil {
				equal(t, "for how long its token is valid", *v.Projected.Sources[0].ServiceAccountToken.ExpirationSeconds, 6*60*60)
			}
		}
	}
}

// givesNoTokenToStrangers checks that Prometheus presents its token only to a server that it can verify.
func givesNoTokenToStrangers(t *testing.T, objects []*unstructured.Unstructured, unverified bool) {
	t.Helper()
	for _, o := range objects {
		endpoints, _, _ := unstructured.NestedSlice(o.Object, "spec", "endpoints")
		for _, e := range endpoints {
			e := e.(map[string]any)
			config, _ := e["tlsConfig"].(map[string]any)
			if e["bearerTokenFile"] != nil && (config["ca"] == nil || config["serverName"] == nil ||
				config["insecureSkipVerify"] == true) {
				t.Errorf("%s %s gives its token away: %v", o.GetKind(), o.GetName(), e)
			}
			equal(t, "that anybody is taken for the reconciler", config["insecureSkipVerify"] == true, unverified)
		}
	}
}

// asksTheNodesThatHaveAnAgent checks that the reconciler requires reports exactly of the nodes that the DaemonSet
// selects. Otherwise it waits for ever for nodes without an agent.
func asksTheNodesThatHaveAnAgent(t *testing.T, objects []*unstructured.Unstructured, overruled bool) {
	t.Helper()
	ds := byName(t, objects)["DaemonSet "+agentName]
	if ds == nil || overruled {
		return
	}
	selector := "kubernetes.io/os=linux" // the program's default
	for _, a := range reconcilerPod(t, objects).Spec.Containers[0].Args {
		if given, is := strings.CutPrefix(a, "--agent-nodes="); is {
			selector = given
		}
	}
	nodes := as[appsv1.DaemonSet](t, ds).Spec.Template.Spec.NodeSelector
	equal(t, "the nodes that are asked", try(labels.Parse(selector)).must(t).String(),
		labels.SelectorFromSet(nodes).String())
}

// installed is what the chart renders with values.
func installed(t *testing.T, values string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := helm(metav1.NamespaceSystem, values)
	check(t, err)
	return objects
}

func TestDeploy_WarnsWithoutAdmissionPolicy(t *testing.T) {
	t.Parallel()
	_, err := helmOn("v1.29.4", metav1.NamespaceSystem, "")
	if err == nil {
		t.Fatal("it was rendered")
	}
	contains(t, "the error", err.Error(), "agent.admissionPolicy: ", "v1.29.4", "another", "agent.admissionPolicy=false",
		"agent.enabled=false")
	for version, values := range map[string]string{
		"v1.29.4": "agent: {enabled: false}", "v1.28.0": "agent: {admissionPolicy: false}", "v1.30.2-eks-1552ad0": "",
		"v1.30.4+rke2r1": "",
	} {
		objects, err := helmOn(version, metav1.NamespaceSystem, values)
		check(t, err)
		equal(t, version+" has the policy", byName(t, objects)["ValidatingAdmissionPolicy "+agentName] != nil, values == "")
	}
	notes := notesOf(t, "agent: {admissionPolicy: false}")
	contains(t, "the notes", notes, "root on a node", "agent.enabled=false")
	containsNot(t, "the notes with the policy", notesOf(t, ""), "root on a node")
}
