package view

import (
	"net/netip"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/reconciler/audit"
)

// HistoryReport is the document of history.
type HistoryReport struct {
	Header
	// Checked is how many records were read, of which Records are those that were asked for.
	Checked int `json:"checked"`
	// Records are ordered by their time of writing, the newest last.
	Records []audit.Record `json:"records"`
	// Faults are records that cannot be read, or whose evidence is judged in another way; and missing records.
	Faults []audit.Fault `json:"faults"`
}

// NewHistoryReport returns the document of the records for which has returns true. In a file each process numbers its
// own records, and no record expires.
func NewHistoryReport(
	lines []audit.Line, isFile bool, now time.Time, has func(*audit.Record) bool,
) *HistoryReport {
	d := &HistoryReport{Header: headerOf(KindHistory, now), Checked: len(lines), Records: []audit.Record{}}
	d.Faults = audit.Verify(lines, !isFile, func(r *audit.Record) string {
		if isFile {
			return r.Run
		}
		return ""
	})
	for _, l := range lines {
		isExpired := !isFile && l.Time.Before(now.Add(-audit.Keep))
		if l.Err == nil && !isExpired && has(&l.Record) {
			d.Records = append(d.Records, l.Record)
		}
	}
	return d
}

// Addresses returns the addresses of the records, each once. Whoever edits a record cannot have other text printed.
func (d *HistoryReport) Addresses() []string {
	texts := lists.Map(d.Records, func(r audit.Record) string { return r.IP })
	slices.Sort(texts)
	return slices.DeleteFunc(slices.Compact(texts), func(ip string) bool {
		addr, err := netip.ParseAddr(ip)
		return err != nil || addr.Zone() != ""
	})
}

// Actors returns who wrote each record, "" for one of a pause: the process that wrote it observed it.
func (d *HistoryReport) Actors() []string {
	return lists.Map(d.Records, func(r audit.Record) string {
		if r.What == audit.Paused || r.What == audit.Resumed {
			return ""
		}
		return r.Actor
	})
}
