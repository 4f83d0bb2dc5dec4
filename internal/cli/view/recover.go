package view

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// RecoverReport is the document of recover.
type RecoverReport struct {
	Header
	Circumstances
	Totals
	// Writes are the allocations and reservations that recover wrote or would write.
	Writes   []WriteRow `json:"writes"`
	Findings []Finding  `json:"findings"`
}

// NewRecoverReport returns the document of recover.
func NewRecoverReport(out *reconciler.Result) *RecoverReport {
	p := Pick(out, Filter{})
	p.Findings = withoutRepaired(p.Findings, out)
	return &RecoverReport{Header: headerOf(KindRecovery, out.Observation.Now), Circumstances: p.circumstances(),
		Totals: p.totals(), Writes: writes(out), Findings: lists.Map(out.Findings, NewFinding)}
}

// IsAllWritten reports whether each row was written: nothing is planned, paused or refused.
func (d *RecoverReport) IsAllWritten() bool {
	return !slices.ContainsFunc(d.Writes, func(w WriteRow) bool { return w.State != Written })
}

// The states of a WriteRow that was, or will be, written.
const (
	Planned = "Planned"
	Written = "Written"
)

// WriteRow is an allocation or a reservation that is written because of a finding.
type WriteRow struct {
	Kind findings.Kind `json:"kind"`
	IP   string        `json:"ip"`
	Pool string        `json:"pool"`
	// PodRef, ContainerID and IfName are what is written.
	PodRef      string `json:"podRef"`
	ContainerID string `json:"containerID"`
	IfName      string `json:"ifName"`
	Instead     string `json:"instead"` // the podref of what is replaced, "" for nothing
	Node        string `json:"node"`
	// State is Planned, Written, or the reason why it was not written: Paused, Breaker, WriteFailed and so on.
	State   string `json:"state"`
	Message string `json:"message"`
}

// writes lists what was written, was not, or will be, by pool, then address.
func writes(out *reconciler.Result) []WriteRow {
	rows, has := []WriteRow{}, map[string]bool{}
	add := func(f *findings.Finding, state, message string) {
		if f.Repair != nil && !has[plan.RepairKey(f)] {
			has[plan.RepairKey(f)] = true
			rows = append(rows, writeRow(f, state, message))
		}
	}
	for i := range out.Repaired {
		add(&out.Repaired[i], Written, out.Repaired[i].Message)
	}
	for i := range out.Unrepaired {
		add(&out.Unrepaired[i].Finding, string(out.Unrepaired[i].Why), out.Unrepaired[i].Detail)
	}
	for i := range out.Findings {
		f := &out.Findings[i]
		if f.Repair != nil && (f.Repair.Pool.Paused || out.Observation.Paused) {
			add(f, string(plan.Paused), "paused by an annotation")
		}
		if f.Repair != nil && !has[plan.RepairKey(f)] {
			add(f, Planned, f.Message)
			if r := findings.ReservationOf(out.Facts(), f); r != nil {
				add(r, Planned, r.Message)
			}
		}
	}
	address := func(row WriteRow) netip.Addr {
		addr, _ := netip.ParseAddr(row.IP)
		return addr
	}
	slices.SortStableFunc(rows, func(a, b WriteRow) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), address(a).Compare(address(b)))
	})
	return rows
}

func writeRow(f *findings.Finding, state, message string) WriteRow {
	w := f.Repair
	row := WriteRow{Kind: f.Kind, IP: f.IP, Pool: f.Pool, PodRef: w.PodRef, ContainerID: w.ContainerID, IfName: w.IfName,
		Node: w.Node, State: state, Message: message}
	switch {
	case w.Previous != nil:
		row.Instead = w.Previous.PodRef
	case w.PreviousReservation != nil:
		row.Instead = w.PreviousReservation.PodRef
	}
	return row
}
