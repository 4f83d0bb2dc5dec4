// Package documenttest checks in tests that documents are what the published schema says.
package viewtest

import (
	"encoding/json"
	"os"

	"github.com/google/jsonschema-go/jsonschema"
)

// StrictSchemas reads docs/reference/schema/output-v1.json below the root of the repository: the schemas by kind, in
// which unknown fields are errors.
func StrictSchemas(root string) (map[string]*jsonschema.Resolved, error) {
	text, err := os.ReadFile(root + "/docs/reference/schema/output-v1.json")
	if err != nil {
		return nil, err
	}
	var all jsonschema.Schema
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	found := map[string]*jsonschema.Resolved{}
	for kind, s := range all.Defs {
		forbidUnknownFields(s)
		if found[kind], err = s.Resolve(nil); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func forbidUnknownFields(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if len(s.Properties) > 0 {
		s.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}}
	}
	for _, p := range s.Properties {
		forbidUnknownFields(p)
	}
	for _, p := range s.AnyOf {
		forbidUnknownFields(p)
	}
	forbidUnknownFields(s.Items)
}
