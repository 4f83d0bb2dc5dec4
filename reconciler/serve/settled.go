package serve

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// unsettled says what a full pass has left to be settled after a restore, "" for
// nothing. joined: it was another replica that knew of the restore.
//
// To be replaced by Result.Restore, once there: its nodes awaited, and what is still to
// be repaired. A pass without it settles nothing where joined is true and there are
// agents: none of them has told yet.
func unsettled(out *reconciler.Result, joined bool) string {
	if out.Observation.Restored != "" {
		return "the look itself showed the restore: another one is needed"
	}
	var left []string
	for _, node := range slices.Sorted(maps.Keys(out.Nodes)) {
		if s := out.Nodes[node]; s != reconciler.NodeFresh && s != reconciler.NodeLost {
			left = append(left, node)
		}
	}
	if len(left) > 0 {
		return "nodes that have not written their report since: " + strings.Join(left, ", ")
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
