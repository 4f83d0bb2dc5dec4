package cri

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzParseInfo parses any verbose info. The path and the state must be values in the text, and are unknown if it
// is not JSON.
func FuzzParseInfo(f *testing.F) {
	for _, text := range []string{
		`{"netNamespaceClosed":true,"runtimeSpec":{"linux":{"namespaces":[{"type":"pid"},{"type":"network",` +
			`"path":"/run/netns/a"}]}},"config":{"envs":[{"key":"TOKEN","value":"secret"}]}}`,
		`{"runtimeSpec":{"linux":{"namespaces":null}}}`, `{"netNamespaceClosed":"no"}`, `{"runtimeSpec":[]}`, `[]`, `null`,
		``, `{"netNamespaceClosed":false} x`,
		`{"NETNAMESPACECLOSED":true}`, strings.Repeat(`{"runtimeSpec":`,
			11000), `{"runtimeSpec":{"linux":{"namespaces":[{"type":"network"},{"type":"network","path":"b"}]}}}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d := parseInfo(text)
		if !json.Valid([]byte(text)) && d != (Detail{}) {
			t.Fatalf("%+v of what is not JSON: %q", d, text)
		}
		if d.Network != "" {
			t.Fatalf("%q sets the network mode", text)
		}
		var whole any
		_ = json.Unmarshal([]byte(text), &whole)
		if d.NetNS != "" && !contains(whole, func(v any) bool { return v == d.NetNS }) {
			t.Fatalf("path %q is not in %q", d.NetNS, text)
		}
		if d.NetworkClosed != nil && !contains(whole, func(v any) bool { return v == *d.NetworkClosed }) {
			t.Fatalf("closed %v is not in %q", *d.NetworkClosed, text)
		}
	})
}

// contains reports whether a value is in a JSON value at any depth. Of repeated members only the last counts.
func contains(v any, is func(any) bool) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			if contains(member, is) {
				return true
			}
		}
		return false
	case []any:
		for _, element := range v {
			if contains(element, is) {
				return true
			}
		}
		return false
	}
	return is(v)
}
