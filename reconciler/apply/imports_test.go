package apply_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Whoever plans and whoever sends the requests knows this package, and it knows neither.
func TestImports(t *testing.T) {
	const module = "github.com/ip-reconcile/ip-reconcile/"
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{.ImportPath}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	may := []string{"reconciler/apply", "reconciler/judge", "ippool", "podstate", "api/v1alpha1", "internal/"}
	for p := range strings.FieldsSeq(string(out)) {
		own, isOwn := strings.CutPrefix(p, module)
		if isOwn && !slices.ContainsFunc(may, func(m string) bool { return strings.HasPrefix(own, m) }) ||
			strings.HasPrefix(p, "k8s.io/client-go") {
			t.Errorf("package apply imports %s", p)
		}
	}
}
