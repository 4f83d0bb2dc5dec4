// Package judge gives a verdict to every allocation and reservation. Facts and what earlier passes found come in, a
// Judgement goes out:
//
//	facts.Facts → Evidence on each Item → the row of the table that matches → Verdict
//
// Judge does no I/O and takes the time as an argument. So the same code judges the live API, exported files and a
// simulator. The second check before a write judges again, by facts with what a live read found (facts.Facts.With).
//
// Read table.go first. evidence.go, sandbox.go and nodes.go gather what its rows ask for, claims.go who else carries
// the address. stale.go is the only place where an item becomes Stale.
package judge
