package serve

import (
	"fmt"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
)

// FenceEvent writes what a restore.Guard observes or does to the log, metrics and Events.
func (r *Recorder) FenceEvent(e restore.Event) {
	switch e := e.(type) {
	case restore.Unreachable:
		r.Log.Debug("API server is unreachable", "error", e.Err)
	case restore.NotRaised:
		r.Log.Warn("Cannot raise the fence, because no pool is known yet", "reason", e.Why)
	case restore.Raised:
		r.Log.Error("Raising the fence after a restore of etcd", "reason", e.Why, "timeout", e.Timeout)
		r.Events.aboutSelf("FenceRaised", fmt.Sprintf("etcd was restored (%s); whereabouts' ADDs and DELs wait "+
			"until the pools record all addresses in use, for at most %s", e.Why, e.Timeout))
	case restore.Complete:
		r.Metrics.fence.Set(1)
		attrs := []any{"duration", e.After.Round(time.Millisecond)}
		if e.SinceOutage > 0 {
			attrs = append(attrs, "sinceOutage", e.SinceOutage.Round(time.Millisecond))
		}
		r.Log.Info("Raised the fence, ADDs and DELs wait", attrs...)
	case restore.Lowered:
		r.fenceLowered(e)
	}
}

func (r *Recorder) fenceLowered(e restore.Lowered) {
	r.Metrics.fenceLowered(e.Outcome, e.Age)
	duration := e.Age.Round(time.Millisecond)
	switch e.Outcome {
	case restore.Settled:
		r.Log.Info("Lowered the fence, no work remains", "duration", duration)
	case restore.ByPeer:
		r.Log.Info("Another replica lowered the fence", "duration", duration)
	case restore.TimedOut:
		r.Log.Error("Lowered the fence at its timeout, whereabouts may assign addresses in use",
			"duration", duration, "isLeader", e.IsLeader, "remaining", e.Remaining)
		if e.IsLeader { // only the leader makes passes
			r.Events.aboutSelf("FenceTimedOut", fmt.Sprintf("ADDs and DELs continue after %s, and work remains: %s",
				duration, e.Remaining))
		}
	}
}
