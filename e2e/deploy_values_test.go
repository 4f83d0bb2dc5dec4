//go:build !slow && !cluster

package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// installed is what the chart makes with values.
func installed(t *testing.T, values string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := helm(metav1.NamespaceSystem, values)
	check(t, err)
	return objects
}

func agentContainer(t *testing.T, objects []*unstructured.Unstructured) corev1.Container {
	t.Helper()
	return daemonSet(t, objects).Spec.Template.Spec.Containers[0]
}

// What the DaemonSet selects the reconciler asks, and nothing else: else it waits for
// ever for the reports of nodes that are to have no agent.
func TestTheNodesThatHaveAnAgentAreThoseThatTheReconcilerAsks(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		"{}":                                     "",
		"agent: {nodeSelector: {pool: sriov}}":   "--agent-nodes=kubernetes.io/os=linux,pool=sriov", // Helm merges maps
		"agent: {nodeSelector: {a: b, d/e: ''}}": "--agent-nodes=a=b,d/e=,kubernetes.io/os=linux",
		"agent: {nodeSelector: {kubernetes.io/os: null}}":               "--agent-nodes=",
		"{mode: cronjob, agent: {nodeSelector: {x: z}}}":                "--agent-nodes=kubernetes.io/os=linux,x=z",
		"agent: {enabled: false, nodeSelector: {x: z}}":                 "",
		"{agent: {nodeSelector: {x: z}}, extraArgs: [--agent-nodes=z]}": "--agent-nodes=z", // the last one counts
	} {
		objects := installed(t, values)
		got := ""
		for _, a := range reconcilerPod(t, objects).Spec.Containers[0].Args {
			if strings.HasPrefix(a, "--agent-nodes=") {
				got = a
			}
		}
		equal(t, values, got, want)
		if selector, given := strings.CutPrefix(got, "--agent-nodes="); given && !strings.Contains(values, "extraArgs") {
			nodes := daemonSet(t, objects).Spec.Template.Spec.NodeSelector
			equal(t, values+": as the DaemonSet has it", try(labels.Parse(selector)).must(t).String(), labels.SelectorFromSet(nodes).String())
		}
	}
}

func TestTheAgentsLeasesAreInANamespaceOfTheirOwn(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{"{}": harness.LeaseNamespace, "agent: {leaseNamespace: leases}": "leases"} {
		objects := installed(t, values)
		as[corev1.Namespace](t, byName(t, objects)["Namespace "+want])
		for role, rules := range boundTo(t, agentName, objects) {
			namespace, _, _ := strings.Cut(role, "/")
			for _, r := range requests(rules) {
				equal(t, values+": where agents have a right to Leases: "+role, r.Resource == "leases", namespace == want)
			}
		}
		flag := "--lease-namespace=" + want
		for _, c := range []corev1.Container{agentContainer(t, objects), reconcilerPod(t, objects).Spec.Containers[0]} {
			equal(t, values+": "+c.Name+" is told", slices.Contains(c.Args, flag), want != harness.LeaseNamespace)
		}
	}
}

func TestTheReconcilerWritesLeasesOnlyWherePoolsAre(t *testing.T) {
	t.Parallel()
	rights := rightsOf(t, installed(t, "poolNamespaces: [pools, more]"))
	equal(t, "everywhere", rights["coordination.k8s.io/leases *"], "list watch")
	for _, namespace := range []string{"pools", "more", metav1.NamespaceSystem} { // it leads in its own
		equal(t, "in "+namespace, rights["coordination.k8s.io/leases "+namespace], "create get update")
	}
	equal(t, "in the agents'", rights["coordination.k8s.io/leases "+harness.LeaseNamespace], "delete get")
	rights = rightsOf(t, installed(t, "{poolNamespaces: [pools], leaseNames: [whereabouts, blue-10.1.0.0-24]}"))
	for name, want := range map[string]string{"": "create", " whereabouts": "get update", " blue-10.1.0.0-24": "get update", " ip-reconcile": "get update",
		" ip-reconcile-restore": "get update", " ip-reconcile-last-pass": "get update", " kube-controller-manager": ""} {
		equal(t, "of Leases in pools"+name, rights["coordination.k8s.io/leases pools"+name], want)
	}
	equal(t, "everywhere, if nothing is said", rightsOf(t, installed(t, ""))["coordination.k8s.io/leases *"], "create get list update watch")
}

