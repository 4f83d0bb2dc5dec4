package serve

import (
	"fmt"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// unsettled says what a full pass has left to be settled after a restore, "" for
// nothing. A pass that shows the restore judges by what was read before.
func unsettled(out *reconciler.Result) string {
	switch {
	case out.Observation.Restored != "":
		return "the pass itself showed the restore: another one is needed"
	case out.Restore == nil && !out.WithoutAgents:
		return "the restore is not known to the pass yet"
	case !out.Restore.Settled():
		return "nodes that have not written their report since: " + strings.Join(out.Restore.Awaiting, ", ")
	case out.ToRepair > 0:
		return fmt.Sprintf("%d entries and reservations are still to be written", out.ToRepair)
	}
	return ""
}
