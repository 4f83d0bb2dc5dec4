//go:build slow

package e2e

import (
	"cmp"
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

// TestPoolAlerts has pools that fill up, and rules that are evaluated over hours.
func TestPoolAlerts(t *testing.T) {
	t.Parallel()
	_, promtool := harness.Prometheus(t)
	const nearlyFull, fullSoon = "IPReconcilePoolNearlyFull", "IPReconcilePoolFullWithinADay"
	for _, c := range []struct {
		says         string
		usable, free string // by the minute, as promtool expands them
		alerts       string // "" is on
		after        string
		fires        []string
	}{
		{"nearly full, for long enough", "100x1000", "9x1000", "", "20m", []string{nearlyFull}},
		{"nearly full, for a moment", "100x1000", "9x1000", "", "10m", nil},
		{"a tenth is left", "100x1000", "10x1000", "", "10h", nil},
		{"full for hours", "100x1000", "0x1000", "", "10h", []string{nearlyFull}},
		{"of a range without a usable address", "0x1000", "0x1000", "", "10h", nil},
		{"half full, and full within a day", "10000x1000", "5000-5x1000", "", "10h", []string{fullSoon}},
		{"half full, and full in three days", "10000x1000", "5000-1x1000", "", "10h", nil},
		{"it empties", "10000x1000", "2000+5x1000", "", "10h", nil},
		{"of which nothing is known", "", "", "", "10h", nil},
		{"nearly full, as it may be", "100x1000", "9x1000", "off", "10h", nil},
		{"full within a day, as it may be", "10000x1000", "5000-5x1000", "off", "10h", nil},
	} {
		t.Run(c.says, func(t *testing.T) {
			dir := t.TempDir()
			rules := ruleFile(t, dir, "")
			series := []any{
				map[string]any{"series": `ip_reconcile_pool_addresses{pool="p",state="used",alerts="on",pod="a"}`, "values": "1x1000"},
				// Another pool, far from full: numbers of two pools must not be mixed.
				map[string]any{"series": `ip_reconcile_pool_addresses{pool="q",state="usable",alerts="on",pod="a"}`, "values": "1000000x1000"},
				map[string]any{"series": `ip_reconcile_pool_addresses{pool="q",state="free",alerts="on",pod="a"}`, "values": "1000000x1000"},
			}
			if c.usable != "" {
				labels := fmt.Sprintf(`pool="p",pod="a",alerts=%q`, cmp.Or(c.alerts, "on"))
				series = append(series, map[string]any{"series": `ip_reconcile_pool_addresses{state="usable",` + labels + `}`, "values": c.usable},
					map[string]any{"series": `ip_reconcile_pool_addresses{state="free",` + labels + `}`, "values": c.free})
			}
			var tests []any
			for _, name := range []string{nearlyFull, fullSoon} {
				expected := []any{}
				for _, f := range c.fires {
					if f == name {
						expected = append(expected, map[string]any{"exp_labels": map[string]any{"severity": "warning", "pool": "p"}})
					}
				}
				tests = append(tests, map[string]any{"eval_time": c.after, "alertname": name, "exp_alerts": expected})
			}
			file := writeJSON(t, filepath.Join(dir, "test.json"), map[string]any{
				"rule_files": []any{rules}, "evaluation_interval": "1m",
				"tests": []any{map[string]any{"interval": "1m", "input_series": series, "alert_rule_test": tests}},
			})
			if out, err := exec.Command(promtool, "test", "rules", file).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
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
