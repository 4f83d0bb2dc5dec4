// Package monitoring declares the alerts (alerts.yaml) and the dashboard (dashboard.yaml). `make generate` writes the
// chart's PrometheusRule, the kustomize component, the dashboard's JSON and docs/operate/alerts.md from them.
package monitoring

import (
	"embed"
	"fmt"

	"sigs.k8s.io/yaml"
)

// Alert is a rule and its runbook. Texts of annotations have Prometheus' labels in braces. Mitigation is Markdown.
type Alert struct {
	Name, Severity, For, Expr string
	// Late is an objective, of which Alerts makes Expr.
	Late *struct {
		Proof   string
		Seconds int
	}
	// If is the condition in the chart, "" for always.
	If string

	Summary, Meaning, Impact string
	Diagnosis                []string // commands
	// Mitigation is what ends the alert.
	Mitigation string
}

// Row is a row of the dashboard.
type Row struct {
	Title  string
	Panels []Panel
}

// Panel shows a query. Legend has the query's labels in braces. Unit is "" for a plain number.
type Panel struct {
	Title, Unit, Query, Legend string
	// IsNow is set for a panel of the present value instead of its course.
	IsNow bool
}

//go:embed *.yaml
var files embed.FS

func read[T any](file string) (all []T) {
	text, err := files.ReadFile(file)
	if err == nil {
		err = yaml.UnmarshalStrict(text, &all)
	}
	if err != nil {
		panic(err) // the file is part of the package
	}
	return all
}

// Alerts returns all alerts.
func Alerts() []Alert {
	all := read[Alert]("alerts.yaml")
	for i, a := range all {
		if a.Late != nil {
			all[i].Expr = late(a.Late.Proof, a.Late.Seconds)
		}
	}
	return all
}

// Rows returns the rows of the dashboard.
func Rows() []Row { return read[Row]("dashboard.yaml") }

// late is true while fewer than 99 % of the releases with a proof come within so many seconds, at a burn rate of 14.4
// in one hour or 6 in six hours (Site Reliability Workbook, chapter 5). It needs 10 releases in 6 hours.
func late(proof string, seconds int) string {
	const delay = "ip_reconcile_release_delay_seconds"
	share := func(window, limit string) string {
		within := fmt.Sprintf(`sum(rate(%s_bucket{proof=%q,le=~"%d([.]0)?"}[%s]))`, delay, proof, seconds, window)
		return fmt.Sprintf(`1 - %s / sum(rate(%s_count{proof=%q}[%s])) > %s`, within, delay, proof, window, limit)
	}
	return fmt.Sprintf(`(%s and %s or %s and %s) and sum(increase(%s_count{proof=%q}[6h])) >= 10`,
		share("1h", "0.144"), share("5m", "0.144"), share("6h", "0.06"), share("30m", "0.06"), delay, proof)
}
