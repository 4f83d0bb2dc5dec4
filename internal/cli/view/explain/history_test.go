package explain_test

import (
	"testing"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/view/explain"
	"github.com/ip-reconcile/ip-reconcile/reconciler/audit"
)

func TestSubject_OfRecords(t *testing.T) {
	inPool := audit.Record{IP: "10.0.0.5", Pool: "kube-system/10.0.0.0-24"}
	alone := audit.Record{IP: "10.1.0.5", Reservations: []string{"kube-system/10.1.0.5"}}
	pause := audit.Record{What: audit.Paused}
	for text, want := range map[string][3]bool{
		"10.0.0.0/24":                  {true, false, false},
		"10.1.0.0/24":                  {false, true, false},
		"pool/10.0.0.0-24":             {true, false, false},
		"pool/kube-system/10.0.0.0-24": {true, false, false},
		"pool/other/10.0.0.0-24":       {false, false, false},
		"10.1.0.5":                     {false, true, false},
		"node/worker-1":                {false, false, false},
	} {
		s, err := explain.ParseSubject(text)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range []audit.Record{inPool, alone, pause} {
			if got := s.Has(&r); got != want[i] {
				t.Errorf("%s has %+v: %v", text, r, got)
			}
		}
	}
}
