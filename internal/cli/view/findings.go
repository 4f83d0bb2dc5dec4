package view

import (
	"slices"

	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// Finding is a defect that is not a verdict.
type Finding struct {
	Kind         findings.Kind `json:"kind"`
	IP           string        `json:"ip"`
	Pool         string        `json:"pool"`
	Pods         []string      `json:"pods"`
	ContainerIDs []string      `json:"containerIDs"`
	Node         string        `json:"node"`
	Message      string        `json:"message"`
	// ReportedAt is when a report that has expired since said so, in RFC 3339; absent if all reports are fresh.
	ReportedAt string `json:"reportedAt,omitempty"`
	// Holds is how many addresses the node of the finding holds.
	Holds int `json:"-"`
	// CanRepair is true where --repair ends the finding.
	CanRepair bool `json:"-"`
}

// NewFinding returns the document of a finding.
func NewFinding(f findings.Finding) Finding {
	return Finding{f.Kind, f.IP, f.Pool, f.Pods, f.ContainerIDs, f.Node, f.Message, f.ReportedAt, f.Holds, f.CanRepair()}
}

// Rank orders findings by their kinds. Outages come first.
func (f Finding) Rank() int { return slices.Index(findings.Kinds(), f.Kind) }

// NotRepaired is a finding that was not repaired.
type NotRepaired struct {
	Finding
	Why    plan.Refusal `json:"refusal"`
	Detail string       `json:"detail"` // a sentence
	// Summary is what many such findings share.
	Summary string `json:"-"`
}

func notRepaired(u plan.Unrepaired) NotRepaired {
	summary := u.String()
	if u.Why == plan.Breaker { // the same for many
		summary = u.Detail
	}
	return NotRepaired{NewFinding(u.Finding), u.Why, u.Detail, summary}
}
