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

// ruleFile writes the chart's rules as Prometheus reads them, without the annotations, which are not tested there.
func ruleFile(t testing.TB, dir string) {
	t.Helper()
	rendered := string(try(os.ReadFile("testdata/rendered/alerts.yaml")).must(t)) // by TestDeploy_Rendered
	for _, o := range try(harness.Documents(rendered)).must(t) {
		if o.GetKind() != "PrometheusRule" {
			continue
		}
		spec := o.Object["spec"].(map[string]any)
		for _, rule := range spec["groups"].([]any)[0].(map[string]any)["rules"].([]any) {
			delete(rule.(map[string]any), "annotations")
		}
		check(t, os.WriteFile(filepath.Join(dir, "rules.json"), try(json.Marshal(spec)).must(t), 0o600))
		return
	}
	t.Fatal("the rendered chart has no PrometheusRule")
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
