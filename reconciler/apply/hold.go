package apply

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// maxWriteLatency is how long a write may take. A write begins within 700 ms of a renewal, and others may take a Lease
// 1.5 s after it. A server that needs longer than the difference is too slow, whatever it answers.
const maxWriteLatency = 800 * time.Millisecond

// hold is a session, and how long the executor uses it.
type hold struct {
	Session
	until  time.Time   // when new changes must not begin any more; zero for no such time
	isSlow atomic.Bool // a write took longer than maxWriteLatency
}

func newHold(s Session) *hold { return &hold{Session: s, until: s.Until()} }

func (h *hold) covers(leases []string) bool {
	held := h.Leases()
	return held == nil || !slices.ContainsFunc(leases, func(l string) bool { return !slices.Contains(held, l) })
}

// missing is the error of a change for whose Leases the hold lacks one.
func (h *hold) missing(leases []string) error {
	forbidden := h.Forbidden()
	for _, l := range leases {
		if slices.Contains(forbidden, l) {
			return fmt.Errorf("%w: Lease %s", ErrLeaseForbidden, l)
		}
	}
	return ErrLeaseMissing
}

// mayBegin reports whether a new change may begin, which is not needed to complete another one.
func (h *hold) mayBegin(c clock.PassiveClock) bool {
	return h.mayWrite() && (h.until.IsZero() || c.Now().Before(h.until))
}

func (h *hold) mayWrite() bool { return !h.isSlow.Load() && h.IsOpen() }

// noteLatency records how long a write took. A slow write ends the hold, unless no Lease is needed.
func (h *hold) noteLatency(took time.Duration) {
	if h.Leases() != nil && took > maxWriteLatency {
		h.isSlow.Store(true)
	}
}
