package screen

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// A screen is made of documents alone: text cannot say what JSON does not know.
func TestScreen_ReadsOnlyDocuments(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 5 {
		t.Fatalf("%q: %v", files, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			if path, _ := strconv.Unquote(i.Path.Value); strings.Contains(path, "/ip-reconcile/reconciler") {
				t.Errorf("%s imports %s", file, path)
			}
		}
	}
}

func TestLegend_KnowsTheStates(t *testing.T) {
	known := map[string]bool{}
	for state := judge.Ready; state <= judge.NoSource; state++ {
		known[state.String()] = true
	}
	for _, w := range sandboxWords {
		if !known[w.state] {
			t.Errorf("no sandbox is %s", w.state)
		}
		delete(known, w.state)
	}
	if len(known) > 0 {
		t.Errorf("the legend lacks %v", known)
	}
}
