package document_test

import (
	"slices"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/reconciler/audit"
)

func TestHistory_Addresses(t *testing.T) {
	d := &document.History{}
	for _, ip := range []string{"10.0.0.5", "", "2001:db8::1", "\x1b[2J", "fe80::1%\x1b[2J", "10.0.0.5"} {
		d.Records = append(d.Records, audit.Record{IP: ip})
	}
	if got := d.Addresses(); !slices.Equal(got, []string{"10.0.0.5", "2001:db8::1"}) {
		t.Errorf("%q", got)
	}
}
