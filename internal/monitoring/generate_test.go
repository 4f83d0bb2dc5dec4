package monitoring

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

const (
	chartRule     = "../../deploy/helm/ip-reconcile/templates/prometheusrule.yaml"
	chartFile     = "../../deploy/helm/ip-reconcile/dashboard.json"
	componentRule = "../../deploy/components/prometheus/prometheusrule.yaml"
	componentFile = "../../deploy/components/prometheus/dashboard.json"
	page          = "../../docs/operate/alerts.md"
)

// TestGenerated writes what is generated from the declarations where UPDATE_DOCS is set, as 'make generate' does.
func TestGenerated(t *testing.T) {
	dashboard := dashboard(t)
	for file, want := range map[string]string{chartRule: chart(), componentRule: component(), chartFile: dashboard,
		componentFile: dashboard, page: alertsPage()} {
		if os.Getenv("UPDATE_DOCS") != "" {
			if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s is not what internal/monitoring declares: run 'make generate' (%v)", file, err)
		}
	}
}

// Each name has an anchor of its own, and each text is a sentence or two without what the chart's template would need
// to quote.
func TestAlerts_AreComplete(t *testing.T) {
	names := map[string]bool{}
	for _, a := range Alerts() {
		if names[strings.ToLower(a.Name)] || !strings.HasPrefix(a.Name, "IPReconcile") {
			t.Errorf("%s: not a name of its own", a.Name)
		}
		names[strings.ToLower(a.Name)] = true
		if strings.HasSuffix(a.Summary, ".") || len(a.Summary) > 80 || a.Summary == "" {
			t.Errorf("%s: summary %q", a.Name, a.Summary)
		}
		for _, text := range []string{a.Meaning, a.Impact, a.Mitigation} {
			if !strings.HasSuffix(text, ".") || strings.Contains(text, "{{`") {
				t.Errorf("%s: %q", a.Name, text)
			}
		}
		if len(a.Diagnosis) == 0 {
			t.Errorf("%s: no command", a.Name)
		}
		if !regexp.MustCompile(`^(0|[1-9]\d*)[mhd]$`).MatchString(a.For) {
			t.Errorf("%s: for %q", a.Name, a.For)
		}
		byPool := regexp.MustCompile(`max by \((\w+)\)`).FindStringSubmatch(a.Expr)
		if byPool != nil && byPool[1] != "state" && !strings.Contains(a.Summary, "$labels."+byPool[1]) {
			t.Errorf("%s: the summary does not name the %s", a.Name, byPool[1])
		}
	}
}

// quote returns a text as YAML in double quotes.
func quote(text string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		panic(err)
	}
	return strings.TrimSpace(b.String())
}

func rules(isChart bool) string {
	var b strings.Builder
	text := func(s string) string {
		if isChart {
			s = regexp.MustCompile(`{{[^}]*}}`).ReplaceAllString(s, "{{`$0`}}")
		}
		return quote(s)
	}
	for _, a := range Alerts() {
		if isChart && a.If != "" {
			fmt.Fprintf(&b, "    {{- if %s }}\n", a.If)
		}
		// Between two leaders there are no gauges: that ends no alert.
		fmt.Fprintf(&b, "    - alert: %s\n      expr: %s\n      for: %s\n      keep_firing_for: 5m\n"+
			"      labels: {severity: %s}\n", a.Name, quote(a.Expr), a.For, a.Severity)
		fmt.Fprintf(&b, "      annotations:\n%s        summary: %s\n        description: %s\n", runbook(isChart, a.Name),
			text(a.Summary), text(a.Meaning+" "+a.Impact))
		if isChart && a.If != "" {
			b.WriteString("    {{- end }}\n")
		}
	}
	return b.String()
}

// runbook is the annotation that says where the runbook is. No site is published: without docsURL it does so in words.
func runbook(isChart bool, name string) string {
	words := fmt.Sprintf("        runbook: docs/operate/alerts.md, heading %s\n", name)
	if !isChart {
		return words
	}
	return fmt.Sprintf(`        {{- with $.Values.prometheusRule.docsURL }}
        runbook_url: {{ trimSuffix "/" . }}/operate/alerts.md#%s
        {{- else }}
%s        {{- end }}
`, strings.ToLower(name), words)
}

const generated = "`make generate` writes this file from internal/monitoring."

