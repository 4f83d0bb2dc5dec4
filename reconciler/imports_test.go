package reconciler_test

import (
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/ip-reconcile/ip-reconcile/"

// mayImport says for each package which others of reconciler it may import. The data flows one way: what comes later
// knows what comes before, and nothing knows what comes after it. All may import ippool, podstate, api and the packages
// in internal that are below them.
var mayImport = map[string][]string{
	"reconciler/facts":     {},
	"reconciler/schedule":  {},
	"reconciler/judge":     {"facts"},
	"reconciler/findings":  {"facts", "judge"},
	"reconciler/memory":    {"facts", "judge"},
	"reconciler/restore":   {"facts", "judge"},
	"reconciler/usage":     {"facts", "judge", "findings"},
	"reconciler/ranges":    {"facts", "judge", "findings", "usage"},
	"reconciler/plan":      {"facts", "judge", "findings", "memory", "restore"},
	"reconciler/apply":     {"facts", "judge", "findings"},
	"reconciler":           {"facts", "judge", "findings", "memory", "restore", "plan", "apply"},
	"reconciler/audit":     {"facts", "judge", "findings", "apply", "."},
	"reconciler/snapshot":  {"facts", "restore"},
	"reconciler/kube":      {"facts", "restore", "apply"},
	"reconciler/informers": {"facts", "restore", "apply", "kube"},
	"reconciler/serve":     {"facts", "judge", "findings", "restore", "plan", "usage", "schedule", "informers", "."},
}

// mayUseClients are the packages that talk to an API server. apply has only the limiter of its tries.
var mayUseClients = []string{"reconciler/kube", "reconciler/informers", "reconciler/serve"}

func TestImports_OneDirection(t *testing.T) {
	listed := exec.CommandContext(t.Context(), "go", "list", "-f",
		`{{.ImportPath}}|{{if .Doc}}documented{{end}}|{{join .Imports " "}}`, "./...")
	out, err := listed.Output()
	check(t, err)
	seen := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimSpace(line), "|")
		name := strings.TrimPrefix(fields[0], module)
		if strings.HasSuffix(name, "test") { // what tests share
			continue
		}
		may, isKnown := mayImport[name]
		if seen[name] = true; !isKnown {
			t.Errorf("package %s has no row in mayImport", name)
			continue
		}
		if fields[1] == "" {
			t.Errorf("package %s has no doc comment that says what comes in and what goes out", name)
		}
		for imported := range strings.FieldsSeq(fields[2]) {
			own, isOwn := strings.CutPrefix(imported, module)
			rel, isHere := strings.CutPrefix(own, "reconciler")
			switch {
			case isOwn && isHere && !slices.Contains(may, path.Clean(strings.TrimPrefix(rel, "/"))):
				t.Errorf("package %s imports %s", name, own)
			case isOwn && (strings.HasPrefix(own, "cmd/") || strings.HasPrefix(own, "internal/cli")):
				t.Errorf("package %s imports %s, which shows what it makes", name, own)
			case name == "reconciler/apply" && imported == "k8s.io/client-go/util/workqueue":
			case strings.HasPrefix(imported, "k8s.io/client-go") && !slices.Contains(mayUseClients, name):
				t.Errorf("package %s imports %s", name, imported)
			}
		}
	}
	for name := range mayImport {
		if !seen[name] {
			t.Errorf("there is no package %s", name)
		}
	}
}
