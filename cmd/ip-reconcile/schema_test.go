package main

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"sigs.k8s.io/yaml"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/view/viewtest"
)

// valid checks a document that a command printed against the published schema: it has what
// the schema requires, and nothing that the schema does not know.
func valid(t *testing.T, args []string, out string) {
	t.Helper()
	i := slices.Index(args, "-o")
	if i < 0 || i+1 == len(args) || args[i+1] != "json" && args[i+1] != "yaml" {
		return
	}
	text, err := yaml.YAMLToJSON([]byte(out))
	if err != nil {
		t.Fatalf("%v prints no %s: %v", args, args[i+1], err)
	}
	var document map[string]any
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatalf("%v prints no object: %v", args, err)
	}
	kind, _ := document["kind"].(string)
	if err := strictSchema(t, kind).Validate(document); err != nil {
		t.Errorf("%v prints what is not in docs/reference/schema/output-v1.json: %v", args, err)
	}
}

// strictSchema is the published schema of a kind, by which unknown fields are errors.
func strictSchema(t *testing.T, kind string) *jsonschema.Resolved {
	t.Helper()
	schemas, err := strictSchemas()
	check(t, err)
	if schemas[kind] == nil {
		t.Fatalf("the schema has no kind %q", kind)
	}
	return schemas[kind]
}

// strictSchemas reads them once: every document of every test is checked.
var strictSchemas = sync.OnceValues(func() (map[string]*jsonschema.Resolved, error) {
	return viewtest.StrictSchemas("../..")
})

func TestSchema_EveryDocument(t *testing.T) {
	for _, command := range []string{"check --all", "run --dry-run --repair", "release 10.0.0.20 10.0.0.7",
		"run --dry-run --proven-only", "pools 10.0.0.0-24"} {
		args := append(strings.Fields(command), "--snapshot", sample, "-o", "json")
		if code, _, errs := run(t, args...); code == exitFailed { // run checks what is printed
			t.Errorf("%v: %s", args, errs)
		}
	}
}
