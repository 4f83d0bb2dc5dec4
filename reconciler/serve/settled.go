package serve

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// unsettled says what a full pass has left to be settled after a restore, "" for
// nothing. The fence stands since a time by the API server's clock. joined: it was
// another replica that knew of the restore.
//
// To be replaced by Result.Restore, once there: its nodes awaited, and what is still to
// be repaired. A pass without it settles nothing where joined is true and there are
// agents: none of them has told yet.
func unsettled(out *reconciler.Result, since time.Time, joined bool) string {
	if out.Observation.Restored != "" {
		return "the look itself showed the restore: another one is needed"
	}
	var left []string
	heard := map[string]bool{}
	for _, r := range out.Observation.Reports {
		heard[r.Name] = !r.Renewed.Before(since)
	}
	for _, node := range slices.Sorted(maps.Keys(out.Nodes)) {
		if out.Nodes[node] != reconciler.NodeLost && !heard[node] && !out.WithoutAgents {
			left = append(left, node)
		}
	}
	if len(left) > 0 {
		return "nodes that have not renewed their report since: " + strings.Join(left, ", ")
	}
	repairs := 0
	for _, f := range out.Findings {
		if f.Kind == reconciler.Unrecorded || f.Kind == reconciler.MissingReservation {
			repairs++
		}
	}
	if repairs > 0 {
		return fmt.Sprintf("%d addresses in use are not recorded", repairs)
	}
	_ = joined
	return ""
}
