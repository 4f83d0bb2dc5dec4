// Package restore is all that is particular to a restore of etcd: it brings back old objects and loses new ones, so
// that what the API shows proves less than usual. Observations and judgements come in, and the text that processes
// share. Out go a State, the reason why releases are paused, and calls of the Fence. Only the Guard has a goroutine.
// Read state.go, detect.go, nonces.go, awaited.go, doubts.go and stored.go for the State, then fence.go, guard.go and
// guardrun.go.
//
// # Detection
//
// Each of these shows a restore:
//   - An answer to a quorum read is at an older revision of etcd than one before it, or has a pool, a report or a Lease
//     of an older resourceVersion than this process has read by quorum or written. Each answer counts, also where the
//     read as a whole fails: an API server that has just started refuses some requests, and soon all versions may be as
//     large as before.
//   - A source says so: its watches have delivered a later revision, or a live read shows an older version.
//   - The agent of a node notes it. Agents write their reports all the time, and so notice it first. An agent draws a
//     nonce each time, and each nonce that no restore has answered shows one.
//   - The stored state is neither the known one nor what replaced it: a restore has reverted it.
//   - The Guard's first answer after an outage of the API server is at an older revision, or at a much later one.
//
// A random token that each process writes at the end of a pass, and reads before a release, would be less than the
// versions that it remembers: a backup of the time between has the token, and lacks what the process read since.
//
// # ID and revision
//
// A restore has a random ID, and no date: clocks differ, and one restore may follow another within seconds. Since is a
// revision of etcd: that of the first quorum read of the agents' Leases that began when the ID was known and stored.
// All that a backup brought back is in that read, and whatever is written later has a greater revision. So a report is
// since the restore if its Lease confirms it and has a greater resourceVersion. What another process, or a restore,
// makes of the stored ID shows in the text: an ID names the one that it replaced. Times are for people.
//
// # What is in doubt
//
// No verdict that stood before has waited: see IsNewerThan. An out-of-service taint may be the backup's until somebody
// sets it to another value, and proves no node dead (DoubtsTaint). So may be the network-status of a pod whose sandbox
// is older than the detection (DoubtsStatus). Agents exist even if the restore has lost all of their reports
// (SawReports).
//
// # What pauses releases, and what ends that
//
// The pass that detects a restore releases nothing, since it has read something from before, and lists who must report.
// Then Pauses names the nodes that have yet to report: pods that the API has lost may still run there, and only their
// agents know. These are all nodes that should have an agent, and those that were known before and whose Node object
// the restore has lost. A node is no longer awaited if it reports after the restore, is proven dead, or if its Node
// object was deleted since and is missing for an hour. Once none is awaited in a quorum read, the restore is settled,
// and later nodes need not report. An operator ends the wait with AcknowledgedAnnotation, which has the ID. Releases
// also pause while the state cannot be read or stored, and while a nonce waits: those of one node begin three IDs in
// ten minutes.
//
// # Processes
//
// A process may start after the restore, and a command runs beside it: they share a State as JSON in an annotation of a
// Lease. Read and Write compare IDs: see merge. A process that takes over an ID awaits every node, also those that only
// it knew. A replica that only watches shares what it detects, and the nodes that its watches have lost (Share).
//
// # Fence
//
// After a restore whereabouts would assign addresses in use, because pools lack what was written since the backup. So
// the Guard of each replica raises the Fence: it holds whereabouts' Leases, so that ADDs and DELs wait while --repair
// writes what runs into the pools. A leader that starts under the Fence of another replica raises it, too (Join), since
// only passes of a process with a Fence write under it. The Guard lowers the Fence once a full pass under it has found
// no work left, or after its timeout.
package restore
