//go:build slow

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// ruleFile writes the alerts as Prometheus reads them, which are the chart's by a test of the
// fast tier. wait, where given, takes the place of how long each must hold.
func ruleFile(t *testing.T, dir, wait string) string {
	t.Helper()
	var rules []any
	for _, a := range documentedAlerts(t) {
		if wait != "" {
			a.wait = wait
		}
		rules = append(rules, map[string]any{"alert": a.name, "expr": a.expression, "for": a.wait, "labels": map[string]any{"severity": a.severity}})
	}
	if len(rules) < 10 {
		t.Fatalf("docs/metrics.md has %d alerts", len(rules))
	}
	return writeJSON(t, filepath.Join(dir, "rules.json"), map[string]any{"groups": []any{map[string]any{"name": "ip-reconcile", "rules": rules}}})
}

func writeJSON(t *testing.T, path string, content any) string {
	t.Helper()
	check(t, os.WriteFile(path, try(json.Marshal(content)).must(t), 0o600))
	return path
}

// TestAlerts evaluates the rules over hours.
func TestAlerts(t *testing.T) {
	t.Parallel()
	_, promtool := harness.Prometheus(t)
	for _, name := range []string{"fleet.yaml", "pools.yaml"} {
		dir := t.TempDir()
		ruleFile(t, dir, "")
		file := filepath.Join(dir, name)
		check(t, os.WriteFile(file, try(os.ReadFile(filepath.Join("testdata", "alerts", name))).must(t), 0o600))
		if out, err := exec.Command(promtool, "test", "rules", file).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
}

// TestPrometheusAlertsOfAFullPool has a real Prometheus that scrapes serve.
func TestPrometheusAlertsOfAFullPool(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	small, large := simple("small", "10.7.0.0/29"), simple("large", "10.8.0.0/24")
	check(t, s.CreateNAD(t.Context(), small))
	check(t, s.CreateNAD(t.Context(), large))
	var pods []*pod
	for i := range 6 {
		pods = append(pods, s.up(t, "worker-1", fmt.Sprint("small-", i), small))
	}
	s.up(t, "worker-1", "large", large)
	v := s.serve(t, s.Kubeconfig())
	v.is(t, `ip_reconcile_pool_addresses{alerts="on",pool="kube-system/10.8.0.0-24",state="usable"}`, 254)
	v.is(t, `ip_reconcile_pool_addresses{alerts="on",pool="kube-system/10.8.0.0-24",state="free"}`, 253)
	v.is(t, `ip_reconcile_pool_addresses{alerts="on",pool="kube-system/10.7.0.0-29",state="used"}`, float64(len(pods)))

	dir, address := t.TempDir(), freeAddress(t)
	server, _ := harness.Prometheus(t)
	config := writeJSON(t, filepath.Join(dir, "prometheus.json"), map[string]any{
		"global":         map[string]any{"scrape_interval": "1s", "evaluation_interval": "1s"},
		"rule_files":     []any{ruleFile(t, dir, "0s")},
		"scrape_configs": []any{map[string]any{"job_name": "ip-reconcile", "static_configs": []any{map[string]any{"targets": []any{v.metrics}}}}},
	})
	start(t, exec.Command(server, "--config.file", config, "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", address))
	// firing are the pools of which there is the alert.
	firing := func() string {
		var answer struct {
			Data struct {
				Result []struct{ Metric map[string]string }
			}
		}
		resp, err := http.Get("http://" + address + "/api/v1/query?query=" + url.QueryEscape(`ALERTS{alertname="IPReconcilePoolNearlyFull",alertstate="firing"}`))
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
			return err.Error()
		}
		var pools []string
		for _, r := range answer.Data.Result {
			pools = append(pools, r.Metric["pool"])
		}
		return strings.Join(pools, " ")
	}
	const full = "10.7.0.0-29"
	eventually(t, "the alert of the full pool alone", func() bool { return firing() == "kube-system/"+full })
	s.mustKubectl(t, "annotate", "ippools.whereabouts.cni.cncf.io", "-n", "kube-system", full, "ip-reconcile.dev/no-usage-alerts=true")
	eventually(t, "no alert of a pool that may be full", func() bool { return firing() == "" })
	s.mustKubectl(t, "annotate", "ippools.whereabouts.cni.cncf.io", "-n", "kube-system", full, "ip-reconcile.dev/no-usage-alerts-")
	eventually(t, "the alert again", func() bool { return firing() == "kube-system/"+full })
	for _, p := range pods[:3] {
		p.del(t)
		p.forceDelete(t)
	}
	eventually(t, "the alert to end", func() bool { return firing() == "" })
}