func TestWithoutTheAdmissionPolicyTheInstallationSaysWhatAgentsCanDo(t *testing.T) {
	t.Parallel()
	_, err := helmOn("v1.29.4", metav1.NamespaceSystem, "")
	if err == nil {
		t.Fatal("it was rendered")
	}
	contains(t, "the error", err.Error(), "agent.admissionPolicy: ", "v1.29.4", "another", "agent.admissionPolicy=false", "agent.enabled=false")
	for version, values := range map[string]string{
		"v1.29.4": "agent: {enabled: false}", "v1.28.0": "agent: {admissionPolicy: false}", "v1.30.2-eks-1552ad0": "", "v1.30.4+rke2r1": "",
	} {
		objects, err := helmOn(version, metav1.NamespaceSystem, values)
		check(t, err)
		equal(t, version+" has the policy", byName(t, objects)["ValidatingAdmissionPolicy "+agentName] != nil, values == "")
	}
	notes := notesOf(t, "agent: {admissionPolicy: false}")
	contains(t, "the notes", notes, "root on one node", "agent.enabled=false")
	containsNot(t, "the notes with the policy", notesOf(t, ""), "root on one node")
}

func TestTheAgentsPortMetricsEnvironmentAndFoldersAreValues(t *testing.T) {
	t.Parallel()
	objects := installed(t, `agent: {port: 9999, env: [{name: GOMEMLIMIT, value: 100MiB}], cni: {results: /data/results, multus: /run/multus}, extraArgs: [--log-level=debug]}`)
	c := agentContainer(t, objects)
	equal(t, "arguments", c.Args, []string{"--metrics-bind-address=127.0.0.1:9999", "--cni-results=/data/results", "--cni-multus=/run/multus", "--log-level=debug"})
	equal(t, "the last of the environment", c.Env[len(c.Env)-1], corev1.EnvVar{Name: "GOMEMLIMIT", Value: "100MiB"})
	for _, probe := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		equal(t, "the probed port", probe.HTTPGet.Port.IntValue(), 9999)
	}
	var mounts []string
	for _, m := range c.VolumeMounts {
		mounts = append(mounts, m.MountPath)
	}
	equal(t, "mounts", mounts, []string{"/run/containerd", "/run/multus", "/data/results", "/run/netns", "/var/run/netns",
		"/var/run/secrets/kubernetes.io/serviceaccount"})

	objects = installed(t, "{openshift: true, agent: {metrics: {expose: true}, podMonitor: {enabled: true, labels: {release: p}}}}")
	c = agentContainer(t, objects)
	equal(t, "arguments", c.Args, []string{"--metrics-bind-address=:9746"})
	equal(t, "ports", c.Ports, []corev1.ContainerPort{{Name: "metrics", ContainerPort: 9746}})
	equal(t, "OpenShift lets it", byName(t, objects)["SecurityContextConstraints "+agentName].Object["allowHostPorts"], true)
	monitor := byName(t, objects)["PodMonitor "+agentName]
	equal(t, "the monitor's labels", monitor.GetLabels()["release"], "p")
	endpoints, _, err := unstructured.NestedSlice(monitor.Object, "spec", "podMetricsEndpoints")
	check(t, err)
	equal(t, "its port", endpoints[0].(map[string]any)["port"], "metrics")
}

// endpointOf is the one of a monitor among what the chart makes.
func endpointOf(t *testing.T, objects []*unstructured.Unstructured, monitor string) map[string]any {
	t.Helper()
	endpoints, _, err := unstructured.NestedSlice(byName(t, objects)[monitor].Object, "spec", "endpoints")
	check(t, err)
	return endpoints[0].(map[string]any)
}

