package e2e

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// An alert is a rule for Prometheus.
type alert struct{ name, severity, expression, wait string }

// documentedAlerts are those in docs/metrics.md.
func documentedAlerts(t *testing.T) (told []alert) {
	t.Helper()
	docs := string(try(os.ReadFile("../docs/metrics.md")).must(t))
	for _, row := range regexp.MustCompile("(?m)^\\| `(IPReconcile\\w+)`: [^|]+ \\| (\\w+) \\| `(.*)` \\| (\\w+) \\|$").FindAllStringSubmatch(docs, -1) {
		told = append(told, alert{row[1], row[2], strings.ReplaceAll(row[3], `\|`, "|"), row[4]})
	}
	return told
}
