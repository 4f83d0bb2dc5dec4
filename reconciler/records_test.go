package reconciler_test

import (
	"encoding/json"
	"sync"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler/audit"
)

// records is the Audit of the tests. It judges the evidence of each record again.
type records struct {
	t     testing.TB
	mu    sync.Mutex
	all   []audit.Record
	ended int
}

func (r *records) PassEnded() { r.ended++ }

func (r *records) Record(x audit.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text, err := json.Marshal(x)
	var again audit.Record
	if err == nil {
		err = json.Unmarshal(text, &again)
	}
	if err != nil {
		r.t.Errorf("the record is not read again: %v: %s", err, text)
		return
	}
	r.all = append(r.all, again)
	if x.Time.IsZero() || x.Message == "" {
		r.t.Errorf("the record has no time, or no message: %s", text)
	}
	if x.Evidence == nil {
		if x.What == audit.Released || x.What == audit.Overridden {
			r.t.Errorf("the record of a release has no evidence: %s", text)
		}
		return
	}
	d, err := again.Evidence.Judge()
	if err != nil || d.Verdict != x.Verdict || d.Reason.String() != x.Reason || d.Proven != x.Proven {
		r.t.Errorf("the evidence is judged %v (%v): %s", d, err, text)
	}
}
