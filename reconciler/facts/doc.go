// Package facts makes what was read searchable. An Observation comes in: what whereabouts stores (package ippool), and
// which pods and sandboxes exist (package podstate). Facts go out, which answer questions about it: which pools have an
// address in their range, which sandboxes a report has, whether a node is dead.
//
// It knows no item, no verdict and no finding, does no I/O, and takes the time from the observation. Facts are built by
// New and do not change; With makes others that have the objects of a live read. A source that was not read is unknown,
// which is another answer than that it has nothing (source.go).
package facts
