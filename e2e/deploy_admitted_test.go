//go:build !slow && !cluster

package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/strvals"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// documented is an installation that the docs describe.
type documented struct {
	kustomize  string // folders of deploy
	components string // agent/x is deploy/agent/components/x, x deploy/components/x
	helm       string // values, instead of both
	own        bool   // in a namespace of its own, as deploy/namespace creates it
}

const withAgents = "deployment-with-agent"

// documentedInstallations are those of README.md, docs and the comments of kustomizations. Every component is in one.
var documentedInstallations = map[string]documented{
	"with agents":                     {kustomize: withAgents},
	"with agents, of its own":         {kustomize: withAgents, own: true},
	"with agents on CRI-O":            {kustomize: withAgents, components: "agent/cri-o agent/selinux"},
	"with agents on k3s":              {kustomize: withAgents, components: "agent/k3s"},
	"with agents on several runtimes": {kustomize: withAgents, components: "agent/mixed"},
	"with agents, without the policy": {kustomize: withAgents, components: "agent/without-admission-policy"},
	"with agents, secure":             {kustomize: withAgents, components: "agent/secure-metrics secure-metrics ui"},
	"with agents, scraped":            {kustomize: withAgents, components: "prometheus", own: true},
	"with agents on OpenShift":        {kustomize: withAgents, components: "agent/openshift openshift"},
	"with agents on OpenShift, secure": {
		kustomize: withAgents, components: "agent/openshift openshift agent/secure-metrics secure-metrics",
	},
	"with agents, secure, on OpenShift": {
		kustomize: withAgents, components: "agent/secure-metrics secure-metrics agent/openshift openshift", own: true,
	},
	"without agents":             {kustomize: "deployment", components: "leases-by-name"},
	"without agents, of its own": {kustomize: "deployment", own: true},
	"a CronJob":                  {kustomize: "cronjob"},
	"a CronJob with agents":      {kustomize: "cronjob agent", components: "agents", own: true},
	"a Job after a restore":      {kustomize: "recover-job"},
	"the chart":                  {helm: "{}"},
	"the chart, of its own":      {helm: "{}", own: true},
	"the chart, a CronJob":       {helm: "mode: cronjob"},
	"the chart without agents":   {helm: "agent: {enabled: false}", own: true},
	"the chart on k0s":           {helm: "agent: {criSocket: /run/k0s/containerd.sock}"},
	"the chart on OpenShift":     {helm: "openshift: true"},
	"the chart on OpenShift, scraped": {own: true, helm: `
openshift: true
metrics: {secure: true, tls: {issuerRef: {kind: ClusterIssuer, name: ca}}}
serviceMonitor: {enabled: true, credentials: {name: reader}}
networkPolicy: {metricsFrom: [openshift-user-workload-monitoring]}
agent:
  metrics: {secure: true, tls: {secretName: agents}}
  podMonitor: {enabled: true, credentials: {name: reader}}
`},
	"the chart, scraped": {helm: `
prometheusRule: {enabled: true}
dashboard: {enabled: true}
serviceMonitor: {enabled: true}
networkPolicy: {metricsFrom: [monitoring]}
`},
}

// componentFolders are those of documented.components, below deploy.
func (d documented) componentFolders() (folders []string) {
	for _, c := range strings.Fields(d.components) {
		of, name := filepath.Split(c)
		folders = append(folders, filepath.Join(of, "components", name))
	}
	return folders
}

// render renders the objects of an installation and what the docs require before.
func (s *stage) render(t *testing.T, d documented) (namespace string, objects []*unstructured.Unstructured) {
	t.Helper()
	namespace = metav1.NamespaceSystem
	if d.own {
		namespace = "ip-reconcile"
		s.mustKubectl(t, "apply", "-f", "../deploy/namespace/namespace.yaml")
	}
	if d.helm != "" {
		return namespace, try(helm(namespace, d.helm)).must(t)
	}
	patches := ""
	if d.own {
		s.mustKubectl(t, "apply", "-f", "../deploy/namespace/quota.yaml")
	}
	if d.own && !strings.Contains(d.kustomize, "cronjob") {
		patches = ownNamespace(namespace)
	}
	return namespace, kustomized(t, overlay(t, namespace, strings.Fields(d.kustomize), d.componentFolders(), patches))
}

