package style

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	fence   = regexp.MustCompile("(?ms)^```.*?^```$")
)

// anchors are those that GitHub makes of the headings of a page.
func anchors(page string) (all []string) {
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(page, ""), -1) {
		text := link.ReplaceAllString(strings.ToLower(m[1]), "")
		all = append(all, strings.ReplaceAll(regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(text, ""), " ", "-"))
	}
	return all
}

// markdown are the pages of the repository, by path.
func markdown(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{}
	err := fs.WalkDir(os.DirFS(root), ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(file) != ".md" {
			return err
		}
		text, err := os.ReadFile(filepath.Join(root, file))
		pages[file] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// Each relative link of a page leads to a file of the repository, and its anchor to a heading there.
func TestDocs_LinksResolve(t *testing.T) {
	pages, n := markdown(t), 0
	for file, text := range pages {
		for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			n++
			to, anchor, _ := strings.Cut(m[1], "#")
			target := file
			if to != "" {
				target = path.Join(path.Dir(file), to)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s, which does not exist", file, m[1])
			}
			if anchor != "" && !slices.Contains(anchors(pages[target]), anchor) {
				t.Errorf("%s links to %s, and %s has no such heading", file, m[1], target)
			}
		}
	}
	if n < 100 {
		t.Errorf("the pages have only %d relative links", n)
	}
}

// Code that names a page by its URL names one that exists.
func TestDocs_LinksOfTheCodeResolve(t *testing.T) {
	pages := markdown(t)
	url := regexp.MustCompile(`blob/main/(docs/[a-z0-9/-]+\.md)(?:#([a-z0-9-]+))?`)
	for _, folder := range []string{"internal", "reconciler", "deploy", "cmd", "agent"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(file)
			for _, m := range url.FindAllStringSubmatch(string(text), -1) {
				page, known := pages[m[1]]
				if !known || m[2] != "" && !slices.Contains(anchors(page), m[2]) {
					t.Errorf("%s names %s, which does not exist", file, m[0])
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
