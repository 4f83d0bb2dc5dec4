package cniconf_test

import (
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/internal/cniconf"
)

func TestMentions(t *testing.T) {
	for text, want := range map[string]int{
		``:                            0,
		`{"type":"static"}`:           0,
		`{"type":"whereabouts"}`:      1,
		`{"type":"WhereAbouts2"}`:     1,
		`{"type":"where\u0061bouts"}`: 1,
		`{"in":"{\"type\":\"where\\u0061bouts\"}"}`:      1,
		`{"type":"whereabouts","type":"whereabouts"}`:    2,
		`{"type":"where\\u0061bouts","x":"whereabouts"}`: 2,
		`whereabouts, and no JSON \`:                     1,
		`{"type":"where\nabouts"}`:                       0,
	} {
		if got := cniconf.Mentions([]byte(text), "whereabouts"); got != want {
			t.Errorf("%s: got %d, want %d", text, got, want)
		}
	}
}

// A tenant may write any number of escapes.
func TestMentions_ManyEscapes(t *testing.T) {
	for _, of := range []string{`\`, `\u005c`, `\u`, `\n`} {
		text := strings.Repeat(of, 1<<18)
		cniconf.Mentions([]byte(text), "whereabouts")
	}
}
