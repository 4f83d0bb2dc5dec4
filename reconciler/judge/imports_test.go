package judge_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Judging and findings are functions of what was read: nothing that they are made of can do I/O with a cluster, a
// runtime or a file, and nothing of what acts on verdicts is known to them.
func TestJudgingImportsNothingThatDoesIO(t *testing.T) {
	const module = "github.com/ip-reconcile/ip-reconcile/"
	mayImport := map[string]bool{
		module + "ippool": true, module + "podstate": true, module + "api/v1alpha1": true,
		module + "internal/lean": true, module + "internal/cniconf": true,
		module + "reconciler/facts": true, module + "reconciler/judge": true, module + "reconciler/findings": true,
	}
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{.ImportPath}}", "../findings").Output()
	check(t, err)
	packages := strings.Fields(string(out))
	if len(packages) < 20 {
		t.Fatalf("only %d packages are listed", len(packages))
	}
	for _, p := range packages {
		other := strings.HasPrefix(p, module) && !mayImport[p]
		if other || slices.ContainsFunc([]string{"k8s.io/client-go", "k8s.io/cri-", "sigs.k8s.io/controller-runtime",
			"google.golang.org/grpc"}, func(io string) bool { return strings.HasPrefix(p, io) }) {
			t.Errorf("judging imports %s", p)
		}
	}
	direct, err := exec.CommandContext(t.Context(), "go", "list", "-f", `{{join .Imports "\n"}}`, ".",
		"../facts", "../findings").Output()
	check(t, err)
	for _, p := range strings.Fields(string(direct)) {
		switch p {
		case "os", "io", "io/fs", "net", "net/http", "context", "sync", "syscall", "log", "log/slog", "path/filepath":
			t.Errorf("judging imports %s", p)
		}
	}
}

// The time is an argument.
func TestJudgingDoesNotAskTheClock(t *testing.T) {
	var files []string
	for _, folder := range []string{"facts", "judge", "findings"} {
		more, err := filepath.Glob("../" + folder + "/*.go")
		if err != nil || len(more) < 15 {
			t.Fatal(more, err)
		}
		files = append(files, more...)
	}
	asks := regexp.MustCompile(`\btime\.(Now|Since|Until|Sleep|After|Tick|NewTimer|NewTicker|AfterFunc)\(`)
	for _, name := range files {
		text, err := os.ReadFile(name)
		check(t, err)
		if call := asks.Find(text); call != nil && !strings.HasSuffix(name, "_test.go") {
			t.Errorf("%s has %s", name, call)
		}
	}
}
