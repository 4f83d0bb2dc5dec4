package judge_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A threat model whose tests are gone is a claim.
func TestEveryTestThatTheThreatModelNamesIsThere(t *testing.T) {
	const root = "../.."
	doc, err := os.ReadFile(filepath.Join(root, "docs/threat-model.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+`).FindAllString(string(doc), -1)
	if len(named) < 50 {
		t.Fatalf("it names %d tests", len(named))
	}
	there := testsUnder(t, root)
	for _, name := range sortedUnique(named) {
		if !there[name] {
			t.Errorf("it names %s, and there is no such test", name)
		}
	}
}

// testsUnder are the names of all tests in a folder, whatever their build tags.
func testsUnder(t *testing.T, root string) map[string]bool {
	there, declaration := map[string]bool{}, regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declaration.FindAllSubmatch(text, -1) {
			there[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return there
}

func sortedUnique(names []string) []string {
	unique := map[string]bool{}
	for _, name := range names {
		unique[name] = true
	}
	return keysOf(unique)
}
