package reconciler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// ErrForbidden is that of a StateStore which RBAC, a policy or a schema forbids to write.
var ErrForbidden = apply.ErrForbidden

// StateStore keeps a text where other processes find it: after a restart, in a Job, in a run by hand.
type StateStore interface {
	// Update replaces the text, "" at first, by the result of change. After a concurrent write change is called again.
	// An unchanged text is not written. Where RBAC forbids it the error is ErrForbidden.
	Update(ctx context.Context, change func(kept string) (string, error)) error
}

// window counts the unconfirmed releases of the last hour, in order, one count a minute.
type window []releaseCount

// releaseCount is how many unconfirmed releases a minute had, or was about to have.
type releaseCount struct {
	At    time.Time `json:"at"` // of the last one, by the API server's clock
	Count int       `json:"count"`
	Of    int       `json:"of"` // allocations before the first one
}

// readWindow decodes a window. Releases of the future count as of now, since a clock may have been wrong.
func readWindow(kept string, now time.Time) (w window, err error) {
	if kept == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(kept), &w); err != nil {
		return nil, fmt.Errorf("the count of recent releases is not JSON of this program (%w); "+
			"remove the annotation to start again", err)
	}
	for i := range w {
		if w[i].At.After(now) {
			w[i].At = now
		}
	}
	return w.lastHour(now), nil
}

func (w window) text() (string, error) {
	if len(w) == 0 {
		return "", nil
	}
	text, err := json.Marshal(w)
	return string(text), err
}

// lastHour is the part of the window that counts at a time.
func (w window) lastHour(now time.Time) window {
	return slices.DeleteFunc(slices.Clone(w), func(r releaseCount) bool { return now.Sub(r.At) > time.Hour })
}

func (w window) total() (n int) {
	for _, r := range w {
		n += r.Count
	}
	return n
}

// add is the window with n more releases at a time, or fewer where n is negative.
func (w window) add(at time.Time, n, of int) window {
	at = at.UTC().Truncate(time.Second)
	next, minute := slices.Clone(w), at.Truncate(time.Minute)
	i := slices.IndexFunc(next, func(r releaseCount) bool { return r.At.Truncate(time.Minute).Equal(minute) })
	if i < 0 {
		i, next = len(next), append(next, releaseCount{At: at, Of: of})
	}
	next[i].At, next[i].Count = maxTime(next[i].At, at), next[i].Count+n
	return slices.DeleteFunc(next, func(r releaseCount) bool { return r.Count <= 0 })
}

// breaker says why n more unconfirmed releases are refused: they would be more than half of the allocations within an
// hour. "" is no refusal.
func (w window) breaker(now time.Time, n, total int) string {
	w = w.lastHour(now)
	n += w.total()
	if len(w) > 0 {
		total = w[0].Of
	}
	if n <= breakerFloor || 2*n <= total {
		return ""
	}
	return fmt.Sprintf("%d unconfirmed releases within an hour of %d allocations look like a fault elsewhere; "+
		"check a few with 'ip-reconcile explain' and, if they are right, run with --allow-mass-release", n, total)
}

// BreakerState is what the breaker counts: the unconfirmed releases within the last hour.
type BreakerState struct {
	Releases int
	Of       int       // the number of allocations before them; 0 where none was released
	Until    time.Time // when the first one stops counting; zero for none
	Refusal  string    // why one more is refused; "" where it is not
	IsShared bool      // the releases of all processes are counted
}

func (w window) state(now time.Time, allocations int, shared bool) BreakerState {
	s := BreakerState{Releases: w.total(), IsShared: shared}
	if len(w) > 0 {
		s.Of, s.Until, s.Refusal = w[0].Of, w[0].At.Add(time.Hour), w.breaker(now, 1, allocations)
	}
	return s
}

// ReadBreaker decodes what a BreakerStore keeps. After an error nothing unconfirmed is released.
func ReadBreaker(kept string, now time.Time, allocations int) (BreakerState, error) {
	w, err := readWindow(kept, now)
	return w.state(now, allocations, true), err
}

// Breaker returns what the breaker counts at a judgement. It changes nothing.
func (r *Reconciler) Breaker(ctx context.Context, j *findings.Assessment) (BreakerState, error) {
	if err := r.readReleases(ctx, j.Observation.Now); err != nil {
		return BreakerState{}, err
	}
	return r.Process.releases.state(j.Observation.Now, j.Total, r.BreakerStore != nil && !r.Process.isStoreForbidden), nil
}

// readReleases takes over the releases that other processes have counted.
func (r *Reconciler) readReleases(ctx context.Context, now time.Time) error {
	return r.updateWindow(ctx, now, true, func(w window) window { return w })
}

// updateWindow changes the window in the BreakerStore, or that of this process where RBAC forbids the store. With isDry
// it writes nothing.
func (r *Reconciler) updateWindow(ctx context.Context, now time.Time, isDry bool, change func(window) window) error {
	process := r.Process
	if r.BreakerStore != nil && !process.isStoreForbidden {
		err := r.BreakerStore.Update(ctx, func(kept string) (string, error) {
			w, err := readWindow(kept, now)
			if err != nil {
				return "", err
			}
			if process.releases = change(w); isDry {
				return kept, nil
			}
			return process.releases.text()
		})
		if !errors.Is(err, ErrForbidden) {
			return err
		}
		if process.isStoreForbidden = true; !isDry || r.Options.DryRun { // a view logs nothing
			r.Log.Warn("The breaker counts only the releases of this process: forbidden", "error", err)
		}
	}
	process.releases = change(process.releases.lastHour(now))
	return nil
}

// countInWindow counts the unconfirmed releases of a plan before they are made, because the process may end half-way.
// The plan refuses them if the releases of all processes are too many, or cannot be counted. n is how many it counts,
// or with isDry would count.
func (r *Reconciler) countInWindow(ctx context.Context, j *findings.Assessment, plan *Plan, isDry bool) (n int) {
	for _, it := range plan.Release {
		if !it.Proven {
			n++
		}
	}
	if n == 0 {
		return 0
	}
	now, why, text := j.Observation.Now, Breaker, ""
	err := r.updateWindow(ctx, now, isDry, func(w window) window {
		if text = w.breaker(now, plan.unconfirmed, j.Total); text != "" && !r.Options.AllowMassRelease {
			return w
		}
		if text = ""; isDry {
			return w
		}
		return w.add(now, n, j.Total)
	})
	if err != nil {
		why = WriteFailed
		text = fmt.Sprintf("cannot count releases for the breaker, so nothing unconfirmed is released: %v", err)
	}
	if text == "" {
		return n
	}
	plan.refuseUnconfirmed(Gate{Why: why, Detail: text})
	return 0
}

// correctWindow corrects the count: only releases that were made count.
func (r *Reconciler) correctWindow(ctx context.Context, j *findings.Assessment, intended int, released []*judge.Item) {
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
	err := r.updateWindow(ctx, now, false, func(w window) window { return w.add(now, n-intended, j.Total) })
	if err != nil {
		r.Log.Warn("The breaker counts releases that were not made for an hour", "counted", intended, "made", n, "error", err)
	}
}
