package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const crd = "crds/ip-reconcile.dev_sandboxreports.yaml"

// forms returns the installations that kustomize makes, by the name of the manifest. Those with agents have the CRD and
// the namespace of their Leases, too.
func forms() map[string]types.Kustomization {
	return map[string]types.Kustomization{
		"deployment-with-agent": {Resources: []string{crd, "leases/leases.yaml", "deployment-with-agent"}},
		"deployment":            {Resources: []string{"deployment"}},
		"cronjob-with-agent": {Resources: []string{crd, "leases/leases.yaml", "cronjob", "agent"},
			Components: []string{"components/agents"}},
		"cronjob": {Resources: []string{"cronjob"}},
	}
}

// manifests renders each form with the image of the release, and writes the CRD.
func (r *release) manifests(digest string) error {
	deploy := filepath.Join(r.temp, "deploy")
	if err := os.CopyFS(deploy, os.DirFS(filepath.Join(r.source, "deploy"))); err != nil {
		return err
	}
	for name, form := range forms() {
		form.Images = []types.Image{{Name: "set-your-image.invalid/ip-reconcile", NewName: r.image, NewTag: r.version,
			Digest: digest}}
		text, err := yaml.Marshal(form)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(deploy, "kustomization.yaml"), text, 0o644); err != nil {
			return err
		}
		objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), deploy)
		if err != nil {
			return err
		}
		if text, err = objects.AsYaml(); err != nil {
			return err
		}
		if err := r.put(name+".yaml", text); err != nil {
			return err
		}
	}
	text, err := os.ReadFile(filepath.Join(deploy, crd))
	if err != nil {
		return err
	}
	return r.put("crds.yaml", text)
}

// repository is the line of values.yaml that a user of the chart in the repository must set.
var repository = regexp.MustCompile(`(?m)^(image:\n(?:  .*\n)*?  repository: )"".*$`)

// chart packs the chart with its versions, and with the image of the release as default.
func (r *release) chart(digest string) error {
	all, err := files(filepath.Join(r.source, "deploy/helm/ip-reconcile"), "ip-reconcile/")
	if err != nil {
		return err
	}
	for i, f := range all {
		switch f.name {
		case "ip-reconcile/Chart.yaml":
			all[i].data, err = r.chartFile(f.data, digest)
		case "ip-reconcile/values.yaml":
			all[i].data = repository.ReplaceAll(f.data, []byte("${1}"+r.image))
		}
		if err != nil {
			return err
		}
	}
	data, err := r.tgz(all)
	if err != nil {
		return err
	}
	return r.put("ip-reconcile-"+r.version+".tgz", data)
}

// chartFile sets what depends on the release in Chart.yaml.
func (r *release) chartFile(text []byte, digest string) ([]byte, error) {
	var chart map[string]any
	if err := yaml.Unmarshal(text, &chart); err != nil {
		return nil, err
	}
	chart["version"], chart["appVersion"] = r.version, r.version
	chart["annotations"].(map[string]any)["artifacthub.io/images"] = fmt.Sprintf(
		"- name: ip-reconcile\n  image: %s:%s@%s\n", r.image, r.version, digest)
	return yaml.Marshal(chart)
}
