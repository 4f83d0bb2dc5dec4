// Package judge gives a verdict to every allocation and reservation. It joins what whereabouts stores (package ippool)
// with which pods and sandboxes exist (package podstate):
//
//	Observation → Index → Evidence on each Item → the row of the table that matches → Verdict
//
// Judge does no I/O and takes the time as an argument. So the same code judges the live API, exported files and a
// simulator. The second check before a write judges the Index again, with what a live read found (with.go).
//
// Read table.go first. evidence.go, sandbox.go and nodes.go gather what its rows ask for, claims.go who else carries
// the address. findings.go, conflicts.go, repair.go and reservation.go find defects that are not verdicts; carriage.go
// says which pools need an entry for an address.
package judge
