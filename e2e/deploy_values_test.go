//go:build !slow && !cluster

package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

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
	equal(t, "mounts", mounts, []string{"/run/containerd", "/run/multus", "/data/results", "/run/netns", "/var/run/netns"})

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

// A PodMonitor cannot present the scraper's own token.
func TestAgentsWithSecureMetricsAreScrapedByHTTPSWithATokenOfTheScrapersOwn(t *testing.T) {
	t.Parallel()
	objects := installed(t, "{openshift: true, agent: {metrics: {secure: true, securePort: 9999}, podMonitor: {enabled: true}}}")
	c := agentContainer(t, objects)
	equal(t, "the program", append(c.Command, c.Args...), []string{"/ip-reconcile", "agent", "--secure-metrics-bind-address=:9999"})
	equal(t, "ports", c.Ports, []corev1.ContainerPort{{Name: "metrics", ContainerPort: 9999}})
	equal(t, "the probed port", c.LivenessProbe.HTTPGet.Port.IntValue(), 9746)
	named := byName(t, objects)
	equal(t, "OpenShift lets it", named["SecurityContextConstraints "+agentName].Object["allowHostPorts"], true)
	if named["PodMonitor "+agentName] != nil || named["Service "+agentName+"-metrics"] == nil {
		t.Error("there is a PodMonitor, or no Service for the ServiceMonitor")
	}
	endpoints, _, err := unstructured.NestedSlice(named["ServiceMonitor "+agentName].Object, "spec", "endpoints")
	check(t, err)
	endpoint := endpoints[0].(map[string]any)
	equal(t, "how it is scraped", fmt.Sprint(endpoint["port"], endpoint["scheme"], endpoint["bearerTokenFile"]), "metricshttps/var/run/secrets/kubernetes.io/serviceaccount/token")
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
