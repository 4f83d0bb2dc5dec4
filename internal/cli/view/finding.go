package view

import (
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Finding is a defect that is not a verdict.
type Finding struct {
	Kind         judge.Kind `json:"kind"`
	IP           string     `json:"ip"`
	Pool         string     `json:"pool"`
	Pods         []string   `json:"pods"`
	ContainerIDs []string   `json:"containerIDs"`
	Node         string     `json:"node"`
	Message      string     `json:"message"`
	// ReportedAt is when a report that has expired since said so, in RFC 3339; absent if all reports are fresh.
	ReportedAt string `json:"reportedAt,omitempty"`
}

// FindingOf is the row of a finding.
func FindingOf(f judge.Finding) Finding {
	return Finding{f.Kind, f.IP, f.Pool, f.Pods, f.ContainerIDs, f.Node, f.Message, f.ReportedAt}
}

// NotRepaired is a finding that was not repaired.
type NotRepaired struct {
	Finding
	Why    reconciler.Refusal `json:"refusal"`
	Detail string             `json:"detail"` // a sentence
}

func notRepaired(u reconciler.Unrepaired) NotRepaired {
	return NotRepaired{FindingOf(u.Finding), u.Why, u.Detail}
}
