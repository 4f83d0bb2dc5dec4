package restore

import (
	"fmt"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

// Status is the state of the last restore of etcd. Pods that the API has lost may still run, and only the agents report
// them.
type Status struct {
	ID           string    // random; an operator acknowledges the restore by it; "" before it is stored
	Restored     time.Time // when the restore was detected, by the API server's clock
	Why          string    // how it was detected, or who reported it
	Awaiting     []string  // nodes without a report since, sorted; releases are paused while it is not empty
	LostNodes    []string  // of Awaiting, those whose Node object the restore has lost
	TaintedNodes []string  // of Awaiting, those whose out-of-service taint may be the backup's
	UnreadNodes  []string  // of Awaiting, those whose report cannot be read
}

// Complete reports whether releases do not wait for a restore; nil is no restore.
func (s *Status) Complete() bool { return s == nil || len(s.Awaiting) == 0 }

// Date is when the restore was detected.
func (s *Status) Date() string { return s.Restored.UTC().Format(time.RFC3339) }

// Text says why releases are paused, "" if they are not.
func (s *Status) Text() string {
	if s.Complete() {
		return ""
	}
	names := slices.Clone(s.Awaiting)
	for i, n := range names {
		switch {
		case slices.Contains(s.LostNodes, n):
			names[i] += " (its Node object was lost by the restore)"
		case slices.Contains(s.TaintedNodes, n):
			names[i] += " (its out-of-service taint may be from the backup)"
		case slices.Contains(s.UnreadNodes, n):
			names[i] += " (its report cannot be read)"
		}
	}
	id := "restore " + s.ID + ", "
	if s.ID == "" {
		id = ""
	}
	return fmt.Sprintf("etcd was restored (%sdetected at %s: %s); releases are paused until these nodes report: %s",
		id, s.Date(), s.Why, facts.AtMost(names, facts.NamesShown))
}
