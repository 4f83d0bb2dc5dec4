//go:build slow

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// ruleFile writes the alerts as Prometheus reads them, which are the chart's by a test of the
// fast tier.
func ruleFile(t *testing.T, dir string) {
	t.Helper()
	var rules []any
	for _, a := range documentedAlerts(t) {
		rules = append(rules, map[string]any{"alert": a.name, "expr": a.expression, "for": a.wait, "labels": map[string]any{"severity": a.severity}})
	}
	if len(rules) < 10 {
		t.Fatalf("docs/operate/metrics.md has %d alerts", len(rules))
	}
	file := map[string]any{"groups": []any{map[string]any{"name": "ip-reconcile", "rules": rules}}}
	check(t, os.WriteFile(filepath.Join(dir, "rules.json"), try(json.Marshal(file)).must(t), 0o600))
}

// TestAlerts evaluates the rules over hours.
func TestAlerts(t *testing.T) {
	t.Parallel()
	promtool := harness.Promtool(t)
	for _, name := range []string{"fleet.yaml", "pools.yaml"} {
		dir := t.TempDir()
		ruleFile(t, dir)
		file := filepath.Join(dir, name)
		check(t, os.WriteFile(file, try(os.ReadFile(filepath.Join("testdata", "alerts", name))).must(t), 0o600))
		if out, err := exec.Command(promtool, "test", "rules", file).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
}
