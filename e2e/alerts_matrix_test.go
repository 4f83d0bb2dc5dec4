//go:build slow

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
	"github.com/ip-reconcile/ip-reconcile/internal/monitoring"
)

// A scrape is what a program's /metrics has at a time: values by series, those of the product and of its process.
type scrape struct {
	at     time.Time
	values map[string]float64
}

var ofInterest = regexp.MustCompile(`^(ip_reconcile_|process_(resident_memory_bytes|cpu_seconds_total) )`)

// scraped reads a program's metrics, none while nobody listens. target are the labels that Prometheus adds.
func scraped(t testing.TB, address, target string) scrape {
	t.Helper()
	s := scrape{time.Now(), map[string]float64{}}
	response, err := (&http.Client{Timeout: 20 * time.Second}).Get("http://" + address + "/metrics")
	if err != nil {
		return s
	}
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if line := lines.Text(); ofInterest.MatchString(line) {
			at := strings.LastIndexByte(line, ' ')
			s.values[withLabels(line[:at], target)] = try(strconv.ParseFloat(line[at+1:], 64)).must(t)
		}
	}
	return s
}

// withLabels adds labels to a series.
func withLabels(series, labels string) string {
	if name, rest, has := strings.Cut(series, "{"); has {
		return name + "{" + labels + "," + rest
	}
	return series + "{" + labels + "}"
}

// with replaces values of a scrape, for what real life does not bring about in seconds.
func (s scrape) with(changed map[string]float64) scrape {
	s.values = maps.Clone(s.values)
	for series, value := range changed {
		s.values[withLabels(series, leaderTarget)] = value
	}
	return s
}

// leaderTarget and standbyTarget are the labels of the two replicas.
const leaderTarget, standbyTarget = `instance="a"`, `instance="b"`

// A situation is recorded before and after something happens, which then lasts.
type situation struct {
	name string
	// alert fires, and also those that the same cause must fire. No other alert fires.
	alert string
	also  []string
	// before and after are scrapes of one process. after has no values if the process has ended.
	before, after scrape
	lasts         time.Duration
	stopped       string  // the prefix of times that do not advance any more
	repeats       bool    // the counters grow on as between the scrapes, every five minutes
	isAlone       bool    // without another replica that stands by
	byHand        bool    // values are not recorded
	falls         float64 // how many free addresses a pool loses in a minute
}

// A situation begins an hour after the first sample.
const before = 60

// input are the series of a situation as promtool reads them, with a sample every minute.
func (x situation) input() map[string]string {
	series, minutes := map[string]string{}, int(x.lasts/time.Minute)
	all := maps.Clone(x.before.values)
	maps.Copy(all, x.after.values)
	for name := range all {
		was, had := x.before.values[name]
		is, has := x.after.values[name]
		growth := 0.0
		if strings.Contains(name, "_timestamp_seconds") { // promtool's clock begins at 0
			was, is = relative(was, x.before.at), relative(is, x.after.at)
			isStopped := x.stopped != "" && strings.HasPrefix(name, x.stopped)
			if strings.Contains(name, "_last_") && !isStopped {
				growth = 60
			}
		} else if x.repeats && regexp.MustCompile(`_(total|count|sum|bucket)\b`).MatchString(name) {
			growth = (is - was) / 5
		}
		if strings.Contains(name, `state="free"`) {
			growth = -x.falls
		}
		values := fmt.Sprintf("_x%d", before)
		if had {
			values = fmt.Sprintf("%sx%d", number(was), before-1)
		}
		if has {
			sign := "+"
			if growth < 0 {
				sign = "-"
			}
			values += " " + number(is) + sign + number(math.Abs(growth)) + fmt.Sprint("x", minutes)
		} else {
			values += " stale"
		}
		series[name] = values
	}
	return series
}

