package style

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

const (
	root    = "../.."
	columns = 120
)

// source is a Go file of the repository. Its path is relative to the root, with slashes.
type source struct {
	path    string
	text    []byte
	file    *ast.File
	fset    *token.FileSet
	product bool
}

// at is the place of a position, as editors read it.
func (s *source) at(pos token.Pos) string {
	return fmt.Sprintf("%s:%d", s.path, s.fset.Position(pos).Line)
}

var tests = regexp.MustCompile(`_test\.go$|^e2e/|/judgetest/|/critest/|^internal/mutants/`)

func sources(t *testing.T) (all []*source) {
	t.Helper()
	fset := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "testdata" || name == "bin" || strings.HasPrefix(name, ".") && path != root):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasPrefix(name, "zz_generated"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		relative = filepath.ToSlash(relative)
		all = append(all, &source{relative, text, file, fset, !tests.MatchString(relative)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// defects collects what a check finds, but for what is excepted.
type defects struct {
	t    *testing.T
	list []exception
	used map[exception]bool
}

// check runs a check on all sources and fails where an exception is not needed.
func check(t *testing.T, exceptions []exception, one func(s *source, found func(place, text string))) {
	t.Helper()
	d := &defects{t, exceptions, map[exception]bool{}}
	for _, s := range sources(t) {
		one(s, func(place, text string) { d.found(s, place, text) })
	}
	for _, e := range exceptions {
		if !d.used[e] {
			t.Errorf("the exception %q of %s is not needed", e.text, e.path)
		}
	}
}

func (d *defects) found(s *source, place, text string) {
	for _, e := range d.list {
		if (s.path == e.path || strings.HasSuffix(e.path, "/") && strings.HasPrefix(s.path, e.path)) &&
			strings.Contains(text, e.text) {
			d.used[e] = true
			return
		}
	}
	d.t.Errorf("%s: %s", place, text)
}

func TestLines_Width(t *testing.T) {
	check(t, wide, func(s *source, found func(place, text string)) {
		for i, line := range bytes.Split(s.text, []byte("\n")) {
			if n := utf8.RuneCount(line); n > columns {
				found(fmt.Sprintf("%s:%d", s.path, i+1), fmt.Sprintf("%d columns: %s", n, bytes.TrimSpace(line)))
			}
		}
	})
}

func TestDocComments_BeginWithTheName(t *testing.T) {
	check(t, undocumented, func(s *source, found func(place, text string)) {
		if !s.product {
			return
		}
		named := func(doc *ast.CommentGroup, names ...*ast.Ident) {
			text := strings.TrimSpace(doc.Text())
			if text == "" {
				return
			}
			for _, article := range []string{"A ", "An ", "The "} {
				text = strings.TrimPrefix(text, article)
			}
			first := word.FindString(text)
			if !slices.ContainsFunc(names, func(n *ast.Ident) bool { return n.Name == first }) {
				found(s.at(doc.Pos()), fmt.Sprintf("the comment of %s begins with %q", names[0].Name, first))
			}
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				named(d.Doc, d.Name)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					var doc *ast.CommentGroup
					if !d.Lparen.IsValid() {
						doc = d.Doc
					}
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						named(firstNotNil(spec.Doc, doc), spec.Name)
					case *ast.ValueSpec:
						named(firstNotNil(spec.Doc, doc), spec.Names...)
					}
				}
			}
		}
	})
}

func firstNotNil(a, b *ast.CommentGroup) *ast.CommentGroup {
	if a != nil {
		return a
	}
	return b
}

var (
	word   = regexp.MustCompile(`^\w+`)
	dotted = regexp.MustCompile(`[A-Za-z]\w*(\.[A-Z]\w*)+|\b\w*[a-z][A-Z]\w*\b`)
	words  = regexp.MustCompile(`\w+`)
	// foreign is in a comment that cites the source of another project, whose names nothing here knows.
	foreign = regexp.MustCompile(`\bv\d+\.\d+|\.go\b|libcni`)
)

