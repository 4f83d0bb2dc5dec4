package reconciler

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// errNoReports: without reports nothing shows which sandboxes run.
var errNoReports = errors.New("no node agent has reported, so nothing can be written back; " +
	"deploy the agents, inspect a single node with --cri, or use a --snapshot with their sandboxreports and leases")

const recoverEvery = 2 * time.Second // the pause of Recover behind a fence, where reports arrive all the time

// Recover writes into pools and reservations what runs, and waits for findings until they are due. With DryRun it
// observes once, and the result lists what it would write. The error says that the cluster could not be read.
func (r *Reconciler) Recover(ctx context.Context) (*Result, error) {
	var late []string // the nodes that have not reported since the fence stands
	return r.passes(ctx, func() (out *Result, next time.Time, atMost time.Duration, err error) {
		j, err := r.Check(ctx)
		if err == nil && (j.WithoutAgents || j.Observation.Static && len(j.Observation.Reports.Or(nil)) == 0) {
			err = errNoReports
		}
		if err != nil {
			return nil, time.Time{}, 0, err
		}
		if r.Options.DryRun {
			p := r.History.planRepairs(j, r.Options)
			return &Result{Judgement: j, ToRepair: p.total, Unrepaired: p.refused}, time.Time{}, 0, nil
		}
		done := r.repair(ctx, j)
		out = &Result{Judgement: j, Repaired: done.repaired, Unrepaired: done.unrepaired, ToRepair: done.remaining}
		next, atMost, late = done.next, recheckEvery, nil
		if fenced := j.Observation.FencedSince; !fenced.IsZero() {
			atMost = recoverEvery
			if late = j.NotRenewedSince(fenced); len(late) > 0 {
				next = EarliestNonZero(next, j.Observation.Now.Add(recoverEvery))
			}
		}
		return out, next, atMost, nil
	}, func(out *Result, next time.Time, pause time.Duration) bool {
		if len(late) > 0 {
			r.progress("Waiting for new reports from %s", judge.AtMost(late, 3))
			return true
		}
		r.progress("Waiting until findings can be repaired, %d to go: the next is due at %s; the next pass is at %s",
			out.ToRepair, next.UTC().Format(timeOfDay), out.Observation.Now.Add(pause).UTC().Format(timeOfDay))
		return true
	})
}

// The states of a WriteRow that was, or will be, written.
const (
	Planned = "Planned"
	Written = "Written"
)

// WriteRow is an allocation or a reservation that is written because of a finding.
type WriteRow struct {
	Kind judge.Kind `json:"kind"`
	IP   string     `json:"ip"`
	Pool string     `json:"pool"`
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

// Writes lists what was written, was not, or will be, by pool, then address.
func (out *Result) Writes() []WriteRow {
	rows, has := []WriteRow{}, map[string]bool{}
	add := func(f *judge.Finding, state, message string) {
		if f.Repair != nil && !has[findingKey(f)] {
			has[findingKey(f)] = true
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
			add(f, string(Paused), "paused by an annotation")
		}
		if f.Repair != nil && !has[findingKey(f)] {
			add(f, Planned, f.Message)
			if r := out.Index().ReservationOf(f); r != nil {
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

func writeRow(f *judge.Finding, state, message string) WriteRow {
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
