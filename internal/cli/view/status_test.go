package view

import (
	"strings"
	"testing"
	"time"
)

// The names are a contract. An unknown line is no fault.
func TestStatus_LevelAndNames(t *testing.T) {
	lines := []StatusLine{{ID: "one", Level: LevelUnknown, Message: "Not known."},
		{ID: "two", Level: LevelOK, Message: "Well."}}
	for _, c := range []struct{ add, want Level }{{LevelOK, LevelOK}, {LevelWarning, LevelWarning},
		{LevelError, LevelError}, {LevelWarning, LevelError}} {
		lines = append(lines, StatusLine{ID: "three", Level: c.add, Message: "Somebody should know.", Next: "kubectl get b"})
		if d := NewStatusReport(time.Time{}, lines); d.Level != c.want {
			t.Errorf("with one more %s the level is %s, want %s", c.add, d.Level, c.want)
		}
	}
	var text strings.Builder
	err := Write(&text, "yaml", NewStatusReport(time.Time{}, lines))
	const want = "level: Error\nlines:\n- id: one\n  level: Unknown\n  message: Not known.\n"
	got := text.String()
	if err != nil || !strings.Contains(got, want) || !strings.Contains(got, "  next: kubectl get b\n") {
		t.Errorf("it is %s (%v)", &text, err)
	}
}
