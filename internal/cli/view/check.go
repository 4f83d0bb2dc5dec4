package view

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// CheckReport is the document of check. Its lists of allocations and reservations are empty before Full.
type CheckReport struct {
	Header
	Circumstances
	// Filter is absent where the command was about everything.
	Filter *Filter `json:"filter,omitempty"`
	Totals
	Pools []PoolRow `json:"pools"`
	// Allocations are ordered by pool, then address; Reservations by name.
	Allocations  []AllocationRow  `json:"allocations"`
	Reservations []ReservationRow `json:"reservations"`
	Findings     []Finding        `json:"findings"`

	picked *Picked // of which Full makes both lists: most of them is in use, and text has little of that
}

// PoolRow counts the picked allocations of a pool.
type PoolRow struct {
	Pool        string `json:"pool"`
	Range       string `json:"range"`
	Allocations int    `json:"allocations"`
	InUse       int    `json:"inUse"`
	Held        int    `json:"held"`
	Stale       int    `json:"stale"`
	Paused      bool   `json:"paused"`
}

// NewCheckReport returns the document of check.
func NewCheckReport(out *reconciler.Result, f Filter) *CheckReport { return Pick(out, f).CheckReport() }

// CheckReport returns the document of check.
func (p *Picked) CheckReport() *CheckReport {
	d := &CheckReport{
		Header: headerOf(KindCheck, p.Observation.Now), Circumstances: p.circumstances(), Totals: p.totals(),
		Pools: p.poolRows(), Allocations: []AllocationRow{}, Reservations: []ReservationRow{},
		Findings: lists.Map(p.Findings, NewFinding), picked: p,
	}
	if !p.Filter.IsZero() {
		d.Filter = &p.Filter
	}
	return d
}

func (p *Picked) poolRows() []PoolRow {
	n := map[judge.Verdict]map[*ippool.Pool]int{judge.InUse: {}, judge.Held: {}, judge.Stale: {}}
	for _, it := range p.Allocations {
		n[it.Verdict][it.Pool]++
	}
	found := lists.Map(p.pools(), func(p *ippool.Pool) PoolRow {
		inUse, held, stale := n[judge.InUse][p], n[judge.Held][p], n[judge.Stale][p]
		return PoolRow{p.Ref(), p.RangeText, inUse + held + stale, inUse, held, stale, p.Paused}
	})
	slices.SortFunc(found, func(a, b PoolRow) int { return cmp.Compare(a.Pool, b.Pool) })
	return found
}

// Full returns the document with its lists of allocations and reservations.
func (d *CheckReport) Full() *CheckReport {
	full := *d
	full.Allocations = lists.Map(d.picked.Allocations, d.picked.Row)
	full.Reservations = lists.Map(d.picked.Reservations, d.picked.reservation)
	return &full
}

// Count is the number of rows that tables have: one for each allocation, and for each reservation without one.
func (d *CheckReport) Count() int {
	return d.Summary.Allocations + d.Summary.Lone.InUse + d.Summary.Lone.Held + d.Summary.Lone.Stale
}

func (d *CheckReport) rowsWith(v judge.Verdict) []AllocationRow {
	return lists.Map(lists.Filter(d.picked.Items(), func(it *judge.Item) bool {
		return it.Verdict == v && HasRow(it)
	}), d.picked.Row)
}

// InUse returns the rows of what is in use.
func (d *CheckReport) InUse() []AllocationRow { return d.rowsWith(judge.InUse) }

// Held returns the rows of what is Held.
func (d *CheckReport) Held() []AllocationRow { return d.rowsWith(judge.Held) }

// Stale returns the rows of what is Stale.
func (d *CheckReport) Stale() []AllocationRow { return d.rowsWith(judge.Stale) }

// NamesVerdicts reports whether the filter picks by verdicts or reasons, which asks for what is in use, too.
func (d *CheckReport) NamesVerdicts() bool {
	return d.Filter != nil && len(d.Filter.Verdicts)+len(d.Filter.Reasons) > 0
}

// Addresses returns what -o name prints of check: addresses that need attention, or all.
func (d *CheckReport) Addresses(all bool) []string {
	var found []string
	for _, it := range d.picked.Items() {
		if all || it.Verdict != judge.InUse || d.NamesVerdicts() {
			found = append(found, it.Text())
		}
	}
	for _, f := range d.Findings {
		found = append(found, strings.Split(f.IP, ",")...)
	}
	return addresses(found)
}

// addresses returns the addresses among texts, each once, in their order.
func addresses(texts []string) (sorted []string) {
	var found []netip.Addr
	for _, text := range texts {
		if addr, err := netip.ParseAddr(text); err == nil {
			found = append(found, addr)
		}
	}
	slices.SortFunc(found, netip.Addr.Compare)
	for _, addr := range slices.Compact(found) {
		sorted = append(sorted, addr.String())
	}
	return sorted
}
