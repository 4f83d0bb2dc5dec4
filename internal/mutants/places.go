package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// places are where the module declares what mutants name, so that moving a function or a test moves nothing here.
type places struct {
	declared map[string][]place  // by name, a method as "Type.method"
	tests    map[string][]string // folders by name
}

// place is a part of a file of the product.
type place struct {
	folder, file string
	source       []byte // the whole file
	begin, end   int    // of the part
}

// findPlaces reads all packages of the module in root. A nested module, testdata and hidden folders are left out.
func findPlaces(root string) (*places, error) {
	p := &places{map[string][]place{}, map[string][]string{}}
	return p, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, errOfModule := os.Stat(filepath.Join(path, "go.mod"))
			isOther := path != root && (errOfModule == nil || d.Name() == "testdata" || strings.HasPrefix(d.Name(), "."))
			if isOther {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		return p.add(path, filepath.ToSlash(folder))
	})
}

func (p *places) add(path, folder string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	isTest := strings.HasSuffix(path, "_test.go")
	for name, node := range declarations(file) {
		switch at := set.Position; {
		case !isTest:
			p.declared[name] = append(p.declared[name],
				place{folder, path, text, at(node.Pos()).Offset, at(node.End()).Offset})
		case strings.HasPrefix(name, "Test"):
			p.tests[name] = append(p.tests[name], folder)
		}
	}
	return nil
}

// locate finds the only declaration of a mutant that has Old, and the package with all of its tests: that of the
// declaration, or the only other one.
func (p *places) locate(m *Mutant) error {
	var found []place
	for _, d := range p.declared[m.Decl] {
		if begin, end, err := once(string(d.source[d.begin:d.end]), m.Old); err == nil {
			d.begin, d.end = d.begin+begin, d.begin+end
			found = append(found, d)
		}
	}
	if len(found) != 1 {
		return fmt.Errorf("mutant %q: %d of %d declarations of %s have its code once", m.Fault, len(found),
			len(p.declared[m.Decl]), m.Decl)
	}
	m.place = found[0]
	var in []string
	for i, name := range m.tests() {
		if i == 0 {
			in = slices.Clone(p.tests[name])
		}
		in = slices.DeleteFunc(in, func(folder string) bool { return !slices.Contains(p.tests[name], folder) })
	}
	switch {
	case slices.Contains(in, m.folder):
		m.testsIn = m.folder
	case len(in) == 1:
		m.testsIn = in[0]
	default:
		return fmt.Errorf("mutant %q: %d packages have the tests %s: %v", m.Fault, len(in), m.Tests, in)
	}
	return nil
}

// declarations are the functions, variables and constants of a file, by name.
func declarations(f *ast.File) map[string]ast.Node {
	all := map[string]ast.Node{}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			all[declaredName(d)] = d
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if v, ok := s.(*ast.ValueSpec); ok {
					all[v.Names[0].Name] = v
				}
			}
		}
	}
	return all
}
