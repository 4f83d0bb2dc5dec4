//go:build !slow && !cluster

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// argoApplication has the fields of Argo CD's Application that deploy/gitops uses (argo-cd v3.5.7,
// pkg/apis/application/v1alpha1/types.go). Its Go module has too many dependencies.
type argoApplication struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Project string `json:"project"`
		Source  struct {
			RepoURL        string `json:"repoURL"`
			TargetRevision string `json:"targetRevision"`
			Path           string `json:"path"`
			Helm           struct {
				ReleaseName  string         `json:"releaseName"`
				SkipCrds     bool           `json:"skipCrds"`
				ValuesObject map[string]any `json:"valuesObject"`
			} `json:"helm"`
		} `json:"source"`
		Destination struct {
			Server    string `json:"server"`
			Namespace string `json:"namespace"`
		} `json:"destination"`
		SyncPolicy struct {
			Automated struct {
				Prune    bool `json:"prune"`
				SelfHeal bool `json:"selfHeal"`
			} `json:"automated"`
			SyncOptions []string `json:"syncOptions"`
			Retry       struct {
				Limit   int64 `json:"limit"`
				Backoff struct {
					Duration    string `json:"duration"`
					Factor      int64  `json:"factor"`
					MaxDuration string `json:"maxDuration"`
				} `json:"backoff"`
			} `json:"retry"`
		} `json:"syncPolicy"`
	} `json:"spec"`
}

func gitOps(t *testing.T, file string) objectsOf {
	t.Helper()
	return byName(t, try(harness.Documents(string(try(os.ReadFile("../deploy/gitops/"+file)).must(t)))).must(t))
}

// sameAsHelm checks that values render what docs/install/helm.md installs.
func sameAsHelm(t *testing.T, namespace string, values any) objectsOf {
	t.Helper()
	got := byName(t, try(helm(namespace, string(try(yaml.Marshal(values)).must(t)))).must(t))
	equal(t, "the image", reconcilerPod(t, []*unstructured.Unstructured{got["Deployment "+reconcilerName]}).
		Spec.Containers[0].Image, "example.com/ip-reconcile:0.1.0")
	return got
}

// chartTag is the tag of the release that has the chart.
func chartTag(t *testing.T) string {
	t.Helper()
	var chart struct{ Version string }
	check(t, yaml.Unmarshal(try(os.ReadFile(chartFolder+"/Chart.yaml")).must(t), &chart))
	return "v" + chart.Version
}

// hasManifests checks that a path of the repository has YAML files of one kind, or is a chart.
func hasManifests(t *testing.T, path, kind string) {
	t.Helper()
	files := try(filepath.Glob(filepath.Join("..", path, "*.yaml"))).must(t)
	if len(files) == 0 {
		t.Errorf("%s has no manifests", path)
	}
	for _, file := range files {
		if kind != "" && !strings.Contains(string(try(os.ReadFile(file)).must(t)), "\nkind: "+kind+"\n") {
			t.Errorf("%s is no %s", file, kind)
		}
	}
}

func TestDeploy_Flux(t *testing.T) {
	t.Parallel()
	objects := gitOps(t, "flux/ip-reconcile.yaml")
	equal(t, "objects", len(objects), 3)
	source := as[sourcev1.GitRepository](t, objects["GitRepository ip-reconcile"])
	equal(t, "the tag", source.Spec.Reference.Tag, chartTag(t))
	crds := as[kustomizev1.Kustomization](t, objects["Kustomization ip-reconcile-crds"])
	chart := as[kustomizev1.Kustomization](t, objects["Kustomization ip-reconcile"])
	for _, k := range []*kustomizev1.Kustomization{crds, chart} {
		equal(t, "the source", k.Namespace+" "+k.Spec.SourceRef.Kind+" "+k.Spec.SourceRef.Name,
			source.Namespace+" GitRepository "+source.Name)
	}
	equal(t, "what the chart depends on", chart.Spec.DependsOn[0].Name, crds.Name)
	equal(t, "whether the CRD is pruned", crds.Spec.Prune, false)
	hasManifests(t, crds.Spec.Path, "CustomResourceDefinition")
	if crd := crds.Spec.HealthChecks[0]; gitOps(t, "../crds/ip-reconcile.dev_sandboxreports.yaml")[crd.Kind+" "+
		crd.Name] == nil {
		t.Errorf("there is no %v", crd)
	}

	hasManifests(t, chart.Spec.Path, "HelmRelease")
	release := gitOps(t, "flux/helm/helmrelease.yaml")["HelmRelease ip-reconcile"]
	equal(t, "what is patched", chart.Spec.Patches[0].Target.Kind+" "+chart.Spec.Patches[0].Target.Name,
		release.GetKind()+" "+release.GetName())
	patch := try(jsonpatch.DecodePatch(try(yaml.YAMLToJSON([]byte(chart.Spec.Patches[0].Patch))).must(t))).must(t)
	check(t, json.Unmarshal(try(patch.Apply(try(json.Marshal(release)).must(t))).must(t), &release.Object))
	r := as[helmv2.HelmRelease](t, release)
	hasManifests(t, r.Spec.Chart.Spec.Chart, "")
	equal(t, "the source of the chart", r.Namespace+" "+r.Spec.Chart.Spec.SourceRef.Name, source.Namespace+" "+source.Name)
	equal(t, "what Helm does with the CRD", []helmv2.CRDsPolicy{r.Spec.Install.CRDs, r.Spec.Upgrade.CRDs},
		[]helmv2.CRDsPolicy{helmv2.Skip, helmv2.Skip})
	rendered := sameAsHelm(t, r.Spec.TargetNamespace, r.Spec.Values)
	rendered["HelmRelease ip-reconcile"] = release
	for _, c := range chart.Spec.HealthChecks {
		o := rendered[c.Kind+" "+c.Name]
		if o == nil || o.GetNamespace() != c.Namespace || o.GetAPIVersion() != c.APIVersion {
			t.Errorf("%v: that object is not installed", c)
		}
	}
	equal(t, "objects whose health is checked", len(chart.Spec.HealthChecks), 3)
}

func TestDeploy_ArgoCD(t *testing.T) {
	t.Parallel()
	objects := gitOps(t, "argocd/ip-reconcile.yaml")
	equal(t, "objects", len(objects), 2)
	crds := as[argoApplication](t, objects["Application ip-reconcile-crds"])
	chart := as[argoApplication](t, objects["Application ip-reconcile"])
	const wave = "argocd.argoproj.io/sync-wave"
	equal(t, "the waves", []string{crds.Annotations[wave], chart.Annotations[wave]}, []string{"-1", "0"})
	for _, a := range []*argoApplication{crds, chart} {
		equal(t, "the API", a.APIVersion, "argoproj.io/v1alpha1")
		equal(t, "the tag", a.Spec.Source.TargetRevision, chartTag(t))
	}
	hasManifests(t, crds.Spec.Source.Path, "CustomResourceDefinition")
	equal(t, "whether the CRD is pruned", crds.Spec.SyncPolicy.Automated.Prune || len(crds.Finalizers) > 0, false)
	equal(t, "the chart", filepath.Join("..", chart.Spec.Source.Path), chartFolder)
	equal(t, "whether the chart brings the CRD", chart.Spec.Source.Helm.SkipCrds, true)
	sameAsHelm(t, chart.Spec.Destination.Namespace, chart.Spec.Source.Helm.ValuesObject)
}
