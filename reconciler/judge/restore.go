package judge

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// AcknowledgedAnnotation on the reconciler's namespace is an operator's word that no
// node has to be waited for any more because of restores of etcd up to this RFC 3339 time.
const AcknowledgedAnnotation = "ip-reconcile.dev/restore-acknowledged"

// Acknowledged is the time that a namespace's annotation names; zero for none.
func Acknowledged(annotations map[string]string) time.Time {
	t, _ := time.Parse(time.RFC3339, annotations[AcknowledgedAnnotation])
	return t
}

// RestoreState is what is known in a pass of the last restore of etcd: an entry and a
// pod that the API has lost may live on, and only the agents know.
type RestoreState struct {
	// Restored dates it by the API server's clock: a report that was written at that time
	// or later was written since.
	Restored time.Time
	// Why is what showed it, or whose word it is.
	Why string
	// Awaiting are the nodes that have not written their report since, sorted. While
	// there are any nothing is released.
	Awaiting []string
	// LostNodes are those of them that were known before it and whose Node object was not seen
	// since: the restore has lost it, and what ran there runs on.
	LostNodes []string
	// TaintedNodes are those of them that are out of service by a taint which the restore may have
	// brought back.
	TaintedNodes []string
}

// Complete reports whether no node is waited for; nil is no restore.
func (s *RestoreState) Complete() bool { return s == nil || len(s.Awaiting) == 0 }

// Date is when etcd was restored, as AcknowledgedAnnotation takes it.
func (s *RestoreState) Date() string { return s.Restored.UTC().Format(time.RFC3339) }

// namesShown is how many nodes a sentence names.
const namesShown = 10

// Text says why nothing is released, "" where the restore is settled.
func (s *RestoreState) Text() string {
	if s.Complete() {
		return ""
	}
	names := slices.Clone(s.Awaiting[:min(len(s.Awaiting), namesShown)])
	for i, n := range names {
		switch {
		case slices.Contains(s.LostNodes, n):
			names[i] += " (which the restore has lost)"
		case slices.Contains(s.TaintedNodes, n):
			names[i] += " (whose out-of-service taint may be the backup's)"
		}
	}
	who := "node " + names[0] + " has not written its SandboxReport"
	if len(s.Awaiting) > 1 {
		who = "nodes " + strings.Join(names, ", ")
		if n := len(s.Awaiting) - len(names); n > 0 {
			who += fmt.Sprintf(" and %d more", n)
		}
		who += " have not written their SandboxReports"
	}
	at := s.Date()
	return fmt.Sprintf("etcd was restored at %s (%s), and %s since: nothing is released; one that is gone does not count an hour after its Node object is deleted, "+
		"one without an agent is for --agent-nodes to leave out, and none is waited for after: kubectl annotate --overwrite namespace RECONCILER_NAMESPACE %s=%s",
		at, s.Why, who, AcknowledgedAnnotation, at)
}

// row is the state as check prints it; nil where the restore is settled.
func (s *RestoreState) row() *RestoreRow {
	if s.Complete() {
		return nil
	}
	return &RestoreRow{Restored: s.Date(), Why: s.Why, Awaiting: s.Awaiting}
}