// TestDeploy_DocumentedInstallationsAreAdmitted uses an API server that admits pods as GKE and strict clusters do: Pod
// Security is restricted except in kube-system and where labels say otherwise, and the system's priority classes need a
// ResourceQuota outside of kube-system.
func TestDeploy_DocumentedInstallationsAreAdmitted(t *testing.T) {
	t.Parallel()
	if why := harness.Unsupported(); why != "" {
		t.Skip(why)
	}
	config := try(filepath.Abs("testdata/admission.yaml")).must(t)
	s := &stage{ControlPlane: harness.StartControlPlane(t, "--admission-control-config-file="+config), programs: shipped}
	s.serveForeignKinds(t)
	folder := t.TempDir()
	quota := quotaManifests(t, "any")[0] // GKE has one, gcp-critical-pods
	quota.SetNamespace(metav1.NamespaceSystem)
	own := as[corev1.ResourceQuota](t, quota)
	try(s.Client().CoreV1().ResourceQuotas(own.Namespace).Create(t.Context(), own, metav1.CreateOptions{})).must(t)
	for _, name := range slices.Sorted(maps.Keys(documentedInstallations)) {
		d := documentedInstallations[name]
		t.Run(name, func(t *testing.T) {
			namespace, objects := s.render(t, d)
			file := filepath.Join(folder, "objects.yaml") // kubectl takes no comma in its path
			check(t, os.WriteFile(file, asYAML(t, objects), 0o600))
			if _, errs, err := s.Kubectl(t.Context(), "apply", "--validate=strict", "-f", file); err != nil {
				t.Errorf("kubectl apply: %v\n%s", err, errs)
			}
			s.countQuotas(t, namespace)
			for _, o := range objects {
				pod := madeBy(t, o)
				if pod == nil {
					continue
				}
				pod.Namespace, pod.GenerateName = namespace, o.GetName()+"-"
				pod, err := s.Client().CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{
					DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
				})
				if err != nil {
					t.Errorf("a pod of %s %s is not admitted: %v", o.GetKind(), o.GetName(), err)
				} else if strings.Contains(name, "OpenShift") {
					equal(t, "what OpenShift refuses of "+o.GetName(), refusedByOpenShift(t, pod, objects), []string(nil))
				}
			}
		})
	}
	t.Run("and each component is in one", func(t *testing.T) {
		var used []string
		for _, d := range documentedInstallations {
			used = append(used, d.componentFolders()...)
		}
		for _, pattern := range []string{"../deploy/components/*", "../deploy/agent/components/*"} {
			for _, folder := range try(filepath.Glob(pattern)).must(t) {
				if component, _ := strings.CutPrefix(folder, "../deploy/"); !slices.Contains(used, component) {
					t.Errorf("no installation that is tried has %s", component)
				}
			}
		}
	})
	// This API server must refuse what such clusters refuse.
	t.Run("and without deploy/namespace it is not", func(t *testing.T) {
		s.namespace(t, "bare")
		objects := try(helm("bare", "{}")).must(t)
		for _, name := range []string{reconcilerName, agentName} {
			s.serviceAccount(t, "bare", name)
		}
		for says, spec := range map[string]corev1.PodSpec{
			"insufficient quota to match these scopes": reconcilerPod(t, objects).Spec,
			"violates PodSecurity":                     firstOf[appsv1.DaemonSet](t, objects, "DaemonSet").Spec.Template.Spec,
		} {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "any"}, Spec: spec}
			dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
			_, err := s.Client().CoreV1().Pods("bare").Create(t.Context(), pod, dry)
			contains(t, "the answer", fmt.Sprint(err), says)
		}
	})
}

// serveForeignKinds makes the API server store the kinds of OpenShift, the Prometheus operator and cert-manager.
func (s *stage) serveForeignKinds(t *testing.T) {
	t.Helper()
	const file = "testdata/foreign-kinds.yaml"
	s.mustKubectl(t, "apply", "-f", file)
	s.mustKubectl(t, "wait", "--for=condition=Established", "--timeout=60s", "-f", file)
}

// countQuotas acts for the quota controller: until it has counted, a quota admits nothing.
func (s *stage) countQuotas(t *testing.T, namespace string) {
	t.Helper()
	quotas := s.Client().CoreV1().ResourceQuotas(namespace)
	for _, q := range try(quotas.List(t.Context(), metav1.ListOptions{})).must(t).Items {
		q.Status.Hard, q.Status.Used = q.Spec.Hard, corev1.ResourceList{}
		for name := range q.Spec.Hard {
			q.Status.Used[name] = resource.MustParse("0")
		}
		try(quotas.UpdateStatus(t.Context(), &q, metav1.UpdateOptions{})).must(t)
	}
}

