package reconciler

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// PassResult is what became of a pass.
type PassResult string

const (
	PassSucceeded PassResult = "Succeeded" // it observed, and did what there was to do
	PassFailed    PassResult = "Failed"    // it could not observe
)

// PassRecord is what a pass leaves behind for who asks from outside whether, and how, the reconciler works.
type PassRecord struct {
	// At is when the pass had observed the cluster, by the API server's clock, or when it failed, by its own.
	At     time.Time  `json:"at"`
	Result PassResult `json:"result"`
	// Took is its duration, as in 1.5s.
	Took string `json:"took"`
	// Succeeded is At of the last one that succeeded; zero for none.
	Succeeded time.Time `json:"succeeded,omitzero"`
	// Message is the error of one that failed.
	Message  string `json:"message,omitempty"`
	Released int    `json:"released,omitempty"`
	// Refused is how many Stale items were not released, by why.
	Refused map[Refusal]int `json:"refused,omitempty"`
	// Schedule is the cron expression by which serve makes full passes; "" for a pass of a CronJob.
	Schedule string `json:"schedule,omitempty"`
}

const (
	// recordWithin is how long that may take, since the next pass waits for it.
	recordWithin = 3 * time.Second
	// longestMessage is how many bytes of an error are kept.
	longestMessage = 500
)

// ReadPass reads a record as RecordPass keeps it; nil where there is none.
func ReadPass(kept string) (*PassRecord, error) {
	if kept == "" {
		return nil, nil
	}
	p := &PassRecord{}
	if err := json.Unmarshal([]byte(kept), p); err != nil {
		return nil, fmt.Errorf("what is kept of the last pass cannot be read: %w", err)
	}
	return p, nil
}

// RecordPass keeps what became of a pass in Passes; out is nil where it failed. It is no
// part of the pass: where it cannot be kept that is logged, and nothing else changes.
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
	ctx, cancel := context.WithTimeout(ctx, recordWithin)
	defer cancel()
	err := r.PassStore.Update(ctx, func(kept string) (string, error) {
		if before, err := ReadPass(kept); err == nil && before != nil && p.Result == PassFailed {
			p.Succeeded = before.Succeeded
		}
		text, err := json.Marshal(p)
		return string(text), err
	})
	if err != nil {
		r.Log.Debug("the pass could not be recorded for `ip-reconcile status`", "error", err)
	}
}

func countRefused(refused []Refused) map[Refusal]int {
	counts := map[Refusal]int{}
	for _, x := range refused {
		counts[cmp.Or(x.Why, WriteFailed)]++
	}
	return counts
}