// A PodMonitor cannot present the scraper's own token.
func TestAgentsWithSecureMetricsAreScrapedByHTTPSWithATokenOfTheScrapersOwn(t *testing.T) {
	t.Parallel()
	objects := installed(t, `{openshift: true, agent: {metrics: {secure: true, securePort: 9999, tls: {secretName: agents}}, podMonitor: {enabled: true}}}`)
	c := agentContainer(t, objects)
	equal(t, "the program", append(c.Command, c.Args...), []string{
		"/ip-reconcile", "agent", "--secure-metrics-bind-address=:9999", "--metrics-cert-dir=/metrics-tls",
	})
	equal(t, "ports", c.Ports, []corev1.ContainerPort{{Name: "metrics", ContainerPort: 9999}})
	equal(t, "the probed port", c.LivenessProbe.HTTPGet.Port.IntValue(), 9746)
	named := byName(t, objects)
	equal(t, "OpenShift lets it", named["SecurityContextConstraints "+agentName].Object["allowHostPorts"], true)
	if named["PodMonitor "+agentName] != nil || named["Service "+agentName+"-metrics"] == nil {
		t.Error("there is a PodMonitor, or no Service for the ServiceMonitor")
	}
	endpoint := endpointOf(t, objects, "ServiceMonitor "+agentName)
	equal(t, "how it is scraped", fmt.Sprint(endpoint["port"], endpoint["scheme"], endpoint["bearerTokenFile"]), "metricshttps/var/run/secrets/kubernetes.io/serviceaccount/token")
	equal(t, "whom Prometheus takes for an agent", endpoint["tlsConfig"], any(map[string]any{
		"ca":         map[string]any{"secret": map[string]any{"name": "agents", "key": "ca.crt"}},
		"serverName": "ip-reconcile-agent-metrics.kube-system.svc",
	}))
	const certificate = "metrics-tls"
	volumes := daemonSet(t, objects).Spec.Template.Spec.Volumes
	at := slices.IndexFunc(volumes, func(v corev1.Volume) bool { return v.Name == certificate && v.Secret != nil })
	mounted := slices.IndexFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == certificate })
	if at < 0 || mounted < 0 {
		t.Fatalf("the volumes %+v, mounted as %+v", volumes, c.VolumeMounts)
	}
	equal(t, "its certificate", volumes[at].Secret.SecretName, "agents")
	equal(t, "where", c.VolumeMounts[mounted].MountPath, "/metrics-tls")
}

// Whoever answers gets the token that Prometheus presents.
func TestPrometheusGivesItsTokenOnlyToWhomItCanVerify(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]struct{ endpoint, secret string }{
		"tls: {secretName: mine}": {
			"ca:map[secret:map[key:ca.crt name:mine]] serverName:ip-reconcile-metrics.kube-system.svc", "mine"},
		"tls: {issuerRef: {kind: ClusterIssuer, name: ca}}": {
			"ca:map[secret:map[key:ca.crt name:ip-reconcile-metrics-tls]] serverName:ip-reconcile-metrics.kube-system.svc", "ip-reconcile-metrics-tls"},
	} {
		objects := installed(t, "{serviceMonitor: {enabled: true}, metrics: {secure: true, "+values+"}}")
		equal(t, values+": whom it takes for the reconciler", fmt.Sprint(endpointOf(t, objects, "ServiceMonitor "+reconcilerName)["tlsConfig"]), "map["+want.endpoint+"]")
		pod := reconcilerPod(t, objects).Spec
		i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Secret != nil })
		equal(t, values+": the certificate", pod.Volumes[i].Secret.SecretName, want.secret)
		if !slices.Contains(pod.Containers[0].Args, "--metrics-cert-dir=/metrics-tls") || pod.Containers[0].VolumeMounts[0].MountPath != "/metrics-tls" {
			t.Errorf("%s: it does not serve by its certificate: %v", values, pod.Containers[0].Args)
		}
		certificate := byName(t, objects)["Certificate ip-reconcile-metrics"]
		equal(t, values+": cert-manager makes it", certificate != nil, strings.Contains(values, "issuerRef"))
		if certificate != nil {
			names, _, err := unstructured.NestedStringSlice(certificate.Object, "spec", "dnsNames")
			check(t, err)
			equal(t, "for whom", names, []string{"ip-reconcile-metrics.kube-system.svc"})
		}
	}
	given := installed(t, "{serviceMonitor: {enabled: true, insecureSkipVerify: true, credentials: {name: reader}}, metrics: {secure: true}}")
	endpoint := endpointOf(t, given, "ServiceMonitor "+reconcilerName)
	equal(t, "a token that is not Prometheus' own", fmt.Sprint(endpoint["authorization"], endpoint["bearerTokenFile"]), "map[credentials:map[key:token name:reader]] <nil>")
	equal(t, "where that is asked for", fmt.Sprint(endpoint["tlsConfig"]), "map[insecureSkipVerify:true]")
}

