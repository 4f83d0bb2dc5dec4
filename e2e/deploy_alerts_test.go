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
		name := regexp.MustCompile(`ip_reconcile_([a-z_]+)`).FindStringSubmatch(a.expression)
		if name == nil || !strings.Contains(source, `"`+strings.TrimPrefix(name[1], "agent_")+`"`) && !strings.Contains(source, `"`+name[0]+`"`) {
			t.Errorf("there is no such metric: %s", a.expression)
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
	matcher := regexp.MustCompile(`verdict="Held",reason(=|!~)"([^"]*)"`)
	for _, reason := range reasons {
		alerted := slices.ContainsFunc(chartsAlerts(t), func(a alert) bool {
			m := matcher.FindStringSubmatch(a.expression)
			return m != nil && regexp.MustCompile("^(?:"+m[2]+")$").MatchString(reason) == (m[1] == "=")
		})
		equal(t, "an alert for "+reason, alerted, reason != "Terminating")
	}
}
