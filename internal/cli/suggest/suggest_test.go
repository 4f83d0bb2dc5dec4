package suggest_test

import (
	"testing"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/suggest"
)

func TestWords_Question(t *testing.T) {
	known := []string{"check", "run", "ui", "pod-namespace", "reconciler-namespace", "PodGone"}
	for typed, want := range map[string]string{
		"chekc":     ": did you mean --check?",
		"rnu":       "",
		"runn":      ": did you mean --run?",
		"ls":        "", // two letters differ from ui, and are the whole word
		"namespace": ": did you mean --pod-namespace or --reconciler-namespace?",
		"podgon":    ": did you mean --PodGone?",
		"check":     ": did you mean --check?",
		"10.0.0.7":  "",
		"":          "",
	} {
		if got := suggest.Question("--", suggest.Words(typed, known...)); got != want {
			t.Errorf("%q: got %q, want %q", typed, got, want)
		}
	}
}