func TestPlainMetricsAreForTheNamespacesThatAreNamed(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		"{}":                      "",
		"metrics: {secure: true}": "all",
		"networkPolicy: {metricsFrom: [monitoring]}":                            "[monitoring]",
		"{metrics: {secure: true}, networkPolicy: {metricsFrom: [monitoring]}}": "[monitoring]",
	} {
		got := ""
		for _, rule := range as[networkingv1.NetworkPolicy](t, byName(t, installed(t, values))["NetworkPolicy "+reconcilerName]).Spec.Ingress {
			for _, port := range rule.Ports {
				switch {
				case port.Port.IntValue() != 9745:
				case len(rule.From) == 0:
					got = "all"
				default:
					got = fmt.Sprint(rule.From[0].NamespaceSelector.MatchExpressions[0].Values)
				}
			}
		}
		equal(t, values+": who may get them", got, want)
	}
}

func TestTheSocketOfAnotherRuntimeIsAValue(t *testing.T) {
	t.Parallel()
	for _, values := range []string{"", "runtime: mixed, ", "metrics: {secure: true}, "} {
		ds := daemonSet(t, installed(t, "agent: {"+values+"criSocket: /var/snap/microk8s/common/run/containerd.sock}"))
		c, folder := ds.Spec.Template.Spec.Containers[0], "/var/snap/microk8s/common/run"
		equal(t, values+"the folder", ds.Spec.Template.Spec.Volumes[0].HostPath.Path, folder)
		equal(t, values+"where it is mounted", c.VolumeMounts[0].MountPath, folder)
		equal(t, values+"mounts", len(c.VolumeMounts), 5)
		equal(t, values+"the last argument", c.Args[len(c.Args)-1], "--cri="+folder+"/containerd.sock")
	}
}

func TestWhereTheAgentsRunAndHowTheyAreReplacedAreValues(t *testing.T) {
	t.Parallel()
	shipped := daemonSet(t, installed(t, "")).Spec
	equal(t, "the priority", shipped.Template.Spec.PriorityClassName, "system-node-critical")
	equal(t, "at once", shipped.UpdateStrategy.RollingUpdate.MaxUnavailable.String(), "10%")
	ds := daemonSet(t, installed(t, `agent:
  priorityClassName: mine
  updateStrategy: {rollingUpdate: {maxUnavailable: 3}}
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: type, operator: NotIn, values: [virtual-kubelet]}]}]}}}
`)).Spec
	equal(t, "the priority", ds.Template.Spec.PriorityClassName, "mine")
	equal(t, "at once", ds.UpdateStrategy.RollingUpdate.MaxUnavailable.IntValue(), 3)
	terms := ds.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	equal(t, "which nodes", terms[0].MatchExpressions[0].Key, "type")
	for values, want := range map[string]bool{"{}": true, "priorityClassName: ''": true, "{priorityClassName: '', agent: {priorityClassName: mine}}": false} {
		quota := byName(t, try(helm("mine", values)).must(t))["ResourceQuota "+reconcilerName]
		equal(t, values+": a quota for the classes of the system", quota != nil, want)
		equal(t, values+": in kube-system", byName(t, installed(t, values))["ResourceQuota "+reconcilerName] != nil, false)
	}
}

// One that waits, or that failed long ago, is no fault.
func TestAJobFailsOnlyWhereAnOperatorMustAct(t *testing.T) {
	t.Parallel()
	job := as[batchv1.CronJob](t, byName(t, installed(t, "mode: cronjob"))["CronJob "+reconcilerName]).Spec
	args := job.JobTemplate.Spec.Template.Spec.Containers[0].Args
	var wait time.Duration
	for _, a := range args {
		if text, ok := strings.CutPrefix(a, "--max-wait="); ok {
			wait = try(time.ParseDuration(text)).must(t)
		}
	}
	if deadline := time.Duration(*job.JobTemplate.Spec.ActiveDeadlineSeconds) * time.Second; wait == 0 || wait > deadline-5*time.Minute {
		t.Errorf("a run waits for %s, and is ended after %s", wait, deadline)
	}
	if !slices.Contains(args, "--fail-on=Breaker,EtcdRestored,NoLease,WriteFailed") {
		t.Errorf("what makes it fail: %v", args)
	}
	if ttl := job.JobTemplate.Spec.TTLSecondsAfterFinished; ttl == nil || *ttl > 3600 {
		t.Error("a Job that failed stays, and an alert on it")
	}
}

