//go:build slow

package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/monitoring"
)

var (
	ofMetric  = regexp.MustCompile(`\b(?:ip_reconcile|process)_\w+`)
	labelled  = regexp.MustCompile(`(\b(?:ip_reconcile|process)_\w+){`)
	bare      = regexp.MustCompile(`(\b(?:ip_reconcile|process)_\w+)([^\w{]|$)`)
	isCounter = regexp.MustCompile(`_(total|count|sum|bucket)\b`)
)

// existing checks that the product has each metric of the rules and panels.
func existing(t *testing.T, recorded []situation) {
	exists := map[string]bool{}
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
