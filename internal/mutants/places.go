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

// place is a part of the body of a function of the product.
type place struct {
	folder, file    string
	pkg             string // its package clause
	source          []byte // the whole file
	begin, end      int    // of the part
	body, endOfBody int    // between the braces
	results         string // of the function, as its signature has them
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
	for _, d := range file.Decls {
		f, isFunc := d.(*ast.FuncDecl)
		if !isFunc || f.Body == nil {
			continue
		}
		switch name, at := declaredName(f), func(p token.Pos) int { return set.Position(p).Offset }; {
		case !isTest:
			body, end, results := at(f.Body.Lbrace)+1, at(f.Body.Rbrace), ""
			if f.Type.Results != nil {
				results = string(text[at(f.Type.Results.Pos()):at(f.Type.Results.End())])
			}
			p.declared[name] = append(p.declared[name], place{folder, path, file.Name.Name, text, body, end, body, end, results})
		case strings.HasPrefix(name, "Test"):
			p.tests[name] = append(p.tests[name], folder)
		}
	}
	return nil
}

// locate finds the only function of a mutant that has Old, and the package with all of its tests: that of the
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
