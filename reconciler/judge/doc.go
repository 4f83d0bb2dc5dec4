// Package judge decides what is to become of every address that is recorded. It joins
// what is stored (package ippool) with who is alive (package podstate):
//
//	Observation → Index → Evidence on each Item → the row of the table that matches → Verdict
//
// Judge does no I/O and takes the time as an argument: the live API, a folder of files and
// a simulator are judged by the very same code, and so is the second check before a
// write, which takes the Index with what a live read found (with.go).
//
// Read table.go first: it is the heart of it. evidence.go, sandbox.go and
// nodes.go gather what its rows ask for, claims.go what stands against a release,
// findings.go, conflicts.go, repair.go and reservation.go find what is wrong beside the verdicts.
package judge