func chart() string {
	return "{{- /* " + generated + ` */ -}}
{{- if .Values.prometheusRule.enabled }}
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: ip-reconcile
  namespace: {{ .Release.Namespace | quote }}
  labels: {{- include "ip-reconcile.labels" . | nindent 4 }}
    {{- include "ip-reconcile.selector" . | nindent 4 }}
    {{- with .Values.prometheusRule.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  groups:
  - name: ip-reconcile
    rules:
` + rules(true) + "{{- end }}\n"
}

func component() string {
	return "# " + generated + `
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: ip-reconcile
  namespace: kube-system
  labels:
    app.kubernetes.io/name: ip-reconcile
    app.kubernetes.io/component: reconciler
spec:
  groups:
  - name: ip-reconcile
    rules:
` + rules(false)
}

func alertsPage() string {
	var b strings.Builder
	b.WriteString(`# Alerts

` + "`make generate`" + ` writes this page, the rules and the dashboard from internal/monitoring.

The chart installs the alerts with ` + "`prometheusRule.enabled=true`" + `, and the dashboard with
` + "`dashboard.enabled=true`" + `. The kustomize component ` + "`deploy/components/prometheus`" + ` has both.

Each alert has numbers and what follows from it, and names its section here: in words, or as a link if you publish these
pages (` + "`prometheusRule.docsURL`" + `). The expressions are in
` + "`deploy/components/prometheus/prometheusrule.yaml`" + `.

An alert goes on for five minutes after its cause, so that a change of the leader ends none
(` + "`keep_firing_for`" + `, Prometheus 2.42 or newer; the operator leaves it out for an older one).

POOL (NAMESPACE/NAME), NODE and ADDRESS are those of the alert. "The log" is that of the reconciler's pods.
`)
	label := regexp.MustCompile(`{{ \$(?:labels\.)?(\w+)[^}]*}}`)
	for _, severity := range []string{"critical", "warning", "info"} {
		fmt.Fprintf(&b, "\n## Severity %s\n", severity)
		for _, a := range Alerts() {
			if a.Severity != severity {
				continue
			}
			summary := label.ReplaceAllStringFunc(a.Summary, func(s string) string {
				return strings.ToUpper(label.FindStringSubmatch(s)[1])
			})
			fmt.Fprintf(&b, "\n### %s\n\n%s.\n\n    %s\n\n%s\n",
				a.Name, summary, strings.Join(a.Diagnosis, "\n    "), a.Mitigation)
		}
	}
	return b.String()
}

// dashboard is the JSON that Grafana imports. Its data source and pools are variables.
func dashboard(t *testing.T) string {
	t.Helper()
	type object = map[string]any
	source := object{"type": "prometheus", "uid": "${datasource}"}
	var panels []object
	y := 0
	add := func(panel object, x, width, height int) {
		panel["id"], panel["gridPos"] = len(panels)+1, object{"x": x, "y": y, "w": width, "h": height}
		panels = append(panels, panel)
	}
	for _, r := range Rows() {
		add(object{"type": "row", "title": r.Title, "collapsed": false, "panels": []object{}}, 0, 24, 1)
		y++
		const across, width, height = 3, 8, 7
		for i, p := range r.Panels {
			kind := "timeseries"
			if p.IsNow {
				kind = "stat"
			}
			add(object{"type": kind, "title": p.Title, "datasource": source,
				"fieldConfig": object{"defaults": object{"unit": cmp.Or(p.Unit, "short")}, "overrides": []object{}},
				"targets": []object{{"refId": "A", "datasource": source, "expr": p.Query, "legendFormat": p.Legend,
					"instant": p.IsNow, "range": !p.IsNow}}}, i%across*width, width, height)
			if i%across == across-1 || i == len(r.Panels)-1 {
				y += height
			}
		}
	}
	variables := []object{
		{"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"},
		{"name": "pool", "type": "query", "datasource": source, "includeAll": true, "multi": true, "allValue": ".*",
			"query": "label_values(ip_reconcile_pool_addresses, pool)", "refresh": 2, "current": object{"text": "All",
				"value": "$__all"}},
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	err := e.Encode(object{"uid": "ip-reconcile", "title": "ip-reconcile", "tags": []string{"ip-reconcile"},
		"schemaVersion": 39, "editable": true, "refresh": "1m", "time": object{"from": "now-24h", "to": "now"},
		"templating": object{"list": variables}, "panels": panels,
		"description": "Alerts and their runbooks are in docs/operate/alerts.md."})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
