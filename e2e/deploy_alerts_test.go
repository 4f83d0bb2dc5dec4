//go:build !slow && !cluster

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// chartsAlerts are the rules of the chart's PrometheusRule.
func chartsAlerts(t *testing.T) (alerts []alert) {
	t.Helper()
	objects, err := helm(metav1.NamespaceSystem, "prometheusRule: {enabled: true}")
	check(t, err)
	groups, _, err := unstructured.NestedSlice(byName(t, objects)["PrometheusRule "+reconcilerName].Object, "spec", "groups")
	check(t, err)
	for _, r := range groups[0].(map[string]any)["rules"].([]any) {
		rule := r.(map[string]any)
		summary, _, err := unstructured.NestedString(rule, "annotations", "summary")
		check(t, err)
		if summary == "" || strings.Contains(summary, "{{`") {
			t.Errorf("%s says %q", rule["alert"], summary)
		}
		severity, _, err := unstructured.NestedString(rule, "labels", "severity")
		check(t, err)
		alerts = append(alerts, alert{rule["alert"].(string), severity, rule["expr"].(string), rule["for"].(string)})
	}
	return alerts
}

// TestAlertsAreAboutMetricsThatThereAre looks for their names where metrics are
// made.
func TestAlertsAreAboutMetricsThatThereAre(t *testing.T) {
	t.Parallel()
	source := ""
	for _, file := range append(try(filepath.Glob("../reconciler/serve/*metrics.go")).must(t), "../agent/health.go") {
		source += string(try(os.ReadFile(file)).must(t))
	}
	for _, a := range chartsAlerts(t) {
		names := regexp.MustCompile(`ip_reconcile_([a-z_]+?)(_bucket|_count)?\b`).FindAllStringSubmatch(a.expression, -1)
		for _, name := range names {
			if !strings.Contains(source, `"`+strings.TrimPrefix(name[1], "agent_")+`"`) && !strings.Contains(source, `"ip_reconcile_`+name[1]+`"`) {
				t.Errorf("there is no metric %s: %s", name[0], a.expression)
			}
		}
		if len(names) == 0 {
			t.Errorf("it is about no metric: %s", a.expression)
		}
	}
}

func TestTheDocsAndTheChartHaveTheSameAlerts(t *testing.T) {
	t.Parallel()
	equal(t, "the alerts in docs/metrics.md", documentedAlerts(t), chartsAlerts(t))
}

// Terminating ends by itself, or becomes StuckTerminating.
func TestThereIsAnAlertForEveryReasonToHoldOnWhichAnOperatorMustAct(t *testing.T) {
	t.Parallel()
	docs := string(try(os.ReadFile("../docs/usage.md")).must(t))
	var reasons []string
	for _, row := range regexp.MustCompile(`(?m)^\| Held: .*\|$`).FindAllString(docs, -1) {
		for _, reason := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(row, -1) {
			reasons = append(reasons, reason[1])
		}
	}
	if len(reasons) < 10 || !slices.Contains(reasons, "ClaimedByOther") {
		t.Fatalf("docs/usage.md has %q", reasons)
	}
	matcher := regexp.MustCompile(`oldest_held_timestamp_seconds\{reason(=|=~|!~)"([^"]*)"`)
	alerts := chartsAlerts(t)
	for _, reason := range reasons {
		alerted := 0
		for _, a := range alerts {
			for _, m := range matcher.FindAllStringSubmatch(a.expression, -1) {
				if regexp.MustCompile("^(?:"+m[2]+")$").MatchString(reason) == (m[1] != "!~") {
					alerted++
				}
			}
		}
		want := 1
		if reason == "Terminating" {
			want = 0
		}
		equal(t, "alerts for "+reason, alerted, want)
	}
}

// The objective is for what is confirmed after 15 minutes.
func TestAnotherConfirmAfterHasNoAlertOfTheObjectiveForIt(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]bool{"": true, "confirmAfter: 1h": false} {
		objects := installed(t, "prometheusRule: {enabled: true}\n"+values)
		rules := string(try(byName(t, objects)["PrometheusRule "+reconcilerName].MarshalJSON()).must(t))
		equal(t, values, strings.Contains(rules, "IPReconcileUnconfirmedReleasedLate"), want)
	}
}

func TestTheSeriesOfPoolsAreLeftOutByAValue(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]bool{"": false, "metrics: {pools: false}": true, "{mode: cronjob, metrics: {pools: false}}": false} {
		equal(t, values, slices.Contains(reconcilerPod(t, installed(t, values)).Spec.Containers[0].Args, "--pool-metrics=false"), want)
	}
}
