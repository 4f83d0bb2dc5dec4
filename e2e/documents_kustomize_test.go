//go:build !slow && !cluster

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// kustomizationKey begins a block of a page that belongs into the reader's kustomization.
var kustomizationKey = regexp.MustCompile(`^(resources|components|patches|images|namespace):`)

// kustomizationsOf are the indented blocks of a page that are lines of a kustomization.
func kustomizationsOf(text string) (all []string) {
	for _, block := range regexp.MustCompile(`(?m)(^    .*\n)+`).FindAllString(text, -1) {
		if block = regexp.MustCompile(`(?m)^    `).ReplaceAllString(block, ""); kustomizationKey.MatchString(block) {
			all = append(all, block)
		}
	}
	return all
}

// Lines for a kustomization are pasted into one that has the recommended base. They build, and change what it makes.
func TestDocuments_EachKustomizationBuilds(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	check(t, os.CopyFS(filepath.Join(folder, "deploy"), os.DirFS("../deploy")))
	build := func(lines string) string {
		mine := filepath.Join(folder, "mine")
		check(t, os.MkdirAll(mine, 0o755))
		check(t, os.WriteFile(filepath.Join(mine, "kustomization.yaml"), []byte(lines), 0o600))
		built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), mine)
		if err != nil {
			t.Errorf("%s\n%v", lines, err)
			return ""
		}
		return string(try(built.AsYaml()).must(t))
	}
	const base = "resources: [../deploy/deployment-with-agent]\n"
	plain, n := build(base), 0
	for _, text := range pages(t) {
		for _, lines := range kustomizationsOf(text) {
			n++
			if !strings.HasPrefix(lines, "resources:") {
				lines = base + lines
			}
			if build(lines) == plain {
				t.Errorf("these lines change nothing:\n%s", lines)
			}
		}
	}
	if n < 3 {
		t.Errorf("the pages have %d kustomizations", n)
	}
}
