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
// nothing. The fence stands since a time by the API server's clock: a sandbox of which
// the ADD was under way before is in a report that was renewed since.
func unsettled(out *reconciler.Result, since time.Time) string {
	switch {
	case out.Observation.Restored != "":
		return "the pass itself showed the restore: another one is needed"
	case out.WithoutAgents, out.Observation.Paused:
		return "" // nothing more will be known, or written
	case out.Restore == nil:
		return "the pass does not know of the restore yet"
	case !out.Restore.Settled():
		return "nodes that have not written their report since: " + strings.Join(out.Restore.Awaiting, ", ")
	}
	renewed := map[string]bool{}
	for _, r := range out.Observation.Reports {
		renewed[r.Name] = !r.Renewed.Before(since)
	}
	var left []string
	for _, node := range slices.Sorted(maps.Keys(out.Nodes)) {
		if s := out.Nodes[node]; s != reconciler.NodeLost && !renewed[node] {
			left = append(left, node)
		}
	}
	switch {
	case len(left) > 0:
		return "nodes that have not renewed their report since the fence stood: " + strings.Join(left, ", ")
	case out.ToRepair > 0:
		return fmt.Sprintf("%d entries and reservations are still to be written", out.ToRepair)
	}
	return ""
}
