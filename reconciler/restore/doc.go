// Package restore is all that is particular to a restore of etcd: it brings back old objects and loses new ones, so
// that what the API shows proves less than usual. Observations and judgements come in, and the text that processes
// share. Out go a State, the reason why releases are paused, and calls of the Fence. Only the Guard has a goroutine.
// Read state.go, detect.go, awaited.go, doubts.go and stored.go for the State, then fence.go, guard.go and guardrun.go.
//
// # Detection
//
// Four things show a restore. Each of them is enough:
//   - An observation is at an older revision of etcd than one before it, or has a pool, a report or a Lease of an older
//     resourceVersion than this process has read by quorum or written.
//   - A source says so: its watches have delivered a later revision, or a live read shows an older version.
//   - The agent of a node reports it. Agents write their reports all the time, and so notice it first.
//   - The Guard's first answer after an outage of the API server is at an older revision, or at a much later one.
//
// # Date
//
// A restore has two times, both after the backup. At is when it was detected, or the date that an agent gives: what was
// written at that time or later was written since the restore. DetectedAt is when a process first knew of it: the Lease
// of a report is renewed in the backup, too, so only a renewal after DetectedAt is one since the restore. Evidence
// within SameRestoreWithin of At is of the same restore.
//
// # What is in doubt
//
// No verdict that stood before has waited: see IsNewerThan. An out-of-service taint may be the backup's until somebody
// sets it to another value, and proves no node dead (DoubtsTaint). So may be the network-status of a pod whose sandbox
// is older than DetectedAt (DoubtsStatus). Agents exist even if the restore has lost all of their reports (SawReports).
//
// # What pauses releases, and what ends that
//
// The pass that detects a restore releases nothing, since it has read something from before. Then Pauses names the
// nodes that have yet to report: pods that the API has lost may still run there, and only their agents know. These are
// all nodes that should have an agent, and those that were known before and whose Node object the restore has lost. A
// node is no longer awaited if it reports after the restore, is proven dead, or if its Node object was deleted since
// and is missing for an hour. Once none is awaited in a quorum read, the restore is settled, and later nodes need not
// report. An operator ends the wait with AcknowledgedAnnotation. Releases also pause while the stored state cannot be
// read.
//
// # Processes
//
// A process may start after the restore, and a command runs beside it: they share a State as JSON in an annotation of a
// Lease. Read takes over a later restore, or that the same one is settled, and Write stores the result. A restore also
// reverts that text, so what a process has detected itself has precedence, and the nodes that it knew stay awaited. A
// replica that only watches adds the nodes that its watches have lost (AddLost).
//
// # Fence
//
// After a restore whereabouts would assign addresses in use, because pools lack what was written since the backup. So
// the Guard of each replica raises the Fence: it holds whereabouts' Leases, so that ADDs and DELs wait while --repair
// writes what runs into the pools. The Guard lowers the Fence once a full pass under it has found no work left, or
// after its timeout.
package restore
