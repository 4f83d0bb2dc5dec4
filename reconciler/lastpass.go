package reconciler

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// PassResult is the result of a pass.
type PassResult string

const (
	PassSucceeded PassResult = "Succeeded" // it observed the cluster and acted
	PassFailed    PassResult = "Failed"    // it could not observe the cluster
)

// PassRecord is what a pass records for `ip-reconcile status`.
type PassRecord struct {
	// At is when the pass observed the cluster, by the API server's clock, or when it failed, by its own.
	At        time.Time            `json:"at"`
	Result    PassResult           `json:"result"`
	Took      string               `json:"took"`               // the duration, as in 1.5s
	Succeeded time.Time            `json:"succeeded,omitzero"` // At of the last pass that succeeded; zero for none
	Message   string               `json:"message,omitempty"`  // the error of a failed pass
	Released  int                  `json:"released,omitempty"`
	Refused   map[plan.Refusal]int `json:"refused,omitempty"`  // counts the Stale items that were not released
	Schedule  string               `json:"schedule,omitempty"` // serve's cron expression of full passes; "" in a CronJob
}

const (
	recordTimeout  = 3 * time.Second // short, since the next pass waits for the record
	longestMessage = 500             // how many bytes of an error are kept
)

// ReadPass decodes what RecordPass has written; nil for "".
func ReadPass(kept string) (*PassRecord, error) {
	if kept == "" {
		return nil, nil
	}
	p := &PassRecord{}
	if err := json.Unmarshal([]byte(kept), p); err != nil {
		return nil, fmt.Errorf("read the record of the last pass: %w", err)
	}
	return p, nil
}

// RecordPass writes the result of a pass to PassStore; out is nil after a failure. A failed write is only logged.
func (r *Reconciler) RecordPass(ctx context.Context, out *Result, took time.Duration, failed error) {
	now := r.Clock.Now()
	if r.PassStore == nil || r.Options.DryRun || ctx.Err() != nil {
		return
	}
	p := PassRecord{At: now, Result: PassSucceeded, Took: took.Round(time.Millisecond).String()}
	if failed != nil || out == nil {
		p.Result, p.Message = PassFailed, fmt.Sprint(failed)
		p.Message = p.Message[:min(len(p.Message), longestMessage)]
	} else {
		p.At = out.Observation.Now
		p.Succeeded, p.Released, p.Refused = p.At.UTC().Truncate(time.Second), len(out.Released), countRefused(out.Refused)
	}
	if r.Schedule != nil {
		p.Schedule = r.Schedule()
	}
	p.At = p.At.UTC().Truncate(time.Second)
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	err := r.PassStore.Update(ctx, func(kept string) (string, error) {
		if before, err := ReadPass(kept); err == nil && before != nil && p.Result == PassFailed {
			p.Succeeded = before.Succeeded
		}
		text, err := json.Marshal(p)
		return string(text), err
	})
	if err != nil {
		r.Log.Debug("Could not record the pass for status", "error", err)
	}
}

func countRefused(refused []plan.Refused) map[plan.Refusal]int {
	counts := map[plan.Refusal]int{}
	for _, x := range refused {
		counts[cmp.Or(x.Why, plan.WriteFailed)]++
	}
	return counts
}
