package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

const breakerFloor = 20 // how many unconfirmed releases the breaker always allows

// Window counts the unconfirmed releases of the last hour, in order, one count a minute.
type Window []releaseCount

// releaseCount is how many unconfirmed releases a minute had, or was about to have.
type releaseCount struct {
	At    time.Time `json:"at"` // of the last one, by the API server's clock
	Count int       `json:"count"`
	Of    int       `json:"of"` // allocations before the first one
}

// ReadWindow decodes a window. Releases of the future count as of now, since a clock may have been wrong.
func ReadWindow(kept string, now time.Time) (w Window, err error) {
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
	return w.LastHour(now), nil
}

// Text encodes the window for ReadWindow.
func (w Window) Text() (string, error) {
	if len(w) == 0 {
		return "", nil
	}
	text, err := json.Marshal(w)
	return string(text), err
}

// LastHour is the part of the window that counts at a time.
func (w Window) LastHour(now time.Time) Window {
	return slices.DeleteFunc(slices.Clone(w), func(r releaseCount) bool { return now.Sub(r.At) > time.Hour })
}

func (w Window) total() (n int) {
	for _, r := range w {
		n += r.Count
	}
	return n
}

// Add is the window with n more releases at a time, or fewer where n is negative.
func (w Window) Add(at time.Time, n, of int) Window {
	at = at.UTC().Truncate(time.Second)
	next, minute := slices.Clone(w), at.Truncate(time.Minute)
	i := slices.IndexFunc(next, func(r releaseCount) bool { return r.At.Truncate(time.Minute).Equal(minute) })
	if i < 0 {
		i, next = len(next), append(next, releaseCount{At: at, Of: of})
	}
	next[i].At, next[i].Count = later(next[i].At, at), next[i].Count+n
	return slices.DeleteFunc(next, func(r releaseCount) bool { return r.Count <= 0 })
}

// refusal says why n more unconfirmed releases are refused: they would be more than half of the allocations within an
// hour. "" is no refusal.
func (w Window) refusal(now time.Time, n, total int) string {
	w = w.LastHour(now)
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

// CountUnconfirmed is how many of the releases the breaker counts. Proven ones do not count, nor do reservations that
// are released with their allocation.
func CountUnconfirmed(releases []*judge.Item) (n int) {
	for _, it := range releases {
		if !it.Proven && (it.Allocation != nil || len(it.Related()) == 0) {
			n++
		}
	}
	return n
}

// BreakerState is what the breaker counts: the unconfirmed releases within the last hour.
type BreakerState struct {
	Releases int
	Of       int       // the number of allocations before them; 0 where none was released
	Until    time.Time // when the first one stops counting; zero for none
	Refusal  string    // why one more is refused; "" where it is not
	IsShared bool      // the releases of all processes are counted
}

// State is what the breaker counts at a time, in a cluster with so many allocations.
func (w Window) State(now time.Time, allocations int, shared bool) BreakerState {
	s := BreakerState{Releases: w.total(), IsShared: shared}
	if len(w) > 0 {
		s.Of, s.Until, s.Refusal = w[0].Of, w[0].At.Add(time.Hour), w.refusal(now, 1, allocations)
	}
	return s
}

// ReadBreaker decodes what the store of the breaker keeps. After an error nothing unconfirmed is released.
func ReadBreaker(kept string, now time.Time, allocations int) (BreakerState, error) {
	w, err := ReadWindow(kept, now)
	return w.State(now, allocations, true), err
}
