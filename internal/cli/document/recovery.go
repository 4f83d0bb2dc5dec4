package document

import (
	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Recovery is what recover prints.
type Recovery struct {
	Header
	Circumstances
	Summary judge.Summary `json:"summary"`
	// Writes are what was written, or would be.
	Writes   []reconciler.WriteRow `json:"writes"`
	Findings []judge.Finding       `json:"findings"`
}

// OfRecovery is a result as recover prints it.
func OfRecovery(h Header, out *reconciler.Result) *Recovery {
	r := report.OfRun(out, false, report.Filter{})
	return &Recovery{Header: h, Circumstances: circumstances(r), Summary: r.Summary(), Writes: out.Writes(), Findings: append([]judge.Finding{}, out.Findings...)}
}
