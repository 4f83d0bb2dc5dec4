package screen

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// Faults come first.
func TestScreen_Status(t *testing.T) {
	h := document.Header{Cluster: document.Cluster{Server: "https://10.0.0.1:6443", Context: "lab"}, ObservedAt: Now}
	d := document.OfStatus(h, []document.StatusLine{
		{ID: "one", Level: document.LevelOK, Message: "All is well."},
		{ID: "two", Level: document.LevelWarning, Message: "Somebody should know.", Next: "kubectl get b"},
		{ID: "three", Level: document.LevelUnknown, Message: "Not known."},
		{ID: "four", Level: document.LevelError, Message: "It does not work, " + strings.Repeat("and here is why ", 12),
			Next: "kubectl get a", Advice: []document.Advice{{Why: "See why.", Command: "kubectl get c"}}},
	})
	s := &Screen{Width: 100}
	s.Head(h)
	s.Status(d)
	text := s.String()
	for line := range strings.Lines(text) {
		if utf8.RuneCountInString(line) > 101 {
			t.Errorf("too long: %q", line)
		}
	}
	order := []string{"Cluster https://10.0.0.1:6443 (context lab), judged at 2026-11-20T10:00:00Z.\n1 error, 1 warning.",
		"✗ It does", "    kubectl get a\n  See why.\n      kubectl get c\n", "! Somebody", "    kubectl get b", "✓ All",
		"– Not"}
	for i, part := range order {
		at := strings.Index(text, part)
		if at < 0 || i > 0 && at < strings.Index(text, order[i-1]) {
			t.Errorf("%q is not in its place:\n%s", part, text)
		}
	}
}

// Without headers each line of a status is one row, with its command.
func TestScreen_StatusOnlyRows(t *testing.T) {
	s := &Screen{Width: 60, NoHeaders: true}
	long := "It does not work, " + strings.Repeat("and here is why ", 12) + "and that is all."
	s.Status(document.OfStatus(document.Header{}, []document.StatusLine{
		{ID: "one", Level: document.LevelOK, Message: "All is well."},
		{ID: "two", Level: document.LevelError, Message: long, Next: "kubectl get a"},
	}))
	if want := "✗ " + long + "  kubectl get a\n✓ All is well.\n"; s.String() != want {
		t.Errorf("got\n%s, want\n%s", s.String(), want)
	}
}
