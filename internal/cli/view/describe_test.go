package view

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"reflect"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

// describer has the comments on the fields of structs, by "<type>.<field>", for the
// descriptions in the schema.
type describer map[string]string

// newDescriber reads the packages whose types are printed.
func newDescriber(t *testing.T) describer {
	t.Helper()
	d := describer{}
	for _, dir := range []string{".", "../../../reconciler", "../../../reconciler/facts", "../../../reconciler/judge",
		"../../../reconciler/findings", "../../../reconciler/plan",
		"../../../reconciler/audit", "../../../reconciler/snapshot"} {
		packages, err := parser.ParseDir(token.NewFileSet(), dir, func(f fs.FileInfo) bool {
			return !strings.HasSuffix(f.Name(), "_test.go")
		}, parser.ParseComments) //nolint:staticcheck // build tags decide nothing here
		check(t, err)
		for _, p := range packages {
			for _, typ := range doc.New(p, dir, doc.AllDecls).Types {
				d.read(typ)
			}
		}
	}
	return d
}

func (d describer) read(typ *doc.Type) {
	for _, spec := range typ.Decl.Specs {
		s, ok := spec.(*ast.TypeSpec).Type.(*ast.StructType)
		if !ok {
			continue
		}
		for _, f := range s.Fields.List {
			text := strings.Join(strings.Fields(f.Doc.Text()+f.Comment.Text()), " ")
			for _, name := range f.Names {
				d[typ.Name+"."+name.Name] = text
			}
		}
	}
}

// describe gives the properties of a type's schema their comments.
func (d describer) describe(s *jsonschema.Schema, t reflect.Type) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		if t.Kind() == reflect.Slice && s != nil {
			s = s.Items
		}
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || s == nil {
		return
	}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		p := s.Properties[name]
		if f.Anonymous || p == nil {
			continue
		}
		owner := t
		for _, i := range f.Index[:len(f.Index)-1] { // the struct in which it was written
			if owner = owner.Field(i).Type; owner.Kind() == reflect.Pointer {
				owner = owner.Elem()
			}
		}
		p.Description = d[owner.Name()+"."+f.Name]
		d.describe(p, f.Type)
	}
}
