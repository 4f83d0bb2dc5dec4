package e2e

import (
	"strings"

	"github.com/ip-reconcile/ip-reconcile/internal/monitoring"
)

// queries are the queries of the panels, by their titles, as Grafana asks them for all pools.
func queries() map[string]string {
	all := map[string]string{}
	for _, row := range monitoring.Rows() {
		for _, p := range row.Panels {
			all[row.Title+": "+p.Title] = strings.NewReplacer("$pool", ".*", "$__rate_interval", "5m").Replace(p.Query)
		}
	}
	return all
}
