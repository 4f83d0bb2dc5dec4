package view

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/ip-reconcile/ip-reconcile/reconciler/audit"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// kinds are the documents by their kind.
func kinds() map[string]reflect.Type {
	return map[string]reflect.Type{
		KindCheck: reflect.TypeFor[CheckReport](), KindRun: reflect.TypeFor[RunReport](),
		KindExplanation: reflect.TypeFor[ExplainReport](),
		KindRecovery:    reflect.TypeFor[RecoverReport](), KindStatus: reflect.TypeFor[StatusReport](),
		KindPools: reflect.TypeFor[PoolsReport](), KindPool: reflect.TypeFor[PoolReport](),
		KindPoolCheck: reflect.TypeFor[PoolCheck](), KindComparison: reflect.TypeFor[Comparison](),
		KindPlan: reflect.TypeFor[Plan](), KindAddresses: reflect.TypeFor[AddressReport](),
		KindSysdump: reflect.TypeFor[Sysdump](), KindWords: reflect.TypeFor[WordReport](),
		KindExplanations: reflect.TypeFor[ExplainReports](),
		KindHistory:      reflect.TypeFor[HistoryReport](),
		KindRetirement:   reflect.TypeFor[RetireReport](),
	}
}

// schema is that of all documents.
func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	root := &jsonschema.Schema{Schema: "https://json-schema.org/draft/2020-12/schema",
		ID:    "https://ip-reconcile.dev/schema/output-v1.json",
		Title: "What ip-reconcile prints with -o json and -o yaml", Defs: map[string]*jsonschema.Schema{}}
	opts := wordSchemas()
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

// wordSchemas are the schemas of types that are printed as words.
func wordSchemas() *jsonschema.ForOptions {
	word := &jsonschema.Schema{Type: "string"}
	return &jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[judge.Verdict](): {Type: "string", Enum: []any{"InUse", "Held",
			"Stale"}}, reflect.TypeFor[judge.Reason](): word,
		reflect.TypeFor[Level](): {Type: "string", Enum: []any{"OK", "Warning", "Error", "Unknown"}},
		reflect.TypeFor[Count](): {Types: []string{"integer", "string"}},
	}}
}

// open is the schema of a type, to which later versions may add fields. A list is never
// null.
func open(t *testing.T, opts *jsonschema.ForOptions, d describer, of reflect.Type) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.ForType(of, opts)
	check(t, err)
	d.describe(s, of)
	each(s, func(s *jsonschema.Schema) {
		if len(s.Properties) > 0 {
			s.AdditionalProperties = nil
		}
		if slices.Equal(s.Types, []string{"null", "array"}) {
			s.Type, s.Types = "array", nil
		}
		if slices.Equal(s.Types, []string{"null", "string"}) { // a pointer to a time, which may be absent
			s.Type, s.Types = "string", nil
		}
	})
	return s
}

// each calls f for a schema and all that are part of it.
func each(s *jsonschema.Schema, f func(*jsonschema.Schema)) {
	if s == nil {
		return
	}
	f(s)
	each(s.Items, f)
	for _, p := range s.Properties {
		each(p, f)
	}
}

// The files in docs/reference/schema are written by this test where UPDATE_DOCS is set, as 'make generate' does. Their
// diff shows what a change breaks.
func TestSchema_Docs(t *testing.T) {
	record := open(t, wordSchemas(), newDescriber(t), reflect.TypeFor[audit.Record]())
	record.Schema = "https://json-schema.org/draft/2020-12/schema"
	record.ID = "https://ip-reconcile.dev/schema/audit-v1.json"
	record.Title = "A line of --audit-log"
	for name, s := range map[string]*jsonschema.Schema{"output-v1.json": schema(t), "audit-v1.json": record} {
		text, err := json.MarshalIndent(s, "", "  ")
		check(t, err)
		text = append(text, '\n')
		file := filepath.Join("../../../docs/reference/schema", name)
		if os.Getenv("UPDATE_DOCS") != "" {
			check(t, os.WriteFile(file, text, 0o644))
			continue
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != string(text) {
			t.Errorf("docs/reference/schema/%s is not what is printed (%v): run 'make generate'", name, err)
		}
	}
}
