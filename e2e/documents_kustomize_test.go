//go:build !slow && !cluster

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
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

// A file of deploy binds the accounts of kube-system. Applied as it is, it takes the rights from those of another
// namespace. So a page that applies such a file says what to do there.
func TestDocuments_FilesOfKubeSystemAreNotAppliedElsewhere(t *testing.T) {
	t.Parallel()
	paths, n := regexp.MustCompile(`-f (deploy/\S+)`), 0
	for page, text := range pages(t) {
		for _, c := range commandsOf(page, text) {
			if !strings.Contains(c.text, "kubectl apply ") {
				continue
			}
			for _, path := range paths.FindAllStringSubmatch(c.text, -1) {
				files := []string{"../" + path[1]}
				if !strings.HasSuffix(path[1], ".yaml") {
					files = try(filepath.Glob("../" + path[1] + "/*.yaml")).must(t)
				}
				for _, file := range files {
					n++
					if forKubeSystem(t, file) && !strings.Contains(strings.ToLower(text), "another namespace") {
						t.Errorf("%s: %s is for kube-system, and the page does not say what to do in another namespace", c.place,
							path[1])
					}
				}
			}
		}
	}
	if n < 3 {
		t.Errorf("the pages apply %d files", n)
	}
}

// forKubeSystem reports whether a file grants rights to accounts of kube-system, or has a policy on them.
func forKubeSystem(t *testing.T, file string) bool {
	t.Helper()
	text := string(try(os.ReadFile(file)).must(t))
	if strings.Contains(text, "serviceaccount:kube-system:") {
		return true
	}
	for _, o := range try(harness.Documents(text)).must(t) {
		subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
		for _, subject := range subjects {
			if subject.(map[string]any)["namespace"] == metav1.NamespaceSystem {
				return true
			}
		}
	}
	return false
}

// TestDocuments_TriesOfTheRecoverJob compares what the page on restores says with the Job.
func TestDocuments_TriesOfTheRecoverJob(t *testing.T) {
	t.Parallel()
	job := objectIn[batchv1.Job](t, "../deploy/recover-job/job.yaml", "Job")
	words := map[int32]string{1: "once", 2: "twice", 3: "three times", 4: "four times", 5: "five times", 6: "six times"}
	contains(t, "docs/operate/restore.md", pages(t)["docs/operate/restore.md"],
		"tried again, at most "+words[*job.Spec.BackoffLimit]+",")
}
