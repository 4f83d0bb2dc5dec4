package serve

import (
	"fmt"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// remainingWork is what a full pass has left to be done after a restore, "" for nothing.
// The fence stands since a time by the API server's clock. A report that was renewed
// before an ADD or DEL of then must have ended may lack what that did.
func remainingWork(out *reconciler.Result, since time.Time) string {
	switch {
	case out.Observation.Restored != "":
		return "the pass itself showed the restore: another one is needed"
	case out.WithoutAgents, out.Observation.Paused:
		return "" // nothing more will be known, or written
	case out.Restore == nil:
		return "the pass does not know of the restore yet"
	case !out.Restore.Complete():
		return "nodes that have not written their report since: " + strings.Join(out.Restore.Awaiting, ", ")
	}
	if nodes := out.NotRenewedSince(since); len(nodes) > 0 {
		return "nodes that have not renewed their report since the fence has stood for long enough: " + strings.Join(nodes, ", ")
	}
	if out.ToRepair > 0 {
		return fmt.Sprintf("%d entries and reservations are still to be written", out.ToRepair)
	}
	return ""
}
