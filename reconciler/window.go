package reconciler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// StateStore keeps a text where other processes find it, as what the breaker counts: for the
// next one after a restart, for that of a Job, for a run by hand beside a Deployment.
type StateStore interface {
	// Update replaces the text that is kept, which is "" at first, by what change makes
	// of it. Where somebody else writes in between, change is called again. Nothing is
	// written where it changes nothing. Without the right to it the error is ErrForbidden.
	Update(ctx context.Context, change func(kept string) (string, error)) error
}

// window is how many unconfirmed releases were made within the last hour, in order.
// Those of one minute are counted together, which bounds it.
type window []releaseCount

// releaseCount is how many unconfirmed releases were made, or were about to be made, within a minute.
type releaseCount struct {
	At    time.Time `json:"at"` // of the last of them, by the API server's clock
	Count int       `json:"count"`
	Of    int       `json:"of"` // how many allocations there were before the first
}

// readWindow reads what was kept. What is of the future is taken for made now: a
// clock that was wrong must not stand against releases for longer than an hour.
func readWindow(kept string, now time.Time) (w window, err error) {
	if kept == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(kept), &w); err != nil {
		return nil, fmt.Errorf("what is kept of the releases of the last hour cannot be read (%w); remove it, and it begins again", err)
	}
	for i := range w {
		if w[i].At.After(now) {
			w[i].At = now
		}
	}
	return w.since(now), nil
}

func (w window) text() (string, error) {
	if len(w) == 0 {
		return "", nil
	}
	text, err := json.Marshal(w)
	return string(text), err
}

// since is what is left of it at a time.
func (w window) since(now time.Time) window {
	var left window
	for _, r := range w {
		if now.Sub(r.At) <= time.Hour {
			left = append(left, r)
		}
	}
	return left
}

// made is how many releases it has.
func (w window) made() (n int) {
	for _, r := range w {
		n += r.Count
	}
	return n
}

// and is the window with n more releases at a time, or, where n is below zero, fewer.
func (w window) and(at time.Time, n, of int) window {
	at = at.UTC().Truncate(time.Second)
	var next window
	found := false
	for _, r := range w {
		if !found && r.At.Truncate(time.Minute).Equal(at.Truncate(time.Minute)) {
			found = true
			r.Count += n
			if at.After(r.At) {
				r.At = at
			}
		}
		if r.Count > 0 {
			next = append(next, r)
		}
	}
	if !found && n > 0 {
		next = append(next, releaseCount{at, n, of})
	}
	return next
}

// breaker says why n more unconfirmed releases are not made now, where there are so many allocations: within an hour
// they would come to more than half of those that there were at its start.
func (w window) breaker(now time.Time, n, total int) string {
	w = w.since(now)
	n += w.made()
	if len(w) > 0 {
		total = w[0].Of
	}
	if n <= breakerFloor || 2*n <= total {
		return ""
	}
	return massRelease(n, total)
}

// BreakerState is what the breaker counts.
type BreakerState struct {
	// Releases are the unconfirmed releases of the last hour, Of the allocations before the first of them.
	Releases, Of int
	// Until is when the first of them stops counting; zero where there are none.
	Until time.Time
	// Refusal says why one more is not made; "" where it may be.
	Refusal string
	// IsShared says that it has the releases of every process, and not of this one alone.
	IsShared bool
}

func (w window) state(now time.Time, allocations int, shared bool) BreakerState {
	s := BreakerState{Releases: w.made(), IsShared: shared}
	if len(w) > 0 {
		s.Of, s.Until, s.Refusal = w[0].Of, w[0].At.Add(time.Hour), w.breaker(now, 1, allocations)
	}
	return s
}

// ReadBreaker reads what is kept by the breaker for all processes, at a time of the API server, where there are now so
// many allocations. The error says that nothing unconfirmed is released, since it cannot be read.
func ReadBreaker(kept string, now time.Time, allocations int) (BreakerState, error) {
	w, err := readWindow(kept, now)
	return w.state(now, allocations, true), err
}

// Breaker is what the breaker counts at a judgement. It changes nothing.
func (r *Reconciler) Breaker(ctx context.Context, j *judge.Judgement) (BreakerState, error) {
	if err := r.readReleased(ctx, j.Observation.Now); err != nil {
		return BreakerState{}, err
	}
	return r.History.released.state(j.Observation.Now, j.Total, r.BreakerStore != nil && !r.History.windowForbidden), nil
}

// readReleased takes in what other processes have released.
func (r *Reconciler) readReleased(ctx context.Context, now time.Time) error {
	return r.dry().updateWindow(ctx, now, func(w window) window { return w })
}

// updateWindow changes the window, the one that others find where there is a right to it.
func (r *Reconciler) updateWindow(ctx context.Context, now time.Time, change func(window) window) error {
	h := r.History
	if r.BreakerStore != nil && !h.windowForbidden {
		err := r.BreakerStore.Update(ctx, func(kept string) (string, error) {
			w, err := readWindow(kept, now)
			if err != nil {
				return "", err
			}
			if h.released = change(w); r.Options.DryRun {
				return kept, nil
			}
			return h.released.text()
		})
		if !errors.Is(err, ErrForbidden) {
			return err
		}
		h.windowForbidden = true
		r.Log.Warn("the breaker counts the releases of this process only: there is no right to keep them for others", "error", err)
	}
	h.released = change(h.released.since(now))
	return nil
}

// countInWindow counts the unconfirmed releases of a plan before they are made: a process that ends half-way through
// must not have made them unseen. Where others have made so many that these are too many, or they cannot be counted,
// they are taken out of the plan. It returns how many were counted.
func (r *Reconciler) countInWindow(ctx context.Context, j *judge.Judgement, plan *Plan) (n int) {
	for _, it := range plan.Release {
		if !it.Proven {
			n++
		}
	}
	if n == 0 {
		return 0
	}
	now, why, text := j.Observation.Now, Breaker, ""
	err := r.updateWindow(ctx, now, func(w window) window {
		if text = w.breaker(now, plan.unconfirmed, j.Total); text != "" && !r.Options.AllowMassRelease {
			return w
		}
		if text = ""; r.Options.DryRun {
			return w
		}
		return w.and(now, n, j.Total)
	})
	if err != nil {
		why, text = WriteFailed, notCounted(err)
	}
	if text == "" {
		return n
	}
	plan.withhold(Gate{Why: why, Detail: text})
	return 0
}

// correctWindow corrects what was intended: only what was made counts.
func (r *Reconciler) correctWindow(ctx context.Context, j *judge.Judgement, intended int, released []*judge.Item) {
	n := 0
	for _, it := range released {
		if !it.Proven && (it.Allocation != nil || len(it.Related()) == 0) {
			n++
		}
	}
	if n == intended || r.Options.DryRun {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	now := j.Observation.Now
	if err := r.updateWindow(ctx, now, func(w window) window { return w.and(now, n-intended, j.Total) }); err != nil {
		r.Log.Warn("the breaker counts releases that were not made, for an hour", "counted", intended, "made", n, "error", err)
	}
}
