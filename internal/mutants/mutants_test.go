package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

func TestEachMutantIsMadeOfTextThatIsThereOnce(t *testing.T) {
	faults := map[string]bool{}
	for _, a := range areas() {
		for i := range a.Mutants {
			m := &a.Mutants[i]
			if faults[m.Fault] {
				t.Errorf("two mutants are called %q", m.Fault)
			}
			faults[m.Fault] = true
			text, err := m.mutated(root)
			if err != nil {
				t.Error(err)
				continue
			}
			if _, err := parser.ParseFile(token.NewFileSet(), m.File, text, parser.SkipObjectResolution); err != nil {
				t.Errorf("mutant %q is no Go source: %v", m.Fault, err)
			}
		}
	}
	if len(faults) == 0 {
		t.Error("there are no mutants")
	}
}

func TestTheTestsThatAreToCatchMutantsAreThere(t *testing.T) {
	known := map[string]map[string]bool{}
	for _, a := range areas() {
		for i := range a.Mutants {
			m := &a.Mutants[i]
			folder := m.testFolder()
			if known[folder] == nil {
				known[folder] = testsIn(t, filepath.Join(root, folder))
			}
			for _, name := range m.tests() {
				if !known[folder][name] {
					t.Errorf("mutant %q: there is no %s in %s", m.Fault, name, folder)
				}
			}
		}
	}
}

// testsIn are the names of the tests in a folder.
func testsIn(t *testing.T, folder string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	packages, err := parser.ParseDir(token.NewFileSet(), folder, func(f fs.FileInfo) bool { return strings.HasSuffix(f.Name(), "_test.go") }, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packages {
		for _, f := range p.Files {
			for _, d := range f.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
					names[f.Name.Name] = true
				}
			}
		}
	}
	return names
}

func TestThePageIsOfTheMutantsThatThereAre(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != table(areas()) {
		t.Errorf("%s is of another list: 'make mutants' writes it, once all are caught", page)
	}
}