// refusedByOpenShift is what SecurityContextConstraints forbid in a pod: the agents have their own, the reconciler uses
// nonroot-v2. The API server has set the defaults of the pod.
func refusedByOpenShift(t *testing.T, pod *corev1.Pod, objects []*unstructured.Unstructured) (refused []string) {
	t.Helper()
	scc := map[string]any{"volumes": []any{"configMap", "downwardAPI", "emptyDir", "projected", "secret"}} // and more
	if pod.Spec.ServiceAccountName == agentName {
		scc = byName(t, objects)["SecurityContextConstraints "+agentName].Object
	} else if !*pod.Spec.SecurityContext.RunAsNonRoot {
		refused = append(refused, "runAsNonRoot")
	}
	needs := func(field string, does bool) {
		if does && scc[field] != true {
			refused = append(refused, field)
		}
	}
	needs("allowHostNetwork", pod.Spec.HostNetwork)
	needs("allowHostPID", pod.Spec.HostPID)
	needs("allowHostIPC", pod.Spec.HostIPC)
	for _, c := range pod.Spec.Containers {
		needs("allowPrivilegedContainer", *c.SecurityContext.Privileged)
		needs("allowPrivilegeEscalation", *c.SecurityContext.AllowPrivilegeEscalation)
		for _, p := range c.Ports {
			needs("allowHostPorts", p.HostPort != 0)
		}
	}
	for _, v := range pod.Spec.Volumes {
		source := try(runtime.DefaultUnstructuredConverter.ToUnstructured(&v.VolumeSource)).must(t)
		for kind := range source {
			needs("allowHostDirVolumePlugin", kind == "hostPath")
			if !slices.Contains(scc["volumes"].([]any), any(kind)) {
				refused = append(refused, "a volume of kind "+kind)
			}
		}
	}
	return refused
}

func asYAML(t *testing.T, objects []*unstructured.Unstructured) (text []byte) {
	t.Helper()
	for _, o := range objects {
		text = append(text, "---\n"...)
		text = append(text, try(yaml.Marshal(o.Object)).must(t)...)
	}
	return text
}

// helmBlocks are the blocks of commands in the docs that install the chart, continued lines joined.
func helmBlocks(t *testing.T) (blocks []string) {
	t.Helper()
	pages := slices.Concat(try(filepath.Glob("../docs/*.md")).must(t), try(filepath.Glob("../docs/*/*.md")).must(t),
		[]string{"../README.md"})
	for _, file := range pages {
		text := string(try(os.ReadFile(file)).must(t))
		for _, block := range regexp.MustCompile(`(?m)(^    .*\n)+`).FindAllString(text, -1) {
			if strings.Contains(block, "helm install ") {
				blocks = append(blocks, regexp.MustCompile(`\\\n *`).ReplaceAllString(block, ""))
			}
		}
	}
	return blocks
}

// TestDeploy_StepsBeforeHelm: Helm refuses to install over objects that it did not
// create. It accepts the chart's CRDs if they exist.
func TestDeploy_StepsBeforeHelm(t *testing.T) {
	t.Parallel()
	blocks := helmBlocks(t)
	if len(blocks) < 2 {
		t.Fatalf("README.md and docs/install/README.md have %d blocks with helm install", len(blocks))
	}
	for _, block := range blocks {
		install := regexp.MustCompile(`helm install .* -n (\S+) (.*)`).FindStringSubmatch(block)
		if install == nil {
			t.Errorf("no namespace in %s", block)
			continue
		}
		values := map[string]any{}
		for _, set := range regexp.MustCompile(`--set (\S+)`).FindAllStringSubmatch(install[2], -1) {
			check(t, strvals.ParseInto(set[1], values))
		}
		made := byName(t, try(helm(install[1], string(try(yaml.Marshal(values)).must(t)))).must(t))
		for _, path := range regexp.MustCompile(`-f (deploy/\S+)`).FindAllStringSubmatch(block, -1) {
			files := []string{"../" + path[1]}
			if !strings.HasSuffix(path[1], ".yaml") {
				files = try(filepath.Glob("../" + path[1] + "/*.yaml")).must(t)
			}
			for _, file := range files {
				for _, o := range try(harness.Documents(string(try(os.ReadFile(file)).must(t)))).must(t) {
					there := made[o.GetKind()+" "+o.GetName()]
					if there != nil && there.GetNamespace() == o.GetNamespace() {
						t.Errorf("%s makes %s %s first, and the chart too", path[1], o.GetKind(), o.GetName())
					}
				}
			}
		}
	}
}
