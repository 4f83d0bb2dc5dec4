package cnicache

import (
	"encoding/base64"
	"encoding/json"
	"strings"
)

const whereabouts = "whereabouts"

// mentions reports whether whereabouts is mentioned anywhere in JSON: in a key, a
// string, or in JSON that is embedded as base64, as both caches embed configs.
func mentions(data []byte) bool {
	if mentionedIn(string(data)) {
		return true
	}
	var v any
	return json.Unmarshal(data, &v) == nil && mentionedBy(v)
}

func mentionedBy(v any) bool {
	switch v := v.(type) {
	case string:
		if mentionedIn(v) {
			return true
		}
		if base64.StdEncoding.DecodedLen(len(v)) < len(whereabouts) {
			return false
		}
		inner, err := base64.StdEncoding.DecodeString(v)
		return err == nil && mentions(inner)
	case []any:
		for _, e := range v {
			if mentionedBy(e) {
				return true
			}
		}
	case map[string]any:
		for k, e := range v {
			if mentionedIn(k) || mentionedBy(e) {
				return true
			}
		}
	}
	return false
}

func mentionedIn(text string) bool { return strings.Contains(strings.ToLower(text), whereabouts) }
