package e2e

import (
	"encoding/json"
	"os"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
)

// publishedSchemas are the schemas of the documents by their kind, by which fields that
// they do not know are errors.
var publishedSchemas = sync.OnceValues(func() (map[string]*jsonschema.Resolved, error) {
	text, err := os.ReadFile("../docs/schema/output-v1.json")
	if err != nil {
		return nil, err
	}
	var all jsonschema.Schema
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	found := map[string]*jsonschema.Resolved{}
	for kind, s := range all.Defs {
		onlyKnownFields(s)
		if found[kind], err = s.Resolve(nil); err != nil {
			return nil, err
		}
	}
	return found, nil
})

func onlyKnownFields(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if len(s.Properties) > 0 {
		s.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}}
	}
	for _, p := range s.Properties {
		onlyKnownFields(p)
	}
	for _, p := range s.AnyOf {
		onlyKnownFields(p)
	}
	onlyKnownFields(s.Items)
}
