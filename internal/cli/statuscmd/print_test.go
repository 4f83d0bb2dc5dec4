package statuscmd

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/table"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

func some() *document.Status {
	l := &lines{}
	l.ok("All is well.")
	l.id = "two"
	l.warn("kubectl get b", "Somebody should know.")
	l.unknown("Not known.")
	l.fail("kubectl get a", "It does not work, %s.", strings.Repeat("and here is why ", 12))
	return document.OfStatus(document.NewHeader(document.KindStatus, "0.1.0", document.Cluster{Server: "https://10.0.0.1:6443"}, Now), l.all)
}

// shownAs is some in a style.
func shownAs(style table.Style) string {
	var out bytes.Buffer
	writeText(&out, some(), style)
	return out.String()
}

func TestFaultsComeFirstAndFitTheTerminal(t *testing.T) {
	text := shownAs(table.Style{Width: 60})
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
	colored := shownAs(table.Style{Color: true})
	contains(t, "in colour it", colored, "\x1b[31m✗\x1b[0m It", "\x1b[33m!\x1b[0m Some", "\x1b[32m✓\x1b[0m All")
}

// The names are a contract.
func TestTheDocumentHasTheseNames(t *testing.T) {
	text, err := document.Encode("yaml", some())
	if err != nil {
		t.Fatal(err)
	}
	contains(t, "YAML", string(text), "apiVersion: output.ip-reconcile.dev/v1\n", "kind: Status\n", "toolVersion: 0.1.0\n", "level: Error\n",
		"- id: two\n  level: Warning\n  message: Somebody should know.\n  next: kubectl get b\n")
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
