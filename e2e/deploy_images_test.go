//go:build !slow && !cluster

package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestDeploy_ImagesAreThoseOfThePage compares the images of everything that the repository installs with the list for
// installations without internet.
func TestDeploy_ImagesAreThoseOfThePage(t *testing.T) {
	t.Parallel()
	page := strings.ReplaceAll(string(try(os.ReadFile("../docs/install/README.md")).must(t)), "\n", " ")
	listed := regexp.MustCompile(`\*\*Without internet\.\*\* (.*?) No other image`).FindStringSubmatch(page)
	if listed == nil {
		t.Fatal("the page has no list of images")
	}
	image := regexp.MustCompile(`example\.com/[a-z-]+:[0-9.]+[0-9]`)
	list := image.FindAllString(listed[1], -1)
	equal(t, "the list", list, []string{"example.com/ip-reconcile:0.1.0", "example.com/ip-reconcile-drop-in:0.1.0"})

	forms := map[string][]*unstructured.Unstructured{}
	for _, r := range renderings {
		if !strings.Contains(r.values, "image: {") && !strings.Contains(r.values, "image: \"") {
			forms[r.values] = append(try(helm("addresses", r.values)).must(t),
				helmTests(t, "v1.36.3", metav1.NamespaceSystem, r.values)...)
		}
	}
	check(t, fs.WalkDir(os.DirFS("../deploy"), ".", func(path string, d fs.DirEntry, err error) error {
		folder := filepath.Join("../deploy", filepath.Dir(path))
		if err != nil || d.Name() != "kustomization.yaml" ||
			strings.Contains(string(try(os.ReadFile(filepath.Join("../deploy", path))).must(t)), "kind: Component") {
			return err
		}
		forms[folder] = kustomized(t, folder)
		return nil
	}))
	n := 0
	for form, objects := range forms {
		for _, o := range objects {
			for _, found := range imagesIn(o.Object) {
				n++
				equal(t, "the image of "+o.GetKind()+" "+o.GetName()+" of "+form, found, productImage)
			}
		}
	}
	if len(forms) < 50 || n < 80 {
		t.Errorf("%d forms with %d images: some are missing", len(forms), n)
	}
	for path, text := range pages(t) {
		for _, found := range image.FindAllString(text, -1) {
			if !slices.Contains(list, found) {
				t.Errorf("%s names %s, which the list lacks", path, found)
			}
		}
	}
}

// imagesIn are the images of containers, wherever they are in an object.
func imagesIn(value any) (all []string) {
	switch v := value.(type) {
	case []any:
		for _, e := range v {
			all = append(all, imagesIn(e)...)
		}
	case map[string]any:
		for key, e := range v {
			if text, ok := e.(string); ok && key == "image" {
				all = append(all, text)
			}
			all = append(all, imagesIn(e)...)
		}
	}
	return all
}
