// Package findings finds defects that are no verdicts: addresses that two pods carry, allocations that are missing or
// name another sandbox, pods that the API does not have, nodes without a report. Facts and a judgement come in, an
// Assessment goes out: the judgement with its findings, some of which say by which Repair they are mended.
//
// A finding never makes an item Stale. findings.go lists them all, conflicts.go who shares an address, repair.go and
// reservation.go what can be repaired, carriage.go which pools need an entry for an address.
package findings
