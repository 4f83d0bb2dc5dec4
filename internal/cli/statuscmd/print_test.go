package statuscmd

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/table"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

func documents(text string) []string { return strings.Split(text, "\n---\n") }

func some() *document.Status {
	l := &lines{}
	l.ok("All is well.")
	l.id = "two"
	l.warn("kubectl get b", "Somebody should know.")
	l.unknown("Not known.")
	l.fail("kubectl get a", "It does not work, %s.", strings.Repeat("and here is why ", 12))
	return document.OfStatus(document.NewHeader(document.KindStatus, "0.1.0", document.Cluster{Server: "https://10.0.0.1:6443"}, Now), l.all)
}

// shownAs is some in a form.
func shownAs(form string, style table.Style) string {
	var out bytes.Buffer
	if err := write(&out, form, some(), style); err != nil {
		return err.Error()
	}
	return out.String()
}

func TestFaultsComeFirstAndFitTheTerminal(t *testing.T) {
	text := shownAs("", table.Style{Width: 60})
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for _, l := range lines {
		if utf8.RuneCountInString(l) > 60 {
			t.Errorf("too long: %q", l)
		}
	}
	order := []string{"https://10.0.0.1:6443: 1 error, 1 warning", "✗ It does", "    kubectl get a", "! Somebody", "    kubectl get b", "✓ All", "– Not"}
	for i, part := range order {
		at := strings.Index(text, part)
		if at < 0 || i > 0 && at < strings.Index(text, order[i-1]) {
			t.Errorf("%q is not in its place:\n%s", part, text)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Error("there is colour without a terminal")
	}
	colored := shownAs("", table.Style{Color: true})
	contains(t, "in colour it", colored, "\x1b[31m✗\x1b[0m It", "\x1b[33m!\x1b[0m Some", "\x1b[32m✓\x1b[0m All")
}

// The names are a contract.
func TestTheDocumentHasTheseNames(t *testing.T) {
	var got map[string]any
	if err := json.Unmarshal([]byte(shownAs("json", table.Style{Color: true})), &got); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{"apiVersion": "output.ip-reconcile.dev/v1", "kind": "Status", "toolVersion": "0.1.0", "level": "Error"} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	second := got["lines"].([]any)[1].(map[string]any)
	if len(second) != 4 || second["id"] != "two" || second["level"] != "Warning" || second["message"] != "Somebody should know." || second["next"] != "kubectl get b" {
		t.Errorf("a line is %v", second)
	}
	contains(t, "YAML", shownAs("yaml", table.Style{}), "kind: Status", "- id: two\n  level: Warning")
}

func TestWhatIsNotKnownIsNoFault(t *testing.T) {
	l := &lines{}
	l.unknown("Not known.")
	l.ok("Well.")
	if d := document.OfStatus(document.Header{}, l.all); d.Level != document.LevelOK {
		t.Errorf("the level is %s", d.Level)
	}
	l.warn("", "Hm.")
	if d := document.OfStatus(document.Header{}, l.all); d.Level != document.LevelWarning {
		t.Errorf("the level is %s", d.Level)
	}
}