func TestReplicasThatAreNotReadyBlockNoDrain(t *testing.T) {
	t.Parallel()
	pdb := as[policyv1.PodDisruptionBudget](t, byName(t, installed(t, ""))["PodDisruptionBudget "+reconcilerName])
	equal(t, "pods that are not ready", ptr.Deref(pdb.Spec.UnhealthyPodEvictionPolicy, ""), policyv1.AlwaysAllow)
}

// A pass may take as long as it takes: a shim that hangs costs seconds each time.
func TestNoProbeKillsAnAgentWhosePassIsSlow(t *testing.T) {
	t.Parallel()
	c := agentContainer(t, installed(t, ""))
	patience := func(p *corev1.Probe) int { return int(p.PeriodSeconds * p.FailureThreshold) }
	if c.StartupProbe == nil || patience(c.StartupProbe) < 300 || patience(c.LivenessProbe) < 120 {
		t.Errorf("startup %v, liveness %v", c.StartupProbe, c.LivenessProbe)
	}
}

func TestAgentsOfNodesWithSeveralRuntimesSeeEveryUsualSocket(t *testing.T) {
	t.Parallel()
	ds := daemonSet(t, installed(t, "agent: {runtime: mixed}"))
	mounted := map[string]string{}
	for _, m := range ds.Spec.Template.Spec.Containers[0].VolumeMounts {
		mounted[m.MountPath] = m.Name
	}
	for _, folder := range []string{"/run/containerd", "/run/crio", "/run/k3s/containerd"} {
		i := slices.IndexFunc(ds.Spec.Template.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == mounted[folder] })
		if i < 0 {
			t.Errorf("%s is not mounted", folder)
			continue
		}
		equal(t, "what is mounted at "+folder, ds.Spec.Template.Spec.Volumes[i].HostPath.Path, folder)
		// A folder that a node has not must not keep the pod from starting.
		equal(t, folder, *ds.Spec.Template.Spec.Volumes[i].HostPath.Type, corev1.HostPathDirectoryOrCreate)
	}
}

func TestTheNetworkPolicyTakesNoPortOfAnAPIServerForGranted(t *testing.T) {
	t.Parallel()
	policy := func(values string) networkingv1.NetworkPolicySpec {
		return as[networkingv1.NetworkPolicy](t, byName(t, installed(t, values))["NetworkPolicy "+reconcilerName]).Spec
	}
	equal(t, "what is restricted", policy("").PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress})
	strict := policy("networkPolicy: {apiServerPorts: [16443]}")
	equal(t, "what is, where ports are given", strict.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress})
	equal(t, "the port", strict.Egress[0].Ports[0].Port.IntValue(), 16443)
}

func TestTheInstallationSaysHowTheCRDIsUpgraded(t *testing.T) {
	t.Parallel()
	apply := "kubectl apply --server-side --force-conflicts -f "
	contains(t, "the notes", notesOf(t, ""), "Helm never upgrades CRDs", "helm show crds", apply)
	containsNot(t, "the notes without agents", notesOf(t, "agent: {enabled: false}"), "CRD")
	contains(t, "docs/install.md", string(try(os.ReadFile("../docs/install.md")).must(t)), "**Upgrade** the CRD first", apply+"deploy/crds")
}

func TestTheNetworkStatusIsTrustedByValueOnly(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]bool{
		"agent: {enabled: false}":                                            false,
		"{agent: {enabled: false}, trustNetworkStatus: true}":                true,
		"{agent: {enabled: false}, trustNetworkStatus: true, mode: cronjob}": true,
	} {
		args := reconcilerPod(t, installed(t, values)).Spec.Containers[0].Args
		equal(t, values, slices.Contains(args, "--trust-network-status"), want)
	}
}
