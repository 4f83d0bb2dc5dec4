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

// metrics are values by the minute, as promtool expands them, by series without the prefix ip_reconcile_.
type metrics map[string]string

const days = 1440 // minutes

// eachFor is since when the first is held where each is for so long, one after the other, for three days.
func eachFor(minutes int) string {
	var values []string
	for from := 0; from < 3*days; from += minutes {
		values = append(values, fmt.Sprintf("%dx%d", 60*from, minutes-1))
	}
	return strings.Join(values, " ")
}

// releases is a histogram of releases by proof, with so many a minute, of which some are in time.
func releases(proof, within, inTime, all string) metrics {
	return metrics{
		`release_seconds_bucket{proof="` + proof + `",le="` + within + `"}`: inTime,
		`release_seconds_bucket{proof="` + proof + `",le="1"}`:              "0x4000",
		`release_seconds_bucket{proof="` + proof + `",le="+Inf"}`:           all,
		`release_seconds_count{proof="` + proof + `"}`:                      all,
	}
}

// TestAlertsOfAFleet has rules that are evaluated over hours: that each fires, and that none does for what is always so
// in a large cluster.
func TestAlertsOfAFleet(t *testing.T) {
	t.Parallel()
	_, promtool := harness.Prometheus(t)
	const (
		held, claimed, silent, stuck = "IPReconcileAddressHeld", "IPReconcileAddressClaimedByOther", "IPReconcileNoFreshReport", "IPReconcileDoesNotRelease"
		provenLate, unconfirmedLate  = "IPReconcileProvenReleasedLate", "IPReconcileUnconfirmedReleasedLate"
		denied                       = "IPReconcileWritesDenied"
	)
	heldFor := func(reason, since string) metrics {
		return metrics{`oldest_held_timestamp_seconds{reason="` + reason + `"}`: since}
	}
	nodes := func(fresh, noReport, notReady int) metrics {
		all := metrics{}
		for state, n := range map[string]int{"Fresh": fresh, "NoFreshReport": noReport, "NotReady": notReady, "Dead": 1} {
			all[`nodes{state="`+state+`"}`] = fmt.Sprintf("%dx4000", n)
		}
		return all
	}
	type firing map[string]string // an alert's reason, by its name
	for _, c := range []struct {
		says string
		metrics
		after string
		fires firing
	}{
		{"a node is down for 23 hours", heldFor("NodeUnreachable", "0x4000"), "23h", nil},
		{"a node is down for more than a day", heldFor("NodeUnreachable", "0x4000"), "25h", firing{held: "NodeUnreachable"}},
		{"a Ready node does not report for more than a day", heldFor("NoFreshReport", "0x4000"), "25h", firing{held: "NoFreshReport"}},
		{"some node is down at any time, each for 12 hours", heldFor("NodeUnreachable", eachFor(days/2)), "60h", nil},
		{"a phantom for 50 minutes", heldFor("PhantomPod", "0x4000"), "50m", nil},
		{"a phantom for more than an hour", heldFor("PhantomPod", "0x4000"), "70m", firing{held: "PhantomPod"}},
		{"some pod is a phantom at any time, each for half an hour", heldFor("PhantomPod", eachFor(30)), "60h", nil},
		{"some pod is Terminating", heldFor("Terminating", "0x4000"), "60h", nil},
		{"somebody else carries an address for 10 minutes", heldFor("ClaimedByOther", "0x4000"), "10m", nil},
		{"somebody else carries an address", heldFor("ClaimedByOther", "0x4000"), "25m", firing{claimed: ""}},
		{"nothing is held", metrics{}, "60h", nil},

		{"one of 5,000 nodes is down", nodes(4999, 0, 1), "60h", nil},
		{"a hundred of 5,000 nodes are down", nodes(4900, 0, 100), "60h", nil},
		{"one agent of 5,000 does not work", nodes(4999, 1, 0), "60h", nil},
		{"a hundred agents of 5,000 do not work, for 20 minutes", nodes(4900, 100, 0), "20m", nil},
		{"a hundred agents of 5,000 do not work", nodes(4900, 100, 0), "40m", firing{silent: ""}},
		{"one agent of three does not work", nodes(2, 1, 0), "40m", firing{silent: ""}},
		{"no agent works", nodes(0, 5000, 0), "40m", firing{silent: ""}},
		{"there are no nodes", nodes(0, 0, 0), "60h", nil},

		{"something is stale for three hours", metrics{`oldest_candidate_timestamp_seconds`: "60x4000"}, "3h", firing{stuck: ""}},
		{"something is always stale, each for 20 minutes", metrics{`oldest_candidate_timestamp_seconds`: eachFor(20)}, "60h", nil},
		{"nothing is stale", metrics{`oldest_candidate_timestamp_seconds`: "0x4000"}, "60h", nil},

		{"all are released in time", releases("proven", "60", "0+10x4000", "0+10x4000"), "60h", nil},
		{"one of 200 is late", releases("proven", "60", "0+199x4000", "0+200x4000"), "60h", nil},
		{"a fifth is late, for an hour", releases("proven", "60", "0+8x4000", "0+10x4000"), "1h", firing{provenLate: ""}},
		{"a fifth is late, as Prometheus 3 writes it", releases("proven", "60.0", "0+8x4000", "0+10x4000"), "1h", firing{provenLate: ""}},
		{"a tenth is late, for a day", releases("proven", "60", "0+9x4000", "0+10x4000"), "24h", firing{provenLate: ""}},
		{"a fifth was late for ten minutes, an hour ago", releases("proven", "60", "0+8x10 80+10x4000", "0+10x4000"), "70m", nil},
		{"the only one in a day is late", releases("proven", "60", "0x4000", "0x100 1x4000"), "105m", nil},
		{"nothing is released", releases("proven", "60", "0x4000", "0x4000"), "60h", nil},
		{"all that is unconfirmed is released in time", releases("unconfirmed", "1200", "0+10x4000", "0+10x4000"), "60h", nil},
		{"a fifth of what is unconfirmed is late", releases("unconfirmed", "1200", "0+8x4000", "0+10x4000"), "1h", firing{unconfirmedLate: ""}},
		{"a fifth of what is unconfirmed is late, as Prometheus 3 writes it", releases("unconfirmed", "1200.0", "0+8x4000", "0+10x4000"), "1h", firing{unconfirmedLate: ""}},

		{"no write is denied", metrics{`denied_writes_total`: "0x4000"}, "60h", nil},
		{"one write was denied", metrics{`denied_writes_total`: "0x10 1x4000"}, "20m", nil},
		{"every five minutes a write is denied", metrics{`denied_writes_total`: "0x4 1x4 2x4 3x4 4x4 5x4 6x4 7x4 8x4 9x4"}, "30m", firing{denied: ""}},
		{"writes were denied an hour ago", metrics{`denied_writes_total`: "0+2x60 120x4000"}, "2h", nil},
	} {
		t.Run(c.says, func(t *testing.T) {
			dir := t.TempDir()
			var series, tests []any
			for name, values := range c.metrics {
				name = "ip_reconcile_" + strings.TrimSuffix(name, "}")
				if strings.Contains(name, "{") {
					name += `,pod="a"}`
				} else {
					name += `{pod="a"}`
				}
				series = append(series, map[string]any{"series": name, "values": values})
			}
			for _, name := range []string{held, claimed, silent, stuck, provenLate, unconfirmedLate, denied} {
				expected := []any{}
				if reason, fires := c.fires[name]; fires {
					labels := map[string]any{"severity": "warning"}
					if reason != "" {
						labels["reason"] = reason
					}
					expected = append(expected, map[string]any{"exp_labels": labels})
				}
				tests = append(tests, map[string]any{"eval_time": c.after, "alertname": name, "exp_alerts": expected})
			}
			file := writeJSON(t, filepath.Join(dir, "test.json"), map[string]any{
				"rule_files": []any{ruleFile(t, dir, "")}, "evaluation_interval": "5m",
				"tests": []any{map[string]any{"interval": "1m", "input_series": series, "alert_rule_test": tests}},
			})
			if out, err := exec.Command(promtool, "test", "rules", file).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

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