// A name in a comment exists if the repository or a package that the file imports has that word in its code.
func TestComments_NameWhatExists(t *testing.T) {
	known := map[string]bool{}              // words in code and literals of the repository
	declared := map[string]bool{}           // package.Name of the repository
	packages := map[string]bool{}           // names of its packages
	imports := map[string]map[string]bool{} // the words of imported packages, read when a name is not known
	for _, s := range sources(t) {
		packages[s.file.Name.Name] = true
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				known[n.Name] = true
				declared[s.file.Name.Name+"."+n.Name] = true
			case *ast.BasicLit:
				for _, w := range words.FindAllString(n.Value, -1) {
					known[w] = true
				}
			}
			return true
		})
	}
	folders := importFolders(t)
	check(t, nil, func(s *source, found func(place, text string)) {
		if !s.product {
			return
		}
		imported := func(name string) bool {
			for _, i := range s.file.Imports {
				pkg, _ := strconv.Unquote(i.Path.Value)
				if imports[pkg] == nil {
					imports[pkg] = wordsIn(t, filepath.Join(folders[pkg], "*.go"))
				}
				if imports[pkg][name] {
					return true
				}
			}
			return false
		}
		exists := func(name string) bool { return known[name] || imported(name) }
		for _, group := range s.file.Comments {
			if foreign.MatchString(group.Text()) {
				continue
			}
			for _, c := range group.List {
				if strings.HasPrefix(c.Text, "//go:") || strings.HasPrefix(c.Text, "// +") {
					continue
				}
				for _, name := range dotted.FindAllString(c.Text, -1) {
					parts := strings.Split(name, ".")
					ok := len(parts) < 2 || !packages[parts[0]] || declared[parts[0]+"."+parts[1]]
					for i, p := range parts {
						lower := i == 0 && len(parts) > 1 && unicode.IsLower(rune(p[0])) // a package or a variable
						ok = ok && (lower || exists(p) || exists(strings.TrimSuffix(p, "s")))
					}
					if !ok {
						found(s.at(c.Pos()), name+" exists nowhere")
					}
				}
			}
		}
	})
}

// importFolders are the folders of everything that the root module imports.
func importFolders(t *testing.T) map[string]string {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-f", "{{.ImportPath}}\t{{.Dir}}", "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	folders := map[string]string{}
	for line := range strings.Lines(string(out)) {
		pkg, folder, _ := strings.Cut(strings.TrimSpace(line), "\t")
		folders[pkg] = folder
	}
	return folders
}

// wordsIn are the words in the files that match a pattern.
func wordsIn(t *testing.T, patterns ...string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range words.FindAll(text, -1) {
				all[string(w)] = true
			}
		}
	}
	return all
}

// levels are the methods and functions of slog that log, and which argument is the message.
var levels = map[string]int{
	"Debug": 0, "Info": 0, "Warn": 0, "Error": 0,
	"DebugContext": 1, "InfoContext": 1, "WarnContext": 1, "ErrorContext": 1, "Log": 2, "LogAttrs": 2,
}

func TestLogMessages_ConstantAndCapitalized(t *testing.T) {
	check(t, messages, func(s *source, found func(place, text string)) {
		slog := func(i *ast.ImportSpec) bool { return i.Path.Value == `"log/slog"` }
		if !s.product || !slices.ContainsFunc(s.file.Imports, slog) {
			return
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			i, ok := levels[method.Sel.Name]
			if !ok || len(call.Args) <= i {
				return true
			}
			literal, ok := call.Args[i].(*ast.BasicLit)
			if !ok {
				found(s.at(call.Pos()), "the message of "+method.Sel.Name+" is not constant")
				return true
			}
			message, _ := strconv.Unquote(literal.Value)
			if first, _ := utf8.DecodeRuneInString(message); !unicode.IsUpper(first) || strings.HasSuffix(message, ".") {
				found(s.at(call.Pos()), fmt.Sprintf("the message %q begins without a capital or ends with a full stop", message))
			}
			return true
		})
	})
}
