package document

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

const schemaFile = "../../../docs/schema/output-v1.json"

// kinds are the documents by their kind.
func kinds() map[string]reflect.Type {
	return map[string]reflect.Type{
		KindCheck: reflect.TypeFor[Check](), KindRun: reflect.TypeFor[Run](), KindExplanation: reflect.TypeFor[Explanation](),
		KindRecovery: reflect.TypeFor[Recovery](), KindStatus: reflect.TypeFor[Status](),
		KindPools: reflect.TypeFor[PoolList](), KindPool: reflect.TypeFor[PoolDetails](),
	}
}

// schema is that of all documents.
func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	root := &jsonschema.Schema{Schema: "https://json-schema.org/draft/2020-12/schema", ID: "https://ip-reconcile.dev/schema/output-v1.json",
		Title: "What ip-reconcile prints with -o json and -o yaml", Defs: map[string]*jsonschema.Schema{}}
	word := &jsonschema.Schema{Type: "string"}
	opts := &jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[judge.Verdict](): {Type: "string", Enum: []any{"InUse", "Held", "Stale"}}, reflect.TypeFor[judge.Reason](): word,
		reflect.TypeFor[Level](): {Type: "string", Enum: []any{"OK", "Warning", "Error", "Unknown"}},
		reflect.TypeFor[Count](): {Types: []string{"integer", "string"}},
	}}
	describe := newDescriber(t)
	item := &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
		open(t, opts, describe, reflect.TypeFor[AllocationRow]()), open(t, opts, describe, reflect.TypeFor[ReservationRow]()),
	}}
	for kind, of := range kinds() {
		s := open(t, opts, describe, of)
		s.Properties["apiVersion"].Const = jsonschema.Ptr[any](APIVersion)
		s.Properties["kind"].Const = jsonschema.Ptr[any](kind)
		for _, list := range []string{"released", "failed"} {
			if s.Properties[list] != nil {
				s.Properties[list].Items = item
			}
		}
		root.Defs[kind] = s
		root.OneOf = append(root.OneOf, &jsonschema.Schema{Ref: "#/$defs/" + kind})
	}
	slices.SortFunc(root.OneOf, func(a, b *jsonschema.Schema) int { return strings.Compare(a.Ref, b.Ref) })
	return root
}

// open is the schema of a type, to which later versions may add fields. A list is never
// null.
func open(t *testing.T, opts *jsonschema.ForOptions, d describer, of reflect.Type) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.ForType(of, opts)
	if err != nil {
		t.Fatal(err)
	}
	d.describe(s, of)
	each("", s, func(_ string, s *jsonschema.Schema) {
		if len(s.Properties) > 0 {
			s.AdditionalProperties = nil
		}
		if slices.Equal(s.Types, []string{"null", "array"}) {
			s.Type, s.Types = "array", nil
		}
		if slices.Equal(s.Types, []string{"null", "string"}) { // a pointer to a time, which is left out
			s.Type, s.Types = "string", nil
		}
	})
	return s
}

// each calls f for a schema and all that are part of it.
func each(path string, s *jsonschema.Schema, f func(path string, s *jsonschema.Schema)) {
	if s == nil {
		return
	}
	f(path, s)
	for name, p := range s.Properties {
		each(path+"."+name, p, f)
	}
	for name, p := range s.Defs {
		each(path+"/"+name, p, f)
	}
	each(path+"[]", s.Items, f)
	for i, p := range s.AnyOf {
		each(fmt.Sprintf("%s<%d>", path, i), p, f)
	}
}

// breaks lists what programs that rely on the old schema could not rely on with the new one.
func breaks(before, after *jsonschema.Schema) (broken []string) {
	now := map[string]*jsonschema.Schema{}
	each("", after, func(path string, s *jsonschema.Schema) { now[path] = s })
	each("", before, func(path string, old *jsonschema.Schema) {
		s := now[path]
		switch {
		case s == nil:
			broken = append(broken, path+" is gone")
			return
		case s.Type != old.Type || !slices.Equal(s.Types, old.Types):
			broken = append(broken, fmt.Sprintf("%s was a %s%s and is a %s%s", path, old.Type, old.Types, s.Type, s.Types))
		case fmt.Sprint(s.Enum) != fmt.Sprint(old.Enum):
			broken = append(broken, fmt.Sprintf("%s was one of %v and is one of %v", path, old.Enum, s.Enum))
		case (s.Const == nil) != (old.Const == nil) || s.Const != nil && *s.Const != *old.Const:
			broken = append(broken, path+" has another constant")
		}
		for _, name := range old.Required {
			if !slices.Contains(s.Required, name) {
				broken = append(broken, path+"."+name+" may be missing")
			}
		}
	})
	slices.Sort(broken)
	return broken
}

// docs/schema/output-v1.json is written by this test where UPDATE_DOCS is set, as 'make
// generate' does; not if that would break what programs rely on.
func TestThePublishedSchemaIsThatOfTheDocuments(t *testing.T) {
	want := schema(t)
	text, err := json.MarshalIndent(want, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	got, err := os.ReadFile(schemaFile)
	if err == nil {
		published := &jsonschema.Schema{}
		if err := json.Unmarshal(got, published); err != nil {
			t.Fatal(err)
		}
		if broken := breaks(published, want); len(broken) > 0 {
			t.Fatalf("this breaks the contract of %s, of which scripts are sure; add fields instead, or make a new apiVersion:\n%s", APIVersion, strings.Join(broken, "\n"))
		}
	}
	if os.Getenv("UPDATE_DOCS") != "" {
		if err := os.WriteFile(schemaFile, text, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(got) != string(text) {
		t.Error("docs/schema/output-v1.json is not what the documents are: run 'make generate'")
	}
}

func TestAChangeThatBreaksTheSchemaIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		change func(allocation *jsonschema.Schema)
		want   string
	}{
		"a field is renamed":      {func(s *jsonschema.Schema) { delete(s.Properties, "podRef") }, ".podRef is gone"},
		"a number becomes a text": {func(s *jsonschema.Schema) { s.Properties["proven"] = &jsonschema.Schema{Type: "string"} }, ".proven was a boolean"},
		"a field may be missing": {func(s *jsonschema.Schema) {
			s.Required = slices.DeleteFunc(slices.Clone(s.Required), func(n string) bool { return n == "ip" })
		}, ".ip may be missing"},
		"a verdict more": {func(s *jsonschema.Schema) {
			s.Properties["verdict"].Enum = append(s.Properties["verdict"].Enum, "Unknown")
		}, ".verdict was one of"},
		"another kind": {func(s *jsonschema.Schema) { s.Properties["ip"].Const = jsonschema.Ptr[any]("x") }, ".ip has another constant"},
		"a field more": {func(s *jsonschema.Schema) { s.Properties["new"] = &jsonschema.Schema{Type: "string"} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			changed := schema(t)
			c.change(changed.Defs[KindCheck].Properties["allocations"].Items)
			got := strings.Join(breaks(schema(t), changed), "\n")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
}
