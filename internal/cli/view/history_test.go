package view_test

import (
	"slices"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/reconciler/audit"
)

func TestHistory_Addresses(t *testing.T) {
	d := &view.HistoryReport{}
	for _, ip := range []string{"10.0.0.5", "", "2001:db8::1", "\x1b[2J", "fe80::1%\x1b[2J", "10.0.0.5"} {
		d.Records = append(d.Records, audit.Record{IP: ip})
	}
	if got := d.Addresses(); !slices.Equal(got, []string{"10.0.0.5", "2001:db8::1"}) {
		t.Errorf("%q", got)
	}
}

// The ring keeps an expired record until another one is appended.
func TestHistoryReport_ExpiredRecords(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	lines := []audit.Line{{Record: audit.Record{Time: now.Add(-audit.Keep - time.Second)}},
		{Record: audit.Record{Time: now.Add(-audit.Keep)}}}
	for isFile, want := range map[bool]int{false: 1, true: 2} {
		d := view.NewHistoryReport(lines, isFile, now, func(*audit.Record) bool { return true })
		if len(d.Records) != want {
			t.Errorf("of a file %v: %d records", isFile, len(d.Records))
		}
	}
}