// relative is a time of a scrape by promtool's clock, 0 for none.
func relative(value float64, at time.Time) float64 {
	if value == 0 {
		return 0
	}
	return value - float64(at.Unix()) + before*60
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

type (
	promSeries struct {
		Series string `json:"series"`
		Values string `json:"values"`
	}
	promSample struct {
		Labels string  `json:"labels"`
		Value  float64 `json:"value"`
	}
	promQuery struct {
		Expr    string       `json:"expr"`
		At      string       `json:"eval_time"`
		Samples []promSample `json:"exp_samples"`
	}
	promTest struct {
		Name     string       `json:"name"`
		Interval string       `json:"interval"`
		Series   []promSeries `json:"input_series"`
		Queries  []promQuery  `json:"promql_expr_test"`
	}
)

func seriesOf(input ...map[string]string) (all []promSeries) {
	for _, some := range input {
		for _, name := range slices.Sorted(maps.Keys(some)) {
			all = append(all, promSeries{name, some[name]})
		}
	}
	return all
}

// test says which alerts fire during a situation beside the replica that stands by: exactly these, and the alert of the
// situation after as many evaluations as its rule asks for, no fewer and no more.
func (x situation) test(t testing.TB, standby map[string]string, every time.Duration) promTest {
	t.Helper()
	end := fmt.Sprintf("%dm", before+int(x.lasts/time.Minute))
	var fired, pending []promSample
	if x.alert != "" {
		for _, name := range append([]string{x.alert}, x.also...) {
			fired = append(fired, promSample{fmt.Sprintf(`{alertname=%q}`, name), 1})
		}
		if wait := ruleNamed(t, x.alert).wait; wait > 0 {
			pending = []promSample{{"{}", float64(wait / every)}}
		}
	}
	if x.isAlone {
		standby = nil
	}
	name := x.name
	if x.byHand {
		name += " (written by hand)"
	}
	during := fmt.Sprintf("%dm", int(x.lasts/time.Minute)+1) // before it IPReconcileNoPasses has no history to look at
	return promTest{name, "1m", seriesOf(x.input(), standby), []promQuery{
		{`group by (alertname) (max_over_time(ALERTS{alertstate="firing"}[` + end + `]))`, end, fired},
		{`max(count_over_time(ALERTS{alertname="` + x.alert + `",alertstate="pending"}[` + during + `]))`, end, pending},
	}}
}

type rule struct {
	monitoring.Alert
	wait time.Duration
}

func ruleNamed(t testing.TB, name string) rule {
	t.Helper()
	for _, a := range monitoring.Alerts() {
		if a.Name == name {
			days, isDays := strings.CutSuffix(a.For, "d")
			if isDays {
				return rule{a, time.Duration(try(strconv.Atoi(days)).must(t)) * 24 * time.Hour}
			}
			return rule{a, try(time.ParseDuration(a.For)).must(t)}
		}
	}
	t.Fatalf("no alert %s", name)
	return rule{}
}

// promtool runs tests over the chart's rules.
func promtool(t testing.TB, every time.Duration, tests []promTest) {
	t.Helper()
	dir := t.TempDir()
	ruleFile(t, dir)
	file := filepath.Join(dir, "tests.json")
	check(t, os.WriteFile(file, try(json.Marshal(map[string]any{"rule_files": []string{"rules.json"},
		"evaluation_interval": every.String(), "tests": tests})).must(t), 0o600))
	if out, err := exec.Command(harness.Promtool(t), "test", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

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

var (
	ofMetric  = regexp.MustCompile(`\b(?:ip_reconcile|process)_\w+`)
	labelled  = regexp.MustCompile(`(\b(?:ip_reconcile|process)_\w+){`)
	bare      = regexp.MustCompile(`(\b(?:ip_reconcile|process)_\w+)([^\w{]|$)`)
	isCounter = regexp.MustCompile(`_(total|count|sum|bucket)\b`)
)

// existing checks that the product has each metric of the rules and panels.
func existing(t *testing.T, recorded []situation) {
	exists := map[string]bool{"process_start_time_seconds": true} // no situation is that of a process that starts
	for _, x := range recorded {
		for series := range x.after.values {
			name, _, _ := strings.Cut(series, "{")
			exists[name] = true
		}
	}
	all := queries()
	for _, a := range monitoring.Alerts() {
		all[a.Name] = a.Expr
	}
	for what, query := range all {
		names := ofMetric.FindAllString(query, -1)
		for _, name := range names {
			if !exists[name] {
				t.Errorf("%s: no process has %s", what, name)
			}
		}
		if len(names) == 0 && !strings.Contains(query, "ALERTS") {
			t.Errorf("%s reads no metric: %s", what, query)
		}
	}
}

// panels checks that each query returns data where everything has happened. The fleet two has a second replica with
// the same gauges, as for a moment after the leader has changed: no panel may count these twice.
func panels(t *testing.T, situations []situation) {
	const minutes = 120
	input := map[string]string{}
	for _, x := range situations {
		for series, value := range x.after.values {
			isOther := strings.Contains(series, standbyTarget) // has gauges of its own, maybe later ones than the leader
			if isOther || value == 0 && input[withLabels(series, `fleet="one"`)] != "" {
				continue
			}
			values := fmt.Sprintf("%sx%d", number(value), minutes)
			switch {
			case isCounter.MatchString(series) || strings.HasPrefix(series, "process_cpu"):
				values = fmt.Sprintf("%s+1x%d", number(value), minutes)
			case strings.Contains(series, `state="free"`):
				values = fmt.Sprintf("%s-0.1x%d", number(value), minutes)
			case strings.Contains(series, "_timestamp_seconds") && value != 0:
				values = fmt.Sprintf("%sx%d", number(relative(value, x.after.at)), minutes)
			}
			input[withLabels(series, `fleet="one"`)] = values
			input[withLabels(series, `fleet="two"`)] = values
			if strings.Contains(series, leaderTarget) && !isCounter.MatchString(series) {
				input[withLabels(strings.Replace(series, leaderTarget, standbyTarget, 1), `fleet="two"`)] = values
			}
		}
	}
	test := promTest{Name: "everything", Interval: "1m", Series: seriesOf(input)}
	ask := func(expr string) {
		at := fmt.Sprintf("%dm", minutes)
		test.Queries = append(test.Queries, promQuery{expr, at, []promSample{{"{}", 1}}})
	}
	for _, query := range queries() {
		of := func(fleet string) string {
			labels := `{fleet="` + fleet + `"`
			return "(" + bare.ReplaceAllString(labelled.ReplaceAllString(query, "$1"+labels+","), "$1"+labels+"}$2") + ")"
		}
		ask("count" + of("one") + " > bool 0")
		if !strings.Contains(query, "instance") && !strings.Contains(query, "ALERTS") {
			ask("count(" + of("one") + " == " + of("two") + ") == bool count" + of("one"))
		}
	}
	promtool(t, time.Hour, []promTest{test})
}
